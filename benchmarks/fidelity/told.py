"""Controllers that are told costs, timed live: docs/policies.md's tables of it, and what verdicts know of it.

python -m benchmarks.fidelity.told record    # ten minutes of a quiet machine; what is there already stays
python -m benchmarks.fidelity.told keep      # each run's figures, beside those of other sittings, into told.json
python -m benchmarks.fidelity.told pages     # from told.json alone

The costs are a profile's that ships, of another machine, so nothing is fitted to these runs; the replays that are set
beside them are of the runs' own outcomes at the same costs. A sitting that was kept before this file was there has what
`record` printed of it: each run's tokens/s, and not what other programs took.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import simtool as st
from benchmarks.fidelity import known
from benchmarks.fidelity.settings import ROOT, WORK
from simtool.analysis.comparison.headline import BASELINE
from simtool.analysis.comparison.noise import MAX_FOREIGN_SHARE
from simtool.analysis.divergence import mismatches
from simtool.files.writing import write_text
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.stats.student import mean_interval
from simtool.step.placement import resolve_placement
from simtool.trace.outcome_coverage import OutcomeCoverage

KEPT = Path(__file__).with_suffix(".json")
PAGE = "docs/policies.md"
BEGIN, END = "<!-- made by benchmarks/fidelity/told.py -->", "<!-- end -->"
REPEATS = 5
#: Placement, and rule where it is not xLLM's scan -> what it is.
ARMS = {
    "this-step": "the host waits for this step's confidence",
    "lag-overlap": "the last step's confidence, nothing waits",
    "lag-overlap-late": "the same, decided behind the draft's launch",
    "this-step@vllm-adaptive": "vLLM's rule; the host waits and splits",
    "lag-overlap-late@forecast": "ours: this step's confidence foretold, nothing waits",
}
UNTOLD = (BASELINE, "this-step", "lag-overlap", "this-step@vllm-adaptive", "lag-overlap-late@forecast")
TOLD = (BASELINE, "this-step", "lag-overlap", "lag-overlap-late")

Document = dict[str, Any]


@dataclass(frozen=True)
class Load:
    """One recording. draft_ms: what controllers are told that a draft takes, by the profile's costs; None: nothing."""

    sl: int
    concurrency: int
    draft_ms: float | None = None

    @property
    def folder(self) -> Path:
        """Where its runs are, a folder each."""
        return WORK / f"told-sl{self.sl}-c{self.concurrency}{'' if self.draft_ms is None else '-draft'}"

    @property
    def source(self) -> Path:
        """The run whose outcomes are replayed: the same requests are served whatever controllers are told."""
        return replace(self, draft_ms=None).folder / f"{BASELINE}-0"

    @property
    def profile(self) -> Path:
        """The costs that controllers are told."""
        return ROOT / "models" / "profiles" / f"measured-sl{self.sl}.json"

    @property
    def arms(self) -> tuple[str, ...]:
        """Who takes turns, static first."""
        return UNTOLD if self.draft_ms is None else TOLD

    @property
    def arguments(self) -> list[str]:
        """What `simtool record` is told."""
        arms = [argument for arm in self.arms for argument in ("--policy", arm)]
        prompts = max(32, 2 * self.concurrency)
        draft = [] if self.draft_ms is None else ["--draft-ms", f"{self.draft_ms:g}"]
        return [*arms, "--algorithm", "dspark", "--sl", str(self.sl), "--concurrency", str(self.concurrency),
                "--num-prompts", str(prompts), "--repeats", str(REPEATS),
                "--predictor", str(self.profile.relative_to(ROOT)), *draft,
                "--out", str(self.folder.relative_to(ROOT))]  # fmt: skip


LOADS = (
    Load(7, 32),
    Load(16, 32),
    Load(7, 32, 7.0),
    Load(16, 32, 12.9),
    Load(7, 8),
    Load(16, 8),
    Load(7, 8, 2.1),
    Load(16, 8, 3.5),
)


