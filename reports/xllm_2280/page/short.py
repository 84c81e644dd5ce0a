"""docs/answers.md: the question, one sentence, who wins where, what to use when, and how sure that is: one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xllm_2280.answers import TraceAnswers
from xllm_2280.load import Load
from xllm_2280.page import claims
from xllm_2280.page.losses import in_short
from xllm_2280.page.markdown import percent, table
from xllm_2280.regions import LEAST_LEAD, Region

#: Where the figures of every machine begin, which stand on the page of tables.
_FIGURES = " At concurrency "


def sentence(answers: Sequence[TraceAnswers]) -> str:
    """Return who wins how often, and how the best placement with a lag does, in one sentence."""
    every = [region for each in answers for region in each.regions]
    wins = Counter(region.winner for region in every if not region.tied)
    ties = sum(region.tied for region in every)
    (first, count), *others = wins.most_common() or [("no placement", len(every))]
    told = f"{first} is fastest in {count}" + "".join(f", {name} in {won}" for name, won in others)
    return (
        f"Of {len(every)} settings, {told}, {ties} are ties of the two fastest; {in_short(answers)} "
        f"(modeled{_extrapolated(every)})."
    )


def _extrapolated(regions: Sequence[Region]) -> str:
    """At which concurrencies costs are extrapolated, and what is known of such; empty where they are nowhere."""
    far = {region.concurrency: region.lead.extrapolation for region in regions if region.lead.extrapolation}
    if not far:
        return ""
    worst = max(far.values(), key=lambda each: each.stretch.times)
    return f"; {worst.where} at concurrency {_listed(list(far))}: direction only there, {worst.known}"


def short_page(answers: Sequence[TraceAnswers], rebuilt_by: str, tables: str, picture: str) -> str:
    """Return the page as Markdown. tables, picture: names of the files beside it."""
    plan = answers[0].plan
    won = "\n".join(f"- Use **{name}**: {where}." for name, where in _use(answers))
    short = "\n".join(
        f"- {name} {make(answers).partition(_FIGURES)[0]}"
        for name, make in zip(_CLAIMS, (claims.claim_a, claims.claim_b, claims.claim_c), strict=True)
    )
    return (
        "# Where should the verify length be decided?\n\n"
        f"**{sentence(answers)}**\n\n"
        f"![Who wins where: a colour a placement, grey where it is a tie]({picture})\n\n"
        f"{won}\n\n"
        f"{_grid(answers)}\n"
        "In a cell: the fastest placement and its lead over the next, with its 95 % interval; a tie where that spans "
        f"zero or the lead is under {LEAST_LEAD:.1%}.\n\n"
        "## The pull request's three claims\n\n"
        f"{short}\n\n"
        "## How sure\n\n"
        f"Everything is **modeled**: {plan.seeds} replays of each setting, each with noise and costs refitted to "
        "resampled steps. The machines are the one measured, that one out of balance either way, and one made of the "
        "pull request's figures, most of them assumed. No interval covers other prompts, another day, or what the cost "
        f"model leaves out; the pair is small. All figures and warnings: [{tables}]({tables}). With the syncs of "
        f"xLLM's code: `make answers-syncs`.\n\nMade by `{rebuilt_by}`.\n"
    )


_CLAIMS = (
    "*Hoisting the decision above the draft's launch costs nothing?*",
    "*The fill must stay serial?*",
    "*Hiding the build shortens the step?*",
)


def _grid(answers: Sequence[TraceAnswers]) -> str:
    concurrencies = sorted({region.concurrency for each in answers for region in each.regions})
    rows = []
    for each in answers:
        for machine in each.machines:
            found = {r.concurrency: r for r in each.regions if r.profile == machine.profile.name}
            rows.append((machine.profile.name, str(each.load), *(_cell(found.get(c)) for c in concurrencies)))
    far = {r.concurrency for each in answers for r in each.regions if r.lead.extrapolation}
    heads = (f"at {c}{', extrapolated' if c in far else ''}" for c in concurrencies)
    return table(("machine", "SL", *heads), rows)


def _cell(region: Region | None) -> str:
    if region is None:
        return "-"
    if region.tied:
        return f"tie: {region.winner}, {region.runner_up}"
    return f"**{region.winner}** {percent(region.lead)}"


def _use(answers: Sequence[TraceAnswers]) -> list[tuple[str, str]]:
    """Return each placement that wins, and where: machine, SL and concurrencies."""
    where: dict[str, dict[tuple[str, Load], list[int]]] = {}
    for each in answers:
        for region in each.regions:
            if not region.tied:
                where.setdefault(region.winner, {}).setdefault((region.profile, region.load), []).append(
                    region.concurrency
                )
    return [
        (name, "; ".join(f"{profile} at SL {sl}, concurrency {_listed(c)}" for (profile, sl), c in places.items()))
        for name, places in where.items()
    ]


def _listed(numbers: list[int]) -> str:
    *first, last = [str(number) for number in sorted(numbers)]
    return f"{', '.join(first)} and {last}" if first else last
