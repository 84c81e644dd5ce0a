"""What replays will take, known before any has run: their steps are counted, at the speeds of docs/performance.md.

Those are one machine's, and a policy that prunes takes more steps than are counted here: it is told as "about", and the
work's own first seconds say better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simtool.progress import Expected
from simtool.replay.compiled.kernel import default_simulator
from simtool.replay.scenario import SimulatorChoice
from simtool.study.runner import Setting
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class _Speed:
    """CPU seconds of a step: what any takes, and what each sequence of the batch adds."""

    step_s: float
    sequence_s: float

    def seconds(self, steps: float, batch: int) -> float:
        return steps * (self.step_s + batch * self.sequence_s)


_SIMPY = _Speed(140e-6, 2e-6)
#: Of the compiled simulator: the first replay of a source under a placement plans it, the others price its plan.
_FIRST, _FURTHER = _Speed(3e-6, 2e-6), _Speed(1e-6, 0.15e-6)
_PREFILLS_A_REQUEST = 0.7


def expect(work: Iterable[tuple[Setting, int]], processes: int) -> Expected:
    """Return what it takes to replay so many placements under each setting, every one with the setting's seeds."""
    replays, steps, seconds = 0, 0.0, 0.0
    for setting, placements in work:
        seeds = max(len(setting.seeds), 1)
        simulator = setting.simulator or default_simulator()
        each, spent_s = _of_one(setting.source, setting.concurrency, seeds, simulator)
        replays += placements * seeds
        steps += placements * seeds * each
        seconds += placements * spent_s / (processes if simulator == "simpy" else 1)
    return _told(replays, steps, seconds)


def expect_replays(
    source: Trace,
    concurrency: int,
    placements: int,
    seeds: int,
    simulator: SimulatorChoice,
    served: Sequence[int] | None = None,
) -> Expected:
    """Return what it takes to replay so many placements under so many seeds, one after the other.

    served: output tokens of the requests that are served instead of the source's own.
    """
    each, spent_s = _of_one(source, concurrency, seeds, simulator, served)
    return _told(placements * seeds, placements * seeds * each, placements * spent_s)


def _of_one(
    source: Trace, concurrency: int, seeds: int, simulator: SimulatorChoice, served: Sequence[int] | None = None
) -> tuple[float, float]:
    """Steps of a replay, and the seconds of all seeds of one placement."""
    tokens = source.columns("requests", "output_tokens")["output_tokens"].to_list() if served is None else served
    batch = max(min(concurrency, len(tokens)), 1)
    steps = sum(tokens) / (_emitted(source) * batch) + _PREFILLS_A_REQUEST * len(tokens)
    if simulator == "simpy":
        return steps, seeds * _SIMPY.seconds(steps, batch)
    return steps, _FIRST.seconds(steps, batch) + (seeds - 1) * _FURTHER.seconds(steps, batch)


def _emitted(source: Trace) -> float:
    """Mean tokens that a sequence emits in a step at full width: of the known outcomes, else of the recorded rows."""
    matched = source.columns("outcomes", "match_run")["match_run"].cast(float).mean()
    if isinstance(matched, float):
        return matched + 1
    emitted = source.columns("rows", "emitted")["emitted"].cast(float).mean()
    return emitted if isinstance(emitted, float) else 1.0


def _told(replays: int, steps: float, seconds: float) -> Expected:
    mean = steps / replays if replays else 0.0
    return Expected(seconds, f"{replays:,} replays of some {mean:,.0f} steps, at the speeds in docs/performance.md")
