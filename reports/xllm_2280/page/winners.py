"""Which placement wins where, what the search finds beyond them, and what a loss of acceptance would change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simtool.units import NS_PER_US, format_ns
from xllm_2280.answers import TraceAnswers
from xllm_2280.page.markdown import percent, share, table
from xllm_2280.regions import LEAST_LEAD, Region

_MODERATE = 32  # the concurrency of the pull request's probe


def headline(answers: Sequence[TraceAnswers]) -> str:
    """Which placement wins in which region."""
    every = [region for each in answers for region in each.regions]
    wins = Counter("a tie" if region.tied else region.winner for region in every)
    told = ", ".join(f"{name} {count}" for name, count in wins.most_common())
    balance = {machine.profile.name: machine.balance for each in answers for machine in each.machines}
    rows = [
        (
            region.profile,
            f"{balance[region.profile]:.2f}",
            str(region.load),
            str(region.concurrency),
            f"{region.winner}{' or ' + region.runner_up if region.tied else ''}",
            percent(region.gain),
            percent(region.lead),
            share(region.affordable),
            share(region.lost),
        )
        for region in every
    ]
    heads = (
        "machine", "host/device", "SL", "concurrency", "winner", "over this-step", "over the next",
        "a lag can afford to lose", "it loses",
    )  # fmt: skip
    at = max((r.concurrency for r in every if r.concurrency <= _MODERATE), default=every[0].concurrency)
    there = "; ".join(_in_words(region) for region in every if region.concurrency == at)
    return (
        f"Settings won, of {len(every)}: {told}. At concurrency {at}: {there}. A tie: the interval of the winner's "
        f"lead over the next spans zero, or the lead is under {LEAST_LEAD:.1%}. "
        '"Can afford to lose" is the share of tokens per step at which this-step or static would overtake the best '
        'placement with a lag; "it loses" is what the replay of these outcomes shows.\n\n' + table(heads, rows)
    )


def _in_words(region: Region) -> str:
    lead = f"{percent(region.lead)} over {region.runner_up}"
    verdict = f"a tie of {region.winner} and {region.runner_up}" if region.tied else f"{region.winner}, {lead}"
    return f"{region.profile} (SL {region.load}) {verdict}"


def found_by_search(answers: Sequence[TraceAnswers]) -> str:
    """The best legal orders and why they win."""
    tried = answers[0].searches[0].tried
    rows, orders = [], {}
    for each in answers:
        for searched in each.searches:
            for result in searched.results:
                for found in result.best:
                    why = found.why
                    name = searched.machine.profile.name
                    where = (name, str(each.load), str(result.concurrency))
                    rows.append((*where, found.placement.name, percent(found.gain), why))
                    orders[found.placement.name] = found.placement.order
    listed = "\n".join(f"- `{name}`: {' '.join(map(str, order))}" for name, order in sorted(orders.items()))
    notes = "".join(
        f" {note}." for note in dict.fromkeys(line for e in answers for s in e.searches for line in s.tried.unpriced)
    )
    return (
        f"{tried.enumerated} orders are legal at no decision, lag 0 and lag 1; {len(tried.placements)} were replayed. "
        "The others differ from one of those only behind `read_tokens`, where the device has nothing left and every op "
        "runs alone, so their sum is the same. The best of many is flattered by having been chosen, which no interval "
        f"here covers.{notes}\n\n"
        + table(("machine", "SL", "concurrency", "order", "over lag-overlap", "why"), rows)
        + f"\n{listed}\n"
    )


def break_even(answers: Sequence[TraceAnswers]) -> str:
    """Affordable loss over decision cost and concurrency, beside the loss."""
    parts = []
    for each in answers:
        for machine, points in each.break_evens:
            decisions = sorted({point.decision_ns for point in points})
            grid = {(point.concurrency, point.decision_ns): point for point in points}
            rows = [
                (
                    str(concurrency),
                    *(f"{grid[concurrency, decision].affordable.mean:.1%}" for decision in decisions),
                    share(grid[concurrency, decisions[0]].lost),
                )
                for concurrency in sorted({point.concurrency for point in points})
            ]
            heads = ("concurrency", *(f"{decision / NS_PER_US:.0f} us" for decision in decisions), "it loses")
            parts.append(f"{machine.profile.name}, SL {each.load}, by the cost of a decision:\n\n{table(heads, rows)}")
    return "\n".join(parts)


def worth(answers: Sequence[TraceAnswers]) -> str:
    """The tornado's largest bars."""
    parts = []
    for each in answers:
        for machine, found in each.sensitivities:
            rows = [
                (
                    f"{bar.name} ({bar.lane})",
                    format_ns(bar.free_ns),
                    format_ns(bar.halved_ns),
                    "-" if bar.moved_ns is None else format_ns(bar.moved_ns),
                )
                for bar in found.bars[:8]
            ]
            title = f"{machine.profile.name}, SL {each.load}, concurrency {found.concurrency}: {found.placement}"
            heads = ("work", "free", "halved", "in its best other place")
            parts.append(f"{title}, a step of {format_ns(found.step_ns)}:\n\n{table(heads, rows)}")
    return "\n".join(parts)
