"""The figures of the answers as one interactive page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simtool.report.figures.break_even import draw_break_even
from simtool.report.figures.sensitivity import draw_sensitivity
from simtool.report.figures.staleness import draw_by_position, draw_loss, draw_persistence
from simtool.report.page.page import Page, Section
from xllm_2280.answers import TraceAnswers
from xllm_2280.arms import ARMS
from xllm_2280.figures.loss_map import draw_loss_map
from xllm_2280.figures.region_map import draw_region_map
from xllm_2280.page.short import sentence


def answers_page(answers: Sequence[TraceAnswers], command: str) -> Page:
    """Return the page; the document has the same numbers with their intervals."""
    caveat = "everything here is modeled; docs/answers-tables.md has the intervals and the commands"
    return Page(
        title="Where should the verify length be decided?",
        headlines=[(sentence(answers), "")],
        details=[],
        caveats=[caveat],
        sections=list(_sections(answers)),
        sources=[],
        command=command,
    )


def _sections(answers: Sequence[TraceAnswers]) -> Iterator[Section]:
    every = [region for each in answers for region in each.regions]
    yield Section(
        "Which placement wins where",
        "The winner's gain in tokens per second over this-step. ≈: a tie with the next.",
        draw_region_map(every, [arm.name for arm in ARMS]),
    )
    for each in answers:
        yield Section(
            f"Who wins as decisions on old confidence lose more, SL {each.load}",
            "A what-if on top of the outcomes; filled: told from a tie. Dotted: the loss that step times can afford.",
            draw_loss_map(each.losses),
        )
        for machine, points in each.break_evens:
            yield Section(
                f"How much acceptance a lag may cost: {machine.profile.name}, SL {each.load}",
                "Each cell: the share of tokens per step that lag-overlap-late can afford to lose against this-step.",
                draw_break_even(points),
            )
        for machine, found in each.sensitivities:
            yield Section(
                f"What each op is worth: {machine.profile.name}, SL {each.load}, concurrency {found.concurrency}",
                "Step time that comes back when the op is free, halved, or in its best other legal place.",
                draw_sensitivity(found),
            )
        yield Section(f"Acceptance lost against the lag, SL {each.load}", "By prompt kind.", draw_loss(each.effects))
        yield Section(f"By draft position, SL {each.load}", "All prompts.", draw_by_position(each.effects))
        if each.persistence:
            text = "How alike the blocks of a request are, by the steps between them."
            yield Section(f"How long a confidence lasts, SL {each.load}", text, draw_persistence(each.persistence))
