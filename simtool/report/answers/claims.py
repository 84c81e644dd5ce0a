"""The three claims in words and tables. Every sentence that draws a conclusion is made from counted intervals."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.report.answers.markdown import microseconds, table
from simtool.study.answers import TraceAnswers
from simtool.study.break_even import Interval
from simtool.study.claims import Chain, Fill, Hoist, fill_cost, hoist_cost, overlap_chain, resolved
from simtool.study.regions import Region
from simtool.units import NS_PER_US, format_ns

_PROBED = 32  # the concurrency of the pull request's probe
_WHERE = ("machine", "SL", "concurrency")


def claim_a(answers: Sequence[TraceAnswers]) -> str:
    """Does hoisting decide above the draft launch cost nothing?"""
    found = [
        hoist_cost(region, machine)
        for each in answers
        for machine in each.machines
        for region in each.regions
        if region.profile == machine.profile.name
    ]
    rows = [
        (*_where(each.region), format_ns(each.decide_ns), microseconds(each.cost), f"{each.share:.0%}")
        for each in found
    ]
    heads = (*_WHERE, "a decision takes", "hoisting adds to the step", "share of it")
    return f"{_verdict_a(found)}\n\n{table(heads, rows)}"


def claim_b(answers: Sequence[TraceAnswers]) -> str:
    """Must the fill stay serial?"""
    found = [fill_cost(region) for each in answers for region in each.regions]
    rows = [(*_where(each.region), format_ns(_step_ns(each.region)), microseconds(each.cost)) for each in found]
    return f"{_verdict_b(found)}\n\n{table((*_WHERE, 'step', 'early index lists add'), rows)}"


def claim_c(answers: Sequence[TraceAnswers]) -> str:
    """How much of lag-overlap's gain comes from hiding the build?"""
    found = [overlap_chain(region) for each in answers for region in each.regions]
    probe = _beside_the_probe(answers, found)
    rows = [
        (*_where(each.region), *map(microseconds, (each.total, each.no_waste, each.overlap, each.hoist)))
        for each in found
    ]
    heads = (*_WHERE, "lag-overlap less lag", "no wasted dense build", "build before launch_sample", "decision hoisted")
    return f"{_verdict_c(found)}{probe}\n\n{table(heads, rows)}"


def _verdict_a(found: Sequence[Hoist]) -> str:
    costly, gains = _count([each.cost for each in found], 1), _count([each.cost for each in found], -1)
    shares = sorted(each.share for each in found)
    middle = shares[len(shares) // 2]
    answer = "**No.**" if costly > len(found) / 2 else "**Mostly.**" if costly else "**Yes**, as far as this can tell."
    return (
        f"{answer} The hoist makes the step longer in {costly} of {len(found)} settings and shorter in {gains}; in the "
        f"median setting the step pays {middle:.0%} of the decision's own time. `write_context` ends every step with a "
        "sync, so the device has nothing left when the next step begins: what the host does before `launch_draft` is "
        "not hidden by anything. The same decision behind the launch (lag-overlap-late) runs while the draft does."
    )


def _verdict_b(found: Sequence[Fill]) -> str:
    gains, losses = _count([each.cost for each in found], -1), _count([each.cost for each in found], 1)
    return (
        "**No**: only the gather and the scatter need this step's tokens. lag-overlap-index is legal, emits the same "
        f"tokens, shortens the step in {gains} of {len(found)} settings and lengthens it in {losses}. Where the draft "
        "outlasts the host's work the whole fill is hidden anyway; where the host is the bottleneck one op more costs."
    )


def _verdict_c(found: Sequence[Chain]) -> str:
    shorter = [each for each in found if resolved(each.total) < 0]
    waste = sum(each.no_waste.mean for each in shorter)
    overlap = sum(each.overlap.mean for each in shorter)
    hoist = sum(each.hoist.mean for each in shorter)
    text = f"lag-overlap's step is shorter than lag's in {len(shorter)} of {len(found)} settings"
    if not shorter:
        return f"{text}, so there is no gain to take apart."
    count = len(shorter) * NS_PER_US
    return (
        f"{text}. There, on average, leaving out the dense batch that a prune throws away changes it by "
        f"{waste / count:+.0f} us, building before `launch_sample` by {overlap / count:+.0f} us, and hoisting the "
        f"decision by {hoist / count:+.0f} us. lag already hides its build: no sync stands between `launch_draft` and "
        "`fill`, so the host builds while the device drafts, inside run_validate or not."
    )


def _beside_the_probe(answers: Sequence[TraceAnswers], found: Sequence[Chain]) -> str:
    """What the pull request's probe moved out of run_validate, and what that is worth on a machine of its figures."""
    constructed = {m.profile.name for each in answers for m in each.machines if m.profile.provenance.sources}
    there = [each for each in found if each.region.profile in constructed and each.region.concurrency == _PROBED]
    if not there:
        return ""
    worth = ", ".join(f"{microseconds(each.total)} at SL {each.region.sl}" for each in there)
    return (
        " The pull request's probe moved 588 us (SL 7) and 760 us (SL 16) out of run_validate at concurrency 32; on "
        f"the machine made from its own figures lag-overlap changes lag's step by {worth}."
    )


def _count(costs: Sequence[Interval], side: int) -> int:
    return sum(resolved(cost) == side for cost in costs)


def _where(region: Region) -> tuple[str, str, str]:
    return region.profile, str(region.sl), str(region.concurrency)


def _step_ns(region: Region) -> float:
    cells = region.cells_of("lag-overlap-late")
    return sum(cell.step_ns for cell in cells) / len(cells)
