"""A replay of the order that a run had, held against the run itself: how well the costs hold, in one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simtool.analysis.comparison.headline import HEADLINE, Metric
from simtool.analysis.comparison.runs import Run, metric_value, run_of
from simtool.trace.importers.recorded_order import prunes, recorded_order
from simtool.trace.trace import Trace
from simtool.units import format_ns

#: Beyond this, what a replay says of another order is no better than the difference.
_HOLDS = 0.05


@dataclass(frozen=True)
class AgainstRun:
    """Tokens/s and the mean step, ns, at full occupancy: of the run, and of its replay under the order that it had."""

    placement: str
    recorded_tokens_per_s: float
    replayed_tokens_per_s: float
    recorded_step_ns: float
    replayed_step_ns: float

    @property
    def off(self) -> float:
        """How far the replay's tokens/s are from the run's, as a share of them."""
        return self.replayed_tokens_per_s / self.recorded_tokens_per_s - 1

    @property
    def sentence(self) -> str:
        """Say it; where it is far off, also what that means."""
        step = f"{format_ns(self.replayed_step_ns)} for {format_ns(self.recorded_step_ns)}"
        told = (
            f"held against the run itself, {self.placement} replays at {self.replayed_tokens_per_s:,.0f} tok/s for the "
            f"recorded {self.recorded_tokens_per_s:,.0f} ({self.off * 100:+.1f} %), a step of {step}"
        )
        if abs(self.off) <= _HOLDS:
            return told
        return f"{told}: these costs do not hold, so a difference smaller than that means nothing"


def against_run(source: Trace, device_name: str, runs: Mapping[str, Sequence[Run]]) -> AgainstRun | None:
    """Return how the replay of the order that the source ran in compares with it; None where they are not alike.

    runs: replays of the source's own requests, by placement. device_name: whose costs they are priced at. They are not
    alike on another machine's costs, nor at another batch, nor where an order that prunes nothing stands for a run that
    verified less than all.
    """
    order = recorded_order(source)
    found = runs.get(order.name, ()) if order is not None else ()
    if order is None or not found or device_name != source.manifest.device_name:
        return None
    if not order.decides and prunes(source):
        return None
    recorded, replayed = run_of(source), found[0]
    batches = {run.whole.batch if run.whole else None for run in (recorded, replayed)}
    if None in batches or len(batches) > 1:
        return None
    speeds, steps = (
        [metric_value(run, metric) for run in (recorded, replayed)] for metric in (HEADLINE, Metric.STEP_TIME)
    )
    return AgainstRun(order.name, speeds[0], speeds[1], steps[0], steps[1])
