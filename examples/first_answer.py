"""From a recording to an answer, cell by cell: what would this run have done under other placements?

Each `# %%` starts a cell (VS Code, Jupyter with jupytext); as a script: `python examples/first_answer.py`.
"""

# %% Open a recording: requests, steps, events, and what the drafter would have drafted at every position.
from dataclasses import replace
from pathlib import Path

import simtool as st

ROOT = Path(__file__).parents[1]
trace = st.open_trace(ROOT / "traces" / "sl7-this-step")
print(f"{trace.path.name}: {trace.placement.name}, {trace.table('requests').height} requests")
recorded = st.summarise(trace)
print(f"{recorded.tokens_per_s:.0f} tokens/s, acceptance length {recorded.acceptance_length:.2f}")
# A recording of your own (needs the engine extra):
#     trace = st.record("traces/local/mine", "this-step", st.RecordSettings(concurrency=8, every_anchor=True))

# %% What a step costs on this machine: a profile, fitted to recordings of several placements.
profile = st.load_profile(ROOT / "models" / "profiles" / "measured-sl7.json")
# Of your own recordings: profile = st.with_proxies(st.calibrate([trace, another], refits=20))
print(f"{profile.name}: {len(profile.decode.host)} host ops, {len(profile.decode.device)} kinds of device work")

# %% The same requests, token for token, under other placements.
names = ("static", "this-step", "lag", "lag-overlap")
replayed = {name: st.replay(trace, profile, st.scenario(trace, profile, name)).trace() for name in names}
for name, found in replayed.items():
    print(f"{name:<12} {st.summarise(found).tokens_per_s:7.0f} tokens/s")

# %% Is the replay to be trusted? Under the recorded placement and controller it repeats the recorded steps, row by row.
as_recorded = st.scenario(trace, profile, trace.placement, controller=st.ControllerOptions(predictor="trace"))
columns = ["step", "request_id", "anchor_position", "prefix_len", "accepted", "emitted"]
again = st.replay(trace, profile, as_recorded).trace().table("rows").select(columns)
print(f"rows that differ from the recording: {again.join(trace.table('rows'), on=columns, how='anti').height}")

# %% The answer, with its interval.
print(st.compare(list(replayed.values())))

# %% A placement of your own, and a what-if: how much does the decision's own cost matter?
own = st.load_placement(ROOT / "docs" / "placements" / "lag-in-place.toml")
free = st.with_changes(profile, ["decide=0"])
for costs, label in ((profile, "as measured"), (free, "a free decision")):
    summary = st.summarise(st.replay(trace, costs, st.scenario(trace, costs, own)).trace())
    print(f"{own.name}, {label}: mean step {(summary.step.mean_ns or 0) / 1e6:.2f} ms")

# %% How sure is that? Noise from the recording, drawn alike under every placement, at two concurrencies.
swept = st.sweep([trace], ["this-step", "lag-overlap"], [4, 8], profile=profile, seeds=2)
print(swept.table.select("placement", "concurrency", "seed", "tokens_per_s", "acceptance_length"))

# %% A single replay, changed by hand: requests arrive at random, two a second.
base = st.scenario(trace, profile, "lag")
open_loop = st.replay(trace, profile, replace(base, arrivals=st.Arrivals("poisson", 2.0))).trace()
print(f"open loop: TTFT p99 {(st.summarise(open_loop).ttft.p99_ns or 0) / 1e6:.0f} ms")
