"""Controllers that are told costs, timed live: docs/policies.md's tables of it, and what verdicts know of it.

python -m benchmarks.fidelity.told record    # ten minutes of a quiet machine; what is there already is kept
python -m benchmarks.fidelity.told pages     # from what was recorded; minutes, no quiet machine

The costs are a profile's that ships, of another machine, so nothing is fitted to these runs; the replays that are set
beside them are of the runs' own outcomes at the same costs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import simtool as st
from benchmarks.fidelity import known
from benchmarks.fidelity.settings import ROOT, WORK
from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.comparison.headline import BASELINE
from simtool.analysis.divergence import mismatches
from simtool.files.writing import write_text
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.step.placement import resolve_placement

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
TOLD = (BASELINE, "this-step", "lag-overlap", "lag-overlap-late", "lag-overlap-late@forecast")

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
    """Record what is not there, or write the pages of what is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("record", "pages"))
    if parser.parse_args().what == "record":
        for load in LOADS:
            if not load.folder.exists():
                _simtool("record", *load.arguments)
        return
    found = [judged(load) for load in LOADS if load.folder.exists()]
    known.write(PAGE, settings=[_setting(each) for each in found])
    path = ROOT / PAGE
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    write_text(path, f"{before}{BEGIN}\n" + "\n".join(_tables(found)) + f"\n{END}{after}")
    print(f"wrote {path}")


def _simtool(*arguments: str) -> None:
    print("simtool", *arguments, flush=True)
    subprocess.run([sys.executable, "-m", "simtool", *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def judged(load: Load) -> Document:
    """Compare what was recorded with static, live and replayed, and count the rows that differ from their replays."""
    runs = {arm: _runs(load, arm) for arm in load.arms}
    first = load.folder / f"{BASELINE}-0"
    _simtool("fill", str(first))
    source, profile = st.open_trace(first), st.with_proxies(st.load_profile(load.profile))
    (group,) = st.compare([run for many in runs.values() for run in many], baseline=BASELINE).verdicts
    live = {each.other.removesuffix(" (live)"): each for each in group.comparisons}
    asked = st.ControllerOptions(draft_ms=load.draft_ms)
    speeds = {arm: _speed(source, profile, st.scenario(source, profile, arm, controller=asked)) for arm in runs}
    rows, differing = _rows(source, profile, runs)
    return {
        "load": load,
        "manifest": source.manifest,
        "told": recorded_controller(runs["this-step"][0].manifest),
        "arms": [_arm(arm, live[arm], speeds[arm] / speeds[BASELINE] - 1) for arm in load.arms[1:]],
        "rows": rows,
        "differing": differing,
        "others": group.load,
    }


def _runs(load: Load, arm: str) -> list[st.Trace]:
    stem = resolve_placement(arm).file_stem
    return [st.open_trace(load.folder / f"{stem}-{repeat}") for repeat in range(REPEATS)]


def _speed(source: st.Trace, profile: st.Profile, scenario: Scenario) -> float:
    found = st.summarise(st.replay(source, profile, scenario).trace()).steady_tokens_per_s
    if found is None:
        raise SystemExit(f"{source.path}: no step with a full batch")
    return found


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


def _arm(placement: str, live: Comparison, replayed: float) -> Document:
    if live.found.bounds is None:
        raise SystemExit(f"{placement}: {live.method}")
    low, high = live.found.bounds
    shares = {"replayed": replayed, "live": live.ratio - 1, "half": (high - low) / 2}
    return {"placement": placement, **{name: round(share, 6) for name, share in shares.items()}}


def _setting(found: Document) -> Document:
    """What verdicts know of one recording."""
    load, manifest, told = found["load"], found["manifest"], found["told"]
    return {
        "page": PAGE,
        "algorithm": manifest.algorithm,
        "sl": load.sl,
        "concurrency": load.concurrency,
        "models": {role: model["sha256"] for role, model in manifest.models.items()},
        "device_name": manifest.device_name,
        "repetitions": REPEATS,
        "told": {"costs_of": load.profile.stem, "predictor": asdict(told.predictor), "draft_ms": told.draft_ms},
        "arms": found["arms"],
    }


def _tables(found: Sequence[Document]) -> Iterator[str]:
    devices = sorted({each["manifest"].device_name for each in found})
    busiest = max(each["others"].worst or 0.0 for each in found)
    rows, differing = (sum(each[key] for each in found) for key in ("rows", "differing"))
    yield (
        f"Steady tokens/s over static, live on {' and '.join(devices)}: mean and half of the 95 % interval over "
        f"{REPEATS} repetitions in turns; in brackets the replay at the told costs, which are another machine's. Other "
        f"programs took at most {busiest * 100:.1f} % of the cores. {differing} of {rows:,} live rows differ from "
        "their replays."
    )
    for title, told in (
        ("Told what a verify costs (the profile's predictor; vLLM's rule and ours, what whole steps cost):", False),
        ("Told what a draft costs, too:", True),
    ):
        some = [each for each in found if (each["load"].draft_ms is not None) == told]
        if some:
            yield from _table(title, some)


def _table(title: str, found: Sequence[Document]) -> Iterator[str]:
    yield ""
    yield title
    yield ""
    yield f"| order and rule | what it is | {' | '.join(head(each['load']) for each in found)} |"
    yield "|---|---|" + "---:|" * len(found)
    for arm in found[0]["load"].arms[1:]:
        cells = [cell(next(each for each in one["arms"] if each["placement"] == arm)) for one in found]
        yield f"| `{arm}` | {ARMS[arm]} | {' | '.join(cells)} |"


def head(load: Load) -> str:
    """What stands above its column."""
    draft = "" if load.draft_ms is None else f", {load.draft_ms:g} ms"
    return f"SL {load.sl}, {load.concurrency} at once{draft}"


def cell(arm: Document) -> str:
    """What the page says of one placement over static, in percent."""
    return f"{arm['live'] * 100:+.1f} ± {arm['half'] * 100:.1f} [{arm['replayed'] * 100:+.1f}]"


if __name__ == "__main__":
    main()
