"""From traces to the page: gathers each figure's info, draws it, and puts it into words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from simtool.analysis.comparison.arms import ORIGIN_WORDS, Arm, differences, gather_arms, placement_name
from simtool.analysis.comparison.noise import foreign_load
from simtool.analysis.comparison.verdict import Verdict, verdicts
from simtool.analysis.metrics import summarise_trace
from simtool.report.figures.acceptance import Acceptance, acceptance, draw_acceptance, draw_ranking, draw_reliability
from simtool.report.figures.comparison import comparison_points, draw_comparison
from simtool.report.figures.like_steps import like_steps
from simtool.report.figures.path_stack import draw_path_stacks, path_stack
from simtool.report.figures.prediction import draw_predictions, predictions
from simtool.report.figures.timeline import StepTimeline, draw_timelines, step_timeline
from simtool.report.page.op_table import op_table
from simtool.report.page.page import Page, PageTable, Section
from simtool.report.page.provenance import sources
from simtool.report.terminal.numbers import NUMBERS
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import Trace

TITLE = "Which placement gives the most tokens per second, and by how much?"
_NO_DECODE_STEP = {
    "live": "no request went beyond its first token, so there is no decode step to compare",
    "replayed": "modeled: no request went beyond its first token, so there is no decode step to compare",
    "synthetic": "synthetic: no request went beyond its first token, so there is no decode step to compare",
    "imported": "imported: a profile alone tells of no token, so there is no throughput to compare",
}
_MAX_TIMELINES = 8
_MAX_STEPS = 9

Progress = Callable[[int], None]
#: How often `build_page` reports progress.
STAGES = 5


def build_page(
    traces: Sequence[Trace], command: str, baseline: str | None = None, progress: Progress = lambda _done: None
) -> Page:
    """Compute everything that the page shows from one trace or more."""
    traces = sorted(traces, key=_reading_order)
    arms = gather_arms(traces)
    decoding = [arm for arm in arms if arm.decodes]
    answers = verdicts(decoding, baseline=baseline)
    stages: list[Callable[[], list[Section]]] = [
        lambda: [_comparison(answers, decoding), _numbers(decoding)] if decoding else [],
        lambda: [_timelines(arms)],
        lambda: [_path(arms), _ops(arms)],
        lambda: [_prediction(decoding)] if decoding else [],
        lambda: _acceptance(acceptance(arms)),
    ]
    sections: list[Section] = []
    for done, stage in enumerate(stages, start=1):
        sections += stage()
        progress(done)
    headlines = [(each.headline, each.method) for each in answers] or [(_NO_DECODE_STEP[traces[0].manifest.origin], "")]
    details = [f"{each.group}: {c.verdict}" for each in answers for c in each.comparisons if c not in each.quoted]
    return Page(
        title=TITLE,
        headlines=headlines,
        details=details,
        caveats=_caveats(traces),
        sections=sections,
        sources=sources(arms),
        command=command,
    )


def _comparison(answers: Sequence[Verdict], arms: Sequence[Arm]) -> Section:
    title = "Every placement against the baseline"
    baselines = ", ".join(dict.fromkeys(each.baseline.label for each in answers))
    text = (
        f"Tokens per second at full occupancy, or over the whole run where batches differ. Baseline: {baselines}. "
        "An interval that crosses zero settles nothing."
    )
    return Section(title, text, draw_comparison(comparison_points(answers, arms)))


def _timelines(arms: Sequence[Arm]) -> Section:
    title = "One step, lane by lane"
    once = _once(arms)
    drawn = [(choice, draw_timelines(found)) for choice in like_steps(once[:_MAX_TIMELINES], _MAX_STEPS)
             if (found := _laid_out(once, choice))]  # fmt: skip
    if not drawn:
        return Section(title, "The traces hold no events, so no step can be drawn.")
    text = (
        "The same step of every placement, live where there is one, and of about its mean length. Hatched: the host "
        "waits. Black line: what bounds the step, its critical path. Arrows: from a launch to where its work begins."
    )
    if len(once) > _MAX_TIMELINES:
        text += f" The first {_MAX_TIMELINES} of {len(once)} are drawn."
    first = drawn[0][1]
    views = [(f"step {max(choice.values())}", figure) for choice, figure in drawn]
    views.sort(key=lambda view: int(view[0].removeprefix("step ")))
    return Section(title, text, first, views=views if len(drawn) > 1 else ())


def _laid_out(arms: Sequence[Arm], choice: Mapping[str, int]) -> list[StepTimeline]:
    found = (step_timeline(arm, choice[arm.label]) for arm in arms if arm.label in choice)
    return [each for each in found if each is not None]


def _path(arms: Sequence[Arm]) -> Section:
    title = "Where the step's time goes"
    stacks = [stack for arm in arms if (stack := path_stack(arm)) is not None]
    if not stacks:
        return Section(title, "The traces hold no events, so the critical path is unknown.")
    text = (
        "The chain of work that bounds the step's end; its parts sum to the step. Hatched: the device sat idle. "
        "Launch, hand-over, wake-up: time in which nothing on the chain ran, from a launch until the device began, "
        "between two works of a stream, and from the device's end until the waiting host noticed."
    )
    return Section(title, text, draw_path_stacks(stacks))


def _ops(arms: Sequence[Arm]) -> Section:
    text = (
        "Mean per step. On the path: what bounds the step, the latency before it included. Exposed: of that, with the "
        "device idle. Hidden: ran beside the path. Slack: how much longer it could take for free."
    )
    folded = [(arm.label, table) for arm in _once(arms)[:_MAX_TIMELINES] if (table := op_table(arm)) is not None]
    return Section("Op by op", text, folded=folded)


def _once(arms: Sequence[Arm]) -> list[Arm]:
    """One arm a placement and shape, the first: live where there is one."""
    first: dict[str, Arm] = {}
    for arm in arms:
        first.setdefault(arm.name, arm)
    return list(first.values())


def _prediction(arms: Sequence[Arm]) -> Section:
    title = "Replay against reality"
    pairs = predictions(arms)
    if not pairs:
        return Section(title, "No placement was both recorded and replayed here, so the replay is not put to the test.")
    worst = max(pairs, key=lambda pair: abs(pair.error))
    text = f"The worst prediction is {worst.row}, {worst.error_text} off. The black bar spans the measured runs."
    return Section(title, text, draw_predictions(pairs))


def _acceptance(info: Acceptance | None) -> list[Section]:
    if info is None:
        return [Section("Acceptance and confidence", "No trace holds confidences, so there is nothing to judge.")]
    told = (
        ""
        if info.autocorrelation is None
        else (f" A request's expected acceptance correlates {info.autocorrelation:.2f} from one step to the next.")
    )
    first = "the first " if info.cut else ""
    source = f"From {info.label}, {first}{info.blocks} drafted blocks."
    return [
        Section(
            "How far drafts are accepted",
            f"{source} The dashed line is what the confidence forecast; above the bars it is over-confident.",
            draw_acceptance(info),
        ),
        Section(
            "What a step of lag costs the decision",
            f"How well the confidence tells accepted prefixes from refused ones: 1 always, 0.5 a coin.{told}",
            draw_ranking(info),
        ),
        Section("Can the confidence be believed?", f"{source} On the diagonal it can.", draw_reliability(info)),
    ]


def _numbers(arms: Sequence[Arm]) -> Section:
    rows = []
    for arm in arms:
        runs = [summarise_trace(trace) for trace in arm.traces]
        rows.append((arm.label, str(len(runs)), *(number.text(*runs) for number in NUMBERS)))
    table = PageTable(
        ("arm", "runs", *(number.name for number in NUMBERS)), rows, [arm.origin for arm in arms], wide=True
    )
    text = (
        "Means over runs. Steady: decode steps at full occupancy, a dash where that was never reached; the whole run "
        "also has its ramp-down. Acceptance rate counts offered drafts; acceptance length includes the bonus token."
    )
    return Section("The numbers", text, table=table)


def _caveats(traces: Sequence[Trace]) -> list[str]:
    found = differences(traces)
    return found + [warning for warning in (foreign_load(traces).warning,) if warning]


def _reading_order(trace: Trace) -> tuple[int, int]:
    """Live, modeled, imported, synthetic; placements as the built-ins are listed, others after them."""
    names = list(BUILT_IN)
    name = placement_name(trace)
    return list(ORIGIN_WORDS).index(trace.manifest.origin), names.index(name) if name in names else len(names)
