"""Costs fitted in one setting, judged in another: what `docs/fidelity.md` says beyond its own settings.

python -m benchmarks.fidelity.across     # from what `benchmarks.fidelity.run` recorded; minutes, no quiet machine

Writes traces/local/fidelity/across.json. The arms that are judged decide as they did live (the judged run's own
controller), so that only costs are another setting's; every error is that of a noise-free replay beside the mean of
the live repetitions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import simtool as st
from benchmarks.fidelity.settings import ROOT, WORK
from simtool.analysis.comparison.headline import BASELINE
from simtool.profile.scaling import scaled
from simtool.replay.scenario import Scenario, recorded_controller


@dataclass(frozen=True)
class Runs:
    """Runs that costs are fitted to: a setting's, those of some placements only (none: all), so many repetitions."""

    setting: str
    arms: tuple[str, ...] = ()
    repetitions: int = 5


@dataclass(frozen=True)
class Question:
    """Which costs are put to which runs: in words for the page, the setting that is judged, and what is fitted."""

    says: str
    judged: str
    fitted: tuple[Runs, ...]

    @property
    def same_setting(self) -> bool:
        """Whether costs are of the judged setting, all arms."""
        return self.fitted == (Runs(self.judged),)

    @property
    def fitted_at(self) -> int | None:
        """The concurrency of costs that differ in nothing else; None: they do, or not in that."""
        if len(self.fitted) != 1 or self.same_setting or self.fitted != (Runs(self.fitted[0].setting),):
            return None
        (drafter, _, at), (judged, _, _) = (name.rpartition("-c") for name in (self.fitted[0].setting, self.judged))
        return int(at) if drafter == judged else None


def main() -> None:
    """Judge every question whose runs are there."""
    found = [
        row
        for question in _questions()
        if all(_there(name) for name in (question.judged, *(runs.setting for runs in question.fitted)))
        for row in _judge(question, _fit(question.fitted))
    ]
    for judged in ("time-dspark-sl7-c8", "time-dspark-sl16-c8"):
        if _there(judged):
            found += _another_machine(judged)
    path = WORK / "across.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"wrote {path}: {len(found)} rows")


def _there(setting: str) -> bool:
    return (WORK / setting / "validation.json").exists()


def _questions() -> Iterator[Question]:
    for drafter in ("dspark-sl7", "dspark-sl16", "dflash-sl7", "dflash-sl16"):
        place = {concurrency: f"time-{drafter}-c{concurrency}" for concurrency in (1, 8, 16, 32)}
        for here in place.values():
            yield Question("fitted in the same setting", here, (Runs(here),))
        for fitted, judged in ((8, 32), (32, 8), (8, 16), (16, 32), (8, 1), (1, 8)):
            yield Question(f"fitted at concurrency {fitted}", place[judged], (Runs(place[fitted]),))
        for judged in (8, 16, 32):
            both = (Runs(place[8]), Runs(place[32]))
            yield Question("fitted at concurrency 8 and 32 together", place[judged], both)
        one_run = (Runs(place[8]), Runs(place[32], (BASELINE,), 1))
        yield Question("fitted at concurrency 8 and one static run at 32", place[32], one_run)
        for at in (8, 32):
            # static alone never reads a confidence: a profile of it refuses to price a placement that does
            some = (Runs(place[at], (BASELINE, "this-step")),)
            yield Question("fitted on static and this-step only", place[at], some)
    for algorithm in ("dspark", "dflash"):
        for at in (8, 32):
            for fitted, judged in ((7, 16), (16, 7)):
                there = (Runs(f"time-{algorithm}-sl{fitted}-c{at}"),)
                yield Question(f"fitted at SL {fitted}", f"time-{algorithm}-sl{judged}-c{at}", there)


@cache
def _fit(fitted: tuple[Runs, ...]) -> st.Profile:
    traces = [
        st.open_trace(path)
        for runs in fitted
        for path in sorted((WORK / runs.setting / "fit").iterdir())
        if not runs.arms or path.name.rsplit("-", 1)[0] in runs.arms
        if int(path.name.rsplit("-", 1)[1]) < runs.repetitions
    ]
    return st.calibrate(traces, name=fitted[0].setting, created="", refits=0)


