"""The numbers of a run that every table shows, in one order, with how each is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simtool.analysis.metrics import Summary
from simtool.units import format_ns


@dataclass(frozen=True)
class Number:
    """One column. key: its name in JSON documents. pattern: a format of plain numbers; None: a duration in ns."""

    name: str
    key: str
    get: Callable[[Summary], float | None]
    pattern: str | None = None

    def text(self, *runs: Summary) -> str:
        """Return the value, or its mean over runs, as people read it; a dash where a run has none."""
        values = [value for run in runs if (value := self.get(run)) is not None]
        if not values or len(values) < len(runs):
            return "-"
        return self.write(sum(values) / len(values))

    def write(self, value: float) -> str:
        """Return a value of this number as people read it."""
        return format_ns(value) if self.pattern is None else format(value, self.pattern)


NUMBERS = (
    Number("steady tok/s", "steady_tokens_per_s", lambda s: s.steady_tokens_per_s, ",.0f"),
    Number("whole-run tok/s", "whole_run_tokens_per_s", lambda s: s.tokens_per_s, ",.0f"),
    Number("TPOT mean", "TPOT_mean_ns", lambda s: s.tpot.mean_ns),
    Number("TPOT p50", "TPOT_p50_ns", lambda s: s.tpot.p50_ns if s.tpot.count else None),
    Number("TPOT p99", "TPOT_p99_ns", lambda s: s.tpot.p99_ns if s.tpot.count else None),
    Number("acceptance rate", "accept_rate", lambda s: s.acceptance_rate, ".3f"),
    Number("acceptance length", "accept_length", lambda s: s.acceptance_length, ".2f"),
    Number("step", "step_ns", lambda s: s.step.mean_ns),
    Number("device idle/step", "device_idle_per_step_ns", lambda s: s.device_idle_per_step_ns),
    Number("host exposed/step", "host_exposed_per_step_ns", lambda s: s.exposed_per_step_ns),
)

#: What requests wait for. Only where they arrive over time: in a closed loop all but the first few queue by design.
WAITS = (
    Number("queued p50", "queued_p50_ns", lambda s: s.queued.p50_ns if s.queued.count else None),
    Number("queued p99", "queued_p99_ns", lambda s: s.queued.p99_ns if s.queued.count else None),
    Number("TTFT p50", "TTFT_p50_ns", lambda s: s.ttft.p50_ns if s.ttft.count else None),
    Number("TTFT p99", "TTFT_p99_ns", lambda s: s.ttft.p99_ns if s.ttft.count else None),
)
