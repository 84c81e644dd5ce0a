"""Do the clocks of host and device agree? Nothing can run before it is launched."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from simtool.units import format_ns


@dataclass(frozen=True)
class LaunchDelays:
    """From the start of a launch to that of its first work, in ns. early: launches whose work began before them."""

    launches: int
    early: int
    least_ns: int
    median_ns: float
    spread_ns: float

    def to_dict(self) -> dict[str, object]:
        """Return the form that a manifest's details keep."""
        return {
            "launches": self.launches,
            "work_before_launch": self.early,
            "clocks_differ_by_at_least_ns": max(-self.least_ns, 0),
            "least_ns": self.least_ns,
            "median_ns": self.median_ns,
            "spread_p5_p95_ns": self.spread_ns,
        }

    def warnings(self) -> list[str]:
        """Return the finding that the clocks disagree, where they do."""
        if not self.early:
            return []
        return [
            f"{self.early} of {self.launches} launches have work that began before them, by up to "
            f"{format_ns(-self.least_ns)}: the clocks of host and device differ (delays spread over "
            f"{format_ns(self.spread_ns)}); times are kept as they are"
        ]


def launch_delays(calls: pl.DataFrame, works: pl.DataFrame) -> LaunchDelays | None:
    """Measure the delays of all launches; None where no work is linked. Both tables have `flow`."""
    delay_ns = pl.col("start_ns") - pl.col("call_ns")
    delays = (
        works.lazy()
        .group_by("flow")
        .agg(pl.col("start_ns").min())
        .join(calls.lazy().select("flow", call_ns="start_ns"), on="flow")
        .select(
            launches=pl.len(),
            early=(delay_ns < 0).sum(),
            least_ns=delay_ns.min(),
            median_ns=delay_ns.median(),
            spread_ns=delay_ns.quantile(0.95) - delay_ns.quantile(0.05),
        )
        .collect()
    )
    row = delays.row(0, named=True)
    return LaunchDelays(**row) if row["launches"] else None