def main() -> None:
    """Record what is not there, keep what was recorded, or write the pages of what is kept."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("record", "keep", "pages"))
    what = parser.parse_args().what
    if what == "record":
        for load in LOADS:
            if not load.folder.exists():
                _simtool("record", *load.arguments)
    elif what == "keep":
        _keep([load for load in LOADS if load.folder.exists()])
    else:
        _write(json.loads(KEPT.read_text()))


def _simtool(*arguments: str) -> None:
    print("simtool", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "simtool", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _keep(loads: Sequence[Load]) -> None:
    """Put what was recorded of each load beside its other sittings, in the place of one that ended alike."""
    for path in dict.fromkeys(load.source for load in loads):
        coverage = OutcomeCoverage.of(st.open_trace(path))
        if coverage.filled < coverage.anchors:
            _simtool("fill", str(path))
    kept = {_key(each): each for each in json.loads(KEPT.read_text())}
    for load in loads:
        found, sitting = _measured(load)
        others = kept.get(_key(found), {"sittings": []})["sittings"]
        kept[_key(found)] = found | {
            "sittings": [*(each for each in others if each["ended"] != sitting["ended"]), sitting]
        }
    KEPT.write_text(json.dumps(list(kept.values()), indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {KEPT}")


def _key(kept: Document) -> tuple[int, int, float]:
    return kept["sl"], kept["concurrency"], kept["told"]["draft_ms"]


def _measured(load: Load) -> tuple[Document, Document]:
    """What is known of a load whenever it is recorded, and this sitting."""
    runs = {arm: _runs(load, arm) for arm in load.arms}
    source, profile = st.open_trace(load.source), st.with_proxies(st.load_profile(load.profile))
    manifest, told = source.manifest, recorded_controller(runs["this-step"][0].manifest)
    asked = st.ControllerOptions(draft_ms=load.draft_ms)
    replayed = {arm: _speed(source, profile, st.scenario(source, profile, arm, controller=asked)) for arm in runs}
    rows, differing = _rows(source, profile, runs)
    shares = [[run.manifest.run.others_share or 0.0 for run in many] for many in zip(*runs.values(), strict=True)]
    found = {
        "algorithm": manifest.algorithm,
        "sl": load.sl,
        "concurrency": load.concurrency,
        "models": {role: model["sha256"] for role, model in manifest.models.items()},
        "device_name": manifest.device_name,
        "told": {"costs_of": load.profile.stem, "predictor": told.to_dict()["predictor"], "draft_ms": told.draft_ms},
        "replayed": {arm: round(replayed[arm] / replayed[BASELINE] - 1, 6) for arm in load.arms[1:]},
    }
    sitting = {
        "ended": _ended(load),
        "tokens_per_s": {arm: [round(_live(run), 1) for run in many] for arm, many in runs.items()},
        "others_share": [round(max(each), 4) for each in shares],
        "rows": rows,
        "differing": differing,
    }
    return found, sitting


def _runs(load: Load, arm: str) -> list[st.Trace]:
    stem = resolve_placement(arm).file_stem
    return [st.open_trace(load.folder / f"{stem}-{repeat}") for repeat in range(REPEATS)]


def _ended(load: Load) -> str:
    """When its last repetition was written."""
    written = (load.folder / f"{BASELINE}-{REPEATS - 1}" / "steps.parquet").stat().st_mtime
    return datetime.fromtimestamp(written, UTC).isoformat("T", "minutes")


def _live(run: st.Trace) -> float:
    found = st.summarise(run).steady_tokens_per_s
    if found is None:
        raise SystemExit(f"{run.path}: no step with a full batch")
    return found


def _speed(source: st.Trace, profile: st.Profile, scenario: Scenario) -> float:
    return _live(st.replay(source, profile, scenario).trace())


def _rows(source: st.Trace, profile: st.Profile, runs: dict[str, list[st.Trace]]) -> tuple[int, int]:
    """How many live rows there are, and how many differ from a replay with the controller of the very run."""
    rows = differing = 0
    for arm, many in runs.items():
        controller = recorded_controller(many[0].manifest)
        again = st.replay(source, profile, Scenario(resolve_placement(arm), source.manifest.concurrency, controller))
        replayed = again.trace()
        for run in many:
            compared, wrong = mismatches(run, replayed)
            rows, differing = rows + compared, differing + wrong
    return rows, differing


def setting(kept: Document) -> Document | None:
    """What verdicts know of one load, of all its sittings: quiet repetitions only; None: fewer than 3 of them."""
    used = {arm: _quiet_logs(kept, arm) for arm in kept["replayed"]}
    if min(map(len, used.values())) < 3:
        return None
    names = ("algorithm", "sl", "concurrency", "models", "device_name")
    arms = [_arm(arm, logs, kept["replayed"][arm]) for arm, logs in used.items()]
    counts = {"repetitions": min(map(len, used.values()))}
    return {"page": PAGE, **{name: kept[name] for name in names}, **counts, "told": kept["told"], "arms": arms}


def _quiet_logs(kept: Document, arm: str) -> list[float]:
    """Log of tokens/s over static of each repetition in which the noise gate stayed shut, or that did not note it."""
    return [
        math.log(mine / base)
        for sitting in kept["sittings"]
        for mine, base, others in zip(
            sitting["tokens_per_s"][arm],
            sitting["tokens_per_s"][BASELINE],
            sitting["others_share"] or [0.0] * REPEATS,
            strict=True,
        )
        if others <= MAX_FOREIGN_SHARE
    ]


def _arm(placement: str, logs: Sequence[float], replayed: float) -> Document:
    found = mean_interval(logs).mapped(math.exp)
    if found.bounds is None:
        raise SystemExit(f"{placement}: {found.method}")
    low, high = found.bounds
    shares = {"replayed": replayed, "live": found.mean - 1, "half": (high - low) / 2}
    return {"placement": placement, **{name: round(share, 6) for name, share in shares.items()}}


def _write(kept: Sequence[Document]) -> None:
    """Write the page's tables and what verdicts know."""
    known_now = [(each, made) for each in kept if (made := setting(each)) is not None]
    known.write(PAGE, settings=[made for _, made in known_now])
    path = ROOT / PAGE
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    write_text(path, f"{before}{BEGIN}\n" + "\n".join(_tables(kept, known_now)) + f"\n{END}{after}")
    print(f"wrote {path}")