def _judge(question: Question, profile: st.Profile) -> Iterator[dict[str, Any]]:
    """Yield a row an arm: step time and steady tokens/s, replayed beside live, and both over static."""
    live = _live(question.judged)
    source = st.open_trace(WORK / question.judged / "live" / f"{BASELINE}-0")
    replayed = {arm: _replay(source, profile, arm) for arm in live}
    for arm, (step_ns, speed, ratio, half) in live.items():
        got_ns, got_speed = replayed[arm]
        yield {
            "says": question.says,
            "fitted": question.fitted_at,
            "judged": question.judged,
            "same_setting": question.same_setting,
            "arm": arm,
            "live_step_ns": step_ns,
            "step_ns": got_ns,
            "live_tokens_per_s": speed,
            "tokens_per_s": got_speed,
            "live_over_static": ratio,
            "live_over_static_half": half,
            "over_static": got_speed / replayed[BASELINE][1],
        }


def _live(setting: str) -> dict[str, tuple[float, float, float, float]]:
    """Arm -> live step time in ns, steady tokens/s, their ratio to static's and half of its 95 % interval."""
    document = json.loads((WORK / setting / "validation.json").read_text())
    measured = {(each["arm"], each["measure"]): each["measured"] for each in document["judged"]}
    over = {each["other"]: each for each in document["pairs"] if each["baseline"] == BASELINE}
    found = {}
    for arm in dict.fromkeys(arm for arm, _ in measured):
        pair = over.get(arm)
        ratio, half = (pair["measured"], (pair["high"] - pair["low"]) / 2) if pair else (1.0, 0.0)
        found[arm] = (measured[arm, "step time"], measured[arm, "steady tok/s"], ratio, half)
    return found


def _replay(source: st.Trace, profile: st.Profile, arm: str) -> tuple[float, float]:
    manifest = source.manifest
    scenario = Scenario(st.PLACEMENTS[arm], manifest.concurrency, recorded_controller(manifest))
    summary = st.summarise(st.replay(source, st.with_proxies(profile), scenario).trace())
    if summary.step.mean_ns is None or summary.steady_tokens_per_s is None:
        raise SystemExit(f"{source.path}: no step with a full batch")
    return summary.step.mean_ns, summary.steady_tokens_per_s


def _another_machine(judged: str) -> Iterator[dict[str, Any]]:
    """Costs of another host (a profile that ships), as they are, and scaled by what one static run here shows."""
    sl = str(json.loads((WORK / judged / "validation.json").read_text())["setting"]["sl"])
    theirs = st.load_profile(ROOT / "models" / "profiles" / f"slower-xeon-sl{sl}.json")
    yield from _judge(Question("fitted on another machine, as it is", judged, ()), theirs)
    here = _fit((Runs(judged, (BASELINE,), 1),))
    source = st.open_trace(WORK / judged / "fit" / "static-0")
    host, device = _speeds(source, theirs, here)
    says = f"fitted on another machine, host x {host:.2f} and device x {device:.2f} from one static run here"
    adapted = scaled(theirs, theirs.name, host=host, device=device, latency=host)
    yield from _judge(Question(says, judged, ()), adapted)


def _speeds(source: st.Trace, theirs: st.Profile, here: st.Profile) -> tuple[float, float]:
    """How much longer host work and device work take here than there, by replays of one static run with both."""
    scenario = Scenario(st.PLACEMENTS[BASELINE], source.manifest.concurrency, recorded_controller(source.manifest))
    ours, others = (
        st.summarise(st.replay(source, st.with_proxies(costs), scenario).trace()) for costs in (here, theirs)
    )
    return ours.host_busy_ns / others.host_busy_ns, _device_ns(ours) / _device_ns(others)


def _device_ns(summary: st.Summary) -> float:
    return summary.step.total_ns - summary.device_idle_ns


if __name__ == "__main__":
    main()
