"""docs/answers-tables.md: the questions of the pull request, each with its figures, its intervals and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from simtool.study.runner import caveats_of
from xllm_2280.answers import TraceAnswers
from xllm_2280.arms import ARMS
from xllm_2280.machines import MachineKind
from xllm_2280.page import claims, losses, staleness, winners
from xllm_2280.page.markdown import command, table

_IN_PLACE = "docs/placements/lag-in-place.toml"


def document(answers: Sequence[TraceAnswers], rebuilt_by: str) -> str:
    """Return the page as Markdown; rebuilt_by: the command that makes it."""
    first = answers[0]
    trace = first.source.path
    at = f"{trace} --profile {_profile(first, MachineKind.HOST_BOUND)} --waves {first.plan.waves}"
    grid = ",".join(map(str, first.plan.concurrencies))
    arms = " ".join(f"--policy {_policy(arm.name)}" for arm in ARMS)
    swept = command(
        f"simtool sweep {at} --seeds {first.plan.seeds} --concurrency {grid} \\", f"    {arms} --out sweep.parquet"
    )
    won, hoisted, filled, hidden = (
        make(answers) for make in (winners.headline, claims.claim_a, claims.claim_b, claims.claim_c)
    )
    short = "\n".join(
        f"- {name}: {text.partition(_BLANK)[0]}"
        for name, text in zip(_SHORT, (won, hoisted, filled, hidden), strict=True)
    )
    stale = ",".join(f"{loss:g}" for loss in (0.0, *first.plan.losses))
    sections = [
        ("Which placement wins where?", won, swept),
        (
            "Acceptance loss as an axis of its own",
            losses.loss_axis(answers),
            command(
                f"simtool sweep {at} --seeds {first.plan.seeds} --concurrency {grid} \\",
                f"    {arms} --stale-loss {stale} --out losses.parquet",
            ),
        ),
        ("(a) Does hoisting decide above the draft launch cost nothing?", hoisted, swept),
        ("(b) Must the fill stay serial?", filled, swept),
        (
            "(c) Hiding the build, or no longer building a batch that a prune throws away?",
            f"{hidden}\nlag-in-place is `{_IN_PLACE}`: lag without the wasted dense build.",
            swept,
        ),
        (
            "The best order",
            winners.found_by_search(answers),
            command(
                f"simtool search {at} --seeds {first.plan.seeds} --concurrency {first.plan.searched[-1]} --save best"
            ),
        ),
        (
            "How much acceptance may a lag cost? (lag-overlap-late against this-step)",
            winners.break_even(answers),
            command(f"simtool break-even {at} --policy lag-overlap-late --concurrency {grid}"),
        ),
        (
            "What is each op worth?",
            winners.worth(answers),
            command(f"simtool tornado {at} --concurrency {first.plan.searched[-1]}"),
        ),
        (
            "Lag beyond one",
            f"{_HONEST}\n\n{staleness.lag_beyond_one(answers)}",
            command(f"simtool lags {trace} --profile {_profile(first, MachineKind.RECORDED)} --lag 1,2,3"),
        ),
        *_rebinding(answers),
    ]
    body = "\n".join(f"## {title}\n\n{text}\n{how}" for title, text, how in sections)
    caveats = f"{_SHORT_HEAD}\n\n{short}\n\n## How, and what it rests on"
    warned = f"## What the replays warn of\n\n{_caveats(answers)}"
    return f"{_TITLE}\n\n{caveats}\n\n{_method(answers, rebuilt_by)}\n{body}\n{warned}"


def _profile(answers: TraceAnswers, kind: MachineKind) -> str:
    return f"models/profiles/{answers.machine(kind).profile.name}.json"


def _rebinding(answers: Sequence[TraceAnswers]) -> list[tuple[str, str, str]]:
    """The section about NPU graphs; none without a machine of published NPU figures to price them on."""
    first = answers[0]
    if not first.rebound:
        return []
    how = command(
        f"simtool sweep {first.source.path} --profile {_profile(first, MachineKind.PUBLISHED)} "
        f"--waves {first.plan.waves} \\",
        f"    --concurrency {first.plan.searched[-1]} --policy {_IN_PLACE} "
        + " ".join(f"--set {change}" for change in first.rebound[-1].changes),
    )
    return [("NPU graph mode: rebinding the target's lengths", staleness.rebinding(answers), how)]


_TITLE = "# Answers to the pull request's questions"
_SHORT_HEAD = (
    "## In short\n\nAll **modeled**, none of it measured; brackets hold 95 % intervals, and where one spans zero the "
    "difference is *not significantly different from zero*, which is not the same as none."
)
_BLANK = "\n\n"
_SHORT = ("winners", "(a) hoisting the decision", "(b) a serial fill", "(c) hiding the build")
_HONEST = (
    "The pair behind these outcomes is small and was trained for minutes on one machine: its acceptance is not that of "
    "a large model, and neither is the way its confidence changes from step to step. What carries over is the method."
)


def _method(answers: Sequence[TraceAnswers], rebuilt_by: str) -> str:
    plan = answers[0].plan
    rows = [
        (machine.profile.name, f"{machine.balance:.2f}", machine.what) for each in answers for machine in each.machines
    ]
    sources = "; ".join(
        f"SL {each.load}: outcomes of `{each.source.path}`, costs fitted on {', '.join(each.fitted_on)}"
        for each in answers
    )
    return (
        "Every figure here is **modeled**: a replay of recorded outcomes at calibrated or constructed costs, in a "
        "closed loop, averaged over decode steps at the full batch (the steady tok/s of `simtool replay`; its mean "
        "step is over all decode steps), without the time between steps, and with the profile's predictor in the "
        "controller. Rebuilt by:\n\n"
        f"{command(rebuilt_by)}\n"
        f"{sources}. Each slot serves {plan.waves} requests (eight at least); when the trace has too few, its requests "
        f"are queued again. Outputs are short ({_lengths(answers)}): the first steps of every request, which a lag "
        "verifies at full width, weigh more here than in long answers.\n\n"
        f"Intervals are 95 %. {_intervals(answers)} The constructed machine has neither noise nor a fit: its intervals "
        "come from its steps, and say nothing about the figures that it was made from. None covers other prompts, "
        "another day's machine, or what the cost model leaves out. The tornado and the break-even table are replays "
        "without noise, hence without intervals. What the replays warn of, sizes beyond the calibrated ones above all, "
        "stands at the end.\n\n" + table(("machine", "host/device time", "what it is"), list(dict.fromkeys(rows)))
    )


def _intervals(answers: Sequence[TraceAnswers]) -> str:
    plan = answers[0].plan
    same = f"Calibrated machines: {plan.seeds} seeds, the same draws under every placement, paired;"
    if any(region.refitted for each in answers for region in each.regions):
        return (
            f"{same} each seed also has costs of its own, refitted to resampled blocks of recorded steps, so that the "
            "intervals (t, on the spread of the draws) cover the error of the fit besides the noise."
        )
    return f"{same} they cover noise only, not the error of the fit."


def _caveats(answers: Sequence[TraceAnswers]) -> str:
    """The warnings of the replays: sentences with the machines that they hold for, and sizes beyond the calibrated."""
    said: dict[str, list[str]] = {}
    beyond: dict[tuple[str, ...], list[str]] = {}
    for each in answers:
        for machine in each.machines:
            mine = [region for region in each.regions if region.profile == machine.profile.name]
            told = caveats_of(cell for region in mine for found in region.cells for cell in found)
            for line in (*machine.profile.provenance.warnings, *replace(told, beyond=()).lines()):
                said.setdefault(line, []).append(f"{machine.profile.name} (SL {each.load})")
            for far in told.beyond:
                row = (far.name, far.feature, f"{far.low:g} to {far.high:g}", f"{far.value:g}")
                beyond.setdefault(row, []).append(f"{machine.profile.name} (SL {each.load})")
    lines = "\n".join(f"- {line}: {', '.join(dict.fromkeys(names))}" for line, names in said.items())
    rows = [(*row, ", ".join(dict.fromkeys(names))) for row, names in beyond.items()]
    priced = table(("work", "size", "calibrated", "priced up to", "on"), rows)
    return f"{lines}\n\nPriced beyond the calibrated sizes, so extrapolated along the fitted line:\n\n{priced}"


def _lengths(answers: Sequence[TraceAnswers]) -> str:
    medians = {each.load: median(each.source.table("requests")["output_tokens"].to_list()) for each in answers}
    return ", ".join(f"median {tokens:g} tokens at SL {sl}" for sl, tokens in medians.items())


def _policy(name: str) -> str:
    return _IN_PLACE if name == "lag-in-place" else name
