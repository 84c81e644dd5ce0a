"""The three claims in words and tables. Every sentence that draws a conclusion is made from counted intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.stats.interval import Interval
from simtool.units import format_ns
from xllm_2280.answers import TraceAnswers
from xllm_2280.claims import Chain, Fill, Hoist, fill_cost, hoist_cost, overlap_chain
from xllm_2280.machines import MachineKind
from xllm_2280.page.markdown import microseconds, table
from xllm_2280.regions import Region

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
    told = _Told.of([each.cost for each in found])
    if told.longer > len(found) / 2:
        answer = "**No.**"
    elif told.longer:
        answer = "**Not everywhere.**"
    else:
        answer = "**No cost is told from zero here**, which does not show that there is none."
    return (
        f"{answer} The hoist makes the step {told}. {_examples([(each.region, each.cost) for each in found])} "
        "`write_context` ends every step with a sync, so the device has nothing left when the next step begins: what "
        "the host does before `launch_draft` delays the draft. The same decision behind the launch (lag-overlap-late) "
        "runs while the draft does."
    )


def _verdict_b(found: Sequence[Fill]) -> str:
    told = _Told.of([each.cost for each in found])
    gain = "pays in some settings" if told.shorter else "is not shown to pay in any setting"
    return (
        "**It need not be**: only the gather and the scatter need this step's tokens, and lag-overlap-index, which "
        f"builds the index lists early, is legal and emits the same tokens. That it {gain}: it makes the step {told}. "
        f"{_examples([(each.region, each.cost) for each in found])}"
    )


def _verdict_c(found: Sequence[Chain]) -> str:
    total = _Told.of([each.total for each in found])
    parts = (
        ("not building the dense batch that a prune throws away", [each.no_waste for each in found]),
        ("building before `launch_sample`", [each.overlap for each in found]),
        ("hoisting the decision", [each.hoist for each in found]),
    )
    apart = "; ".join(f"{name}: {_Told.of(costs)}" for name, costs in parts)
    return (
        f"Against lag, lag-overlap's step is {total}. {_examples([(each.region, each.total) for each in found])} "
        f"Its three moves apart, each making the step: {apart}. lag already hides its build: no sync stands between "
        "`launch_draft` and `fill`, so the host builds while the device drafts, inside run_validate or not."
    )


def _beside_the_probe(answers: Sequence[TraceAnswers], found: Sequence[Chain]) -> str:
    """What the pull request's probe moved out of run_validate, and what that is worth on a machine of its figures."""
    constructed = {m.profile.name for each in answers for m in each.machines if m.kind is MachineKind.PUBLISHED}
    there = [each for each in found if each.region.profile in constructed and each.region.concurrency == _PROBED]
    if not there:
        return ""
    worth = ", ".join(f"{microseconds(each.total)} at SL {each.region.load}" for each in there)
    return (
        " The pull request's probe moved 588 us (SL 7) and 760 us (SL 16) out of run_validate at concurrency 32; on "
        f"the machine made from its own figures lag-overlap changes lag's step by {worth}."
    )


@dataclass(frozen=True)
class _Told:
    """How many of the settings have an interval on either side of zero, and how many span it."""

    longer: int
    shorter: int
    settings: int

    @classmethod
    def of(cls, costs: Sequence[Interval]) -> _Told:
        sides = [cost.side() for cost in costs]
        return cls(sides.count(1), sides.count(-1), len(sides))

    def __str__(self) -> str:
        untold = self.settings - self.longer - self.shorter
        return (
            f"longer in {self.longer} of {self.settings} settings, shorter in {self.shorter}, not "
            f"significantly different from zero in {untold}"
        )


def _examples(costs: Sequence[tuple[Region, Interval]]) -> str:
    """The figure of every machine, with its interval, at the concurrency of the probe or the largest below it."""
    at = max(
        (r.concurrency for r, _ in costs if r.concurrency <= _PROBED), default=max(r.concurrency for r, _ in costs)
    )
    told = [f"{r.profile} (SL {r.load}) {microseconds(cost)}" for r, cost in costs if r.concurrency == at]
    return f"At concurrency {at}: {', '.join(told)}."


def _where(region: Region) -> tuple[str, str, str]:
    return region.profile, str(region.load), str(region.concurrency)


def _step_ns(region: Region) -> float:
    cells = region.cells_of("lag-overlap-late")
    return sum(cell.step_ns for cell in cells) / len(cells)