def _tables(kept: Sequence[Document], known_now: Sequence[tuple[Document, Document]]) -> Iterator[str]:
    sittings = [sitting for each in kept for sitting in each["sittings"]]
    rows, differing = (sum(each[key] or 0 for each in sittings) for key in ("rows", "differing"))
    loud = sum(others > MAX_FOREIGN_SHARE for each in sittings for others in each["others_share"] or ())
    yield "Steady tokens/s over static in percent, live: mean and half of the 95 % interval (Student's t over"
    yield "repetitions in turns); in brackets the replay at the told costs, which are another machine's. Left out:"
    yield f"repetitions in which other programs took more than {MAX_FOREIGN_SHARE:.0%} of the cores ({loud}), and loads"
    yield "that leave fewer than 3."
    yield f"{differing} of {rows:,} live rows differ from their replays."
    for title, told in (
        ("Told what a verify costs (the profile's predictor; vLLM's rule and ours, what whole steps cost):", False),
        ("Told what a draft costs, too:", True),
    ):
        some = [made for _, made in known_now if bool(made["told"]["draft_ms"]) == told]
        if some:
            yield from _table(title, some)


def _table(title: str, found: Sequence[Document]) -> Iterator[str]:
    yield ""
    yield title
    yield ""
    yield f"| order and rule | what it is | {' | '.join(head(each) for each in found)} |"
    yield "|---|---|" + "---:|" * len(found)
    for arm in [each["placement"] for each in found[0]["arms"]]:
        cells = [cell(next(each for each in one["arms"] if each["placement"] == arm)) for one in found]
        yield f"| `{arm}` | {ARMS[arm]} | {' | '.join(cells)} |"
    yield f"| *repetitions* | | {' | '.join(str(each['repetitions']) for each in found)} |"


def head(setting: Document) -> str:
    """What stands above a load's column."""
    draft_ms = setting["told"]["draft_ms"]
    return f"SL {setting['sl']}, {setting['concurrency']} at once" + (f", {draft_ms:g} ms" if draft_ms else "")


def cell(arm: Document) -> str:
    """What the page says of one placement over static, in percent."""
    return f"{arm['live'] * 100:+.1f} ± {arm['half'] * 100:.1f} [{arm['replayed'] * 100:+.1f}]"


if __name__ == "__main__":
    main()
