"""`simtool power`: how many repetitions would tell a difference of some size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.commands.replays.compare import Baseline
from simtool.cli.options import JsonFlag, Traces
from simtool.cli.shared import console
from simtool.cli.shared.opening import open_all
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.analysis.comparison.arms import Arm
    from simtool.analysis.comparison.plan import RepetitionPlan


def power(
    traces: Traces,
    baseline: Baseline = None,
    difference: Annotated[str, typer.Option(help="Sizes to tell, in percent of tokens/s: 0.5,1,2,5.")] = "0.5,1,2,5",
    chance: Annotated[float, typer.Option(help="Chance with which such a difference is to be told.")] = 0.8,
    json: JsonFlag = False,
) -> None:
    """Print how many repetitions would tell a difference, paired (interleaved) and unpaired, at the spread seen.

    The traces hold repetitions of two placements or more, told apart as in compare; one long run of each gives lower
    bounds.
    """
    sizes = _sizes(difference)
    if not 0.5 <= chance < 1:
        raise UsageError(f"--chance is {chance}; expected 0.5 to 0.99")
    from simtool.analysis.comparison.arms import gather_arms
    from simtool.analysis.comparison.noise import foreign_load

    opened = open_all(traces)
    arms = gather_arms(opened)
    plans = [_plan(base, arm, sizes, chance) for base, arm in _pairs(arms, baseline)]
    load = foreign_load(opened)
    if json:
        from simtool.cli.documents.of_replays import PlanRecord, PowerDocument
        from simtool.cli.documents.record import document, record

        told = [record(PlanRecord, each) for each in plans]
        console.emit(document(PowerDocument, load.to_dict(), chance=chance, plans=told))
        return
    if load.warning:
        console.say(f"{load.warning}, so the spread below is not only the placements' own", style="bold")
    _print(plans, chance)
    for copy in (copy for arm in arms for copy in arm.copies):
        console.after(copy)


def _sizes(text: str) -> list[float]:
    try:
        found = [float(part) / 100 for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"--difference {text}: expected percentages, such as 0.5,1,2,5") from error
    if not all(0.0001 <= abs(size) < 1 for size in found):
        raise UsageError(f"--difference {text}: expected percentages from 0.01 to 99")
    return list(dict.fromkeys(found))


def _pairs(arms: list[Arm], wanted: str | None) -> list[tuple[Arm, Arm]]:
    """The baseline of each group with each other arm of it."""
    from simtool.analysis.comparison.headline import baseline_of

    names = list(dict.fromkeys(arm.placement for arm in arms))
    if wanted is not None and wanted not in names:
        raise UsageError(f"--baseline is {wanted!r}; expected a placement among the traces: {', '.join(names)}")
    found = []
    for group in dict.fromkeys(arm.group for arm in arms):
        members = [arm for arm in arms if arm.group == group]
        placements = [arm.placement for arm in members]
        base = members[placements.index(baseline_of(placements, wanted))]
        found += [(base, arm) for arm in members if arm is not base]
    if not found:
        raise UsageError("one placement only; give repetitions of two or more")
    return found


def _plan(base: Arm, arm: Arm, sizes: list[float], chance: float) -> RepetitionPlan:
    from simtool.analysis.comparison.plan import plan

    for each in (base, arm):
        if not each.decodes:
            raise UsageError(f"{each.label}: holds no decode step to compare; give a recording or a replay of one")
    return plan(base, arm, sizes, chance)


def _print(plans: list[RepetitionPlan], chance: float) -> None:
    """The answer for the size nearest to 1 %, then a table with a line a placement and size."""
    from simtool.report.terminal.tables import table
    from simtool.stats.repetitions import MAX_REPETITIONS

    one = min(range(len(plans[0].sizes)), key=lambda index: abs(abs(plans[0].sizes[index].difference) - 0.01))
    paired, unpaired = (
        max((getattr(plan.sizes[one], how) or MAX_REPETITIONS + 1) for plan in plans) for how in ("paired", "unpaired")
    )
    bound = "at least " if any(plan.at_least for plan in plans) else ""
    size = abs(plans[0].sizes[one].difference) * 100
    console.say(
        f"a difference of {size:g} % of tokens/s is told {chance:.0%} of the time by "
        f"{bound}{_count(paired)} interleaved repetitions of each, or {_count(unpaired)} that are not interleaved",
        style="bold",
    )
    rows = [
        (plan.other, f"{size.difference:+.2%}", _count(size.paired), _count(size.unpaired))
        for plan in plans
        for size in plan.sizes
    ]
    title = f"repetitions of each that tell a difference from {plans[0].baseline} {chance:.0%} of the time"
    console.show(table(title, ("placement", "difference", "interleaved", "not"), rows))
    for plan in plans:
        of = "whole-run tok/s" if plan.metric == "whole_run_tokens_per_s" else "steady tok/s"
        console.after(f"{plan.other} over {plan.baseline}: {plan.observed:+.1%} {of} seen; {_spread(plan)}")


def _spread(plan: RepetitionPlan) -> str:
    if plan.at_least:
        pairs = "" if plan.paired_spread is None else f", pairs by {plan.paired_spread:.1%}"
        return (
            f"within one run each {plan.spreads[0]:.1%} and {plan.spreads[1]:.1%}{pairs} (standard deviation): the "
            "counts are lower bounds, for measured runs drift besides; give 2 or more repetitions of each"
        )
    counts = " and ".join(map(str, dict.fromkeys(plan.repetitions)))
    apart = f"runs of one placement differ by {plan.spreads[0]:.1%} and {plan.spreads[1]:.1%}"
    pairs = "they do not pair" if plan.paired_spread is None else f"pairs by {plan.paired_spread:.1%}"
    return f"{apart}, {pairs} (standard deviation over {counts} repetitions)"


def _count(count: int | None) -> str:
    from simtool.stats.repetitions import MAX_REPETITIONS

    return f"over {MAX_REPETITIONS}" if count is None or count > MAX_REPETITIONS else str(count)
