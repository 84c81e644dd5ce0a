"""The noise gate: how much of the machine other programs took while runs were measured, and when that is too much.

Host and device share the machine's cores with whatever else runs on it. What others take hides or fakes overlap, and no
interval sees it, for it may fall on one arm all along.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simtool.trace.trace import Trace

#: Share of all cores' time that other programs may take before a live figure is not to be trusted.
MAX_FOREIGN_SHARE = 0.03


@dataclass(frozen=True)
class ForeignLoad:
    """What other programs took of all cores' time. worst, mean: over the runs that know; None: none does.

    runs: measured runs; too_busy: how many of them were past MAX_FOREIGN_SHARE.
    """

    worst: float | None
    mean: float | None
    runs: int
    too_busy: int

    @property
    def trustworthy(self) -> bool:
        """Whether no run was too busy; True too where nothing was measured, or nothing is known."""
        return self.too_busy == 0

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"trustworthy": self.trustworthy, "others_share": {"mean": self.mean, "worst": self.worst}}

    @property
    def warning(self) -> str:
        """What a verdict opens with, up to its semicolon; empty where it may be trusted."""
        if self.worst is None or self.trustworthy:
            return ""
        during = "the run" if self.runs == 1 else f"{self.too_busy} of {self.runs} runs"
        share = f"{self.worst * 100:.0f} %"
        share = share if self.too_busy == 1 else f"up to {share}"
        return f"not trustworthy: other programs used {share} of the machine's cores during {during}"


#: Where nothing was measured.
NO_LOAD = ForeignLoad(None, None, 0, 0)


def foreign_load(traces: Iterable[Trace]) -> ForeignLoad:
    """Return what other programs took while the live ones among these traces were recorded."""
    live = [trace for trace in traces if trace.manifest.origin == "live"]
    shares = [share for trace in live if (share := foreign_share(trace)) is not None]
    return ForeignLoad(
        max(shares, default=None),
        sum(shares) / len(shares) if shares else None,
        len(live),
        sum(share > MAX_FOREIGN_SHARE for share in shares),
    )


def foreign_share(trace: Trace) -> float | None:
    """Return the share of all cores' time that other programs took during one recording; None: not known."""
    return trace.manifest.run.others_share
