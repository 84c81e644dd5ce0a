"""What replays will take, known before any has run: their steps are counted, at the speeds of docs/performance.md.

Those are one machine's, and a policy that prunes takes more steps than are counted here: it is told as "about", and the
work's own first seconds say better.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simtool.progress import Expected
from simtool.replay.scenario import SimulatorChoice
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class CountedReplays:
    """CountedReplays of so many placements, each under so many seeds. processes: that share them.

    served: output tokens of the requests that are served instead of the source's own.
    """

    source: Trace
    concurrency: int
    placements: int
    seeds: int
    simulator: SimulatorChoice
    processes: int = 1
    served: Sequence[int] | None = None

    @property
    def count(self) -> int:
        """How many replays they are."""
        return self.placements * self.seeds

    def steps_and_seconds(self) -> tuple[float, float]:
        """Return the steps of one of them, and the seconds that all take."""
        own = self.source.columns("requests", "output_tokens")["output_tokens"].to_list()
        tokens = own if self.served is None else self.served
        batch = max(min(self.concurrency, len(tokens)), 1)
        steps = sum(tokens) / (_emitted(self.source) * batch) + _PREFILLS_A_REQUEST * len(tokens)
        if self.simulator == "simpy":
            return steps, self.count * _SIMPY.seconds(steps, batch) / self.processes
        one = _FIRST.seconds(steps, batch) + (self.seeds - 1) * _FURTHER.seconds(steps, batch)
        return steps, self.placements * one


def expect(work: Iterable[CountedReplays]) -> Expected:
    """Return what it takes to do all of them, one group after the other."""
    count, steps, seconds = 0, 0.0, 0.0
    for each in work:
        of_one, spent_s = each.steps_and_seconds()
        count, steps, seconds = count + each.count, steps + each.count * of_one, seconds + spent_s
    mean = steps / count if count else 0.0
    return Expected(seconds, f"{count:,} replays of some {mean:,.0f} steps, at the speeds in docs/performance.md")


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


def _emitted(source: Trace) -> float:
    """Mean tokens that a sequence emits in a step at full width: of the known outcomes, else of the recorded rows."""
    matched = source.columns("outcomes", "match_run")["match_run"].cast(float).mean()
    if isinstance(matched, float):
        return matched + 1
    emitted = source.columns("rows", "emitted")["emitted"].cast(float).mean()
    return emitted if isinstance(emitted, float) else 1.0
