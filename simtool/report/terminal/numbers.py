"""The numbers of a run that every table shows, in one order, with how each is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simtool.analysis.metrics import Summary
from simtool.units import format_ns


@dataclass(frozen=True)
class Number:
    """One figure. key: its name in JSON documents. pattern: a format of plain numbers; None: a duration in ns. head:
    what it is called where columns must be narrow.
    """

    name: str
    key: str
    get: Callable[[Summary], float | None]
    pattern: str | None = None
    head: str = ""

    def text(self, *runs: Summary) -> str:
        """Return the value, or its mean over runs, as people read it; a dash where a run has none."""
        values = [value for run in runs if (value := self.get(run)) is not None]
        if not values or len(values) < len(runs):
            return "-"
        return self.write(sum(values) / len(values))

    def write(self, value: float) -> str:
        """Return a value of this number as people read it."""
        return format_ns(value) if self.pattern is None else format(value, self.pattern)


STEADY = Number("steady tok/s", "steady_tokens_per_s", lambda s: s.steady_tokens_per_s, ",.0f", "tok/s")
WHOLE_RUN = Number("whole-run tok/s", "whole_run_tokens_per_s", lambda s: s.tokens_per_s, ",.0f", "run tok/s")
TPOT = Number("TPOT mean", "tpot_mean_ns", lambda s: s.tpot.mean_ns, head="TPOT")
ACCEPTED = Number("acceptance length", "acceptance_length", lambda s: s.acceptance_length, ".2f", "accept")
STEP = Number("step (all)", "step_ns", lambda s: s.step.mean_ns, head="step (all)")
EXPOSED = Number("host exposed/step", "host_exposed_per_step_ns", lambda s: s.exposed_per_step_ns, head="host")

NUMBERS = (
    STEADY,
    WHOLE_RUN,
    TPOT,
    Number("TPOT p50", "tpot_p50_ns", lambda s: s.tpot.p50_ns if s.tpot.count else None),
    Number("TPOT p99", "tpot_p99_ns", lambda s: s.tpot.p99_ns if s.tpot.count else None),
    Number("acceptance rate", "acceptance_rate", lambda s: s.acceptance_rate, ".3f"),
    ACCEPTED,
    STEP,
    Number("device idle/step", "device_idle_per_step_ns", lambda s: s.device_idle_per_step_ns),
    EXPOSED,
)

#: What a table of runs shows of them, where --verbose is not given.
SHORT = (TPOT, ACCEPTED, STEP, EXPOSED)
#: What the heads of SHORT mean.
SHORT_HEADS = (
    "TPOT: mean time per output token; accept: acceptance length (accepted + 1); step (all): over all decode steps, "
    "while the batch fills and drains too; host: of it, host work that the idle device waited for"
)

#: What requests wait for. Only where they arrive over time: in a closed loop all but the first few queue by design.
WAITS = (
    Number("queued p50", "queued_p50_ns", lambda s: s.queued.p50_ns if s.queued.count else None, head="queued p50"),
    Number("queued p99", "queued_p99_ns", lambda s: s.queued.p99_ns if s.queued.count else None),
    Number("TTFT p50", "ttft_p50_ns", lambda s: s.ttft.p50_ns if s.ttft.count else None, head="TTFT p50"),
    Number("TTFT p99", "ttft_p99_ns", lambda s: s.ttft.p99_ns if s.ttft.count else None, head="TTFT p99"),
)
