"""What a terminal says of a drafter's confidence and of the temperatures fitted to it."""

from __future__ import annotations

from simtool.analysis.judged_confidence import JudgedConfidence, PositionReport
from simtool.report.terminal.tables import TextTable, table

#: Every position is told up to as many; of longer blocks the first four and every fourth.
_ALL = 8


def confidence_answer(judged: JudgedConfidence) -> str:
    """Say in one sentence how wrong the confidence is, and how wrong it stays."""
    fit = judged.fit
    tail = "" if fit.held_out_after < fit.held_out_before else ", no better"
    return (
        f"The drafter's confidence is off by {fit.held_out_before:.3f} on average (ECE), by {fit.held_out_after:.3f} "
        f"at the temperatures in the profile{tail}; judged on requests of {judged.trace} that the fit did not see"
    )


def confidence_table(judged: JudgedConfidence, *, whole: bool) -> TextTable:
    """Lay out quality by position, as it is -> calibrated. whole: every position of long blocks."""
    positions = range(1, len(judged.before) + 1)
    shown = [k for k in positions if whole or len(judged.before) <= _ALL or k <= 4 or k % 4 == 0]
    rows = [_row(judged.before[k - 1], judged.after[k - 1], judged.fit.temperatures[k - 1]) for k in shown]
    columns = ("k", "k accepted", "forecast", "AUC", "Brier", "ECE", "temperature")
    return table("", columns, rows, numbers_from=0)


def reliability_table(judged: JudgedConfidence) -> TextTable:
    """Lay out what came true of the forecasts in each tenth, position by position, at the temperatures."""
    rows = [
        (str(k), str(each.count), f"{each.mean_forecast:.3f}", f"{each.accepted / each.count:.3f}")
        for k, report in enumerate(judged.after, start=1)
        for each in report.reliability
    ]
    return table("", ("k", "blocks", "forecast", "came true"), rows, numbers_from=0)


def _row(before: PositionReport, after: PositionReport, temperature: float) -> tuple[str, ...]:
    old, new = before.quality, after.quality
    return (
        str(old.position),
        f"{old.accepted / old.blocks:.3f}",
        f"{old.mean_forecast:.3f} -> {new.mean_forecast:.3f}",
        "-" if old.auc is None else f"{old.auc:.3f}",
        f"{old.brier:.3f} -> {new.brier:.3f}",
        f"{before.ece:.3f} -> {after.ece:.3f}",
        f"{temperature:.3g}",
    )
