"""Advice in words, one screen: what to do, what it rests on, what matters more, what would turn it, how to be surer."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.analysis.comparison.arms import ORIGIN_WORDS, gather_arms
from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.verdict import verdicts
from simtool.profile.judged_live import PAGE, JudgedSetting, Told
from simtool.report.terminal.decision import MODELED, Decision
from simtool.report.terminal.live_first import LIVE
from simtool.study.advice import Advice, Axis, AxisTurn, Change, Lever
from simtool.study.draft_told import gain_told
from simtool.study.full_batch import one_wave
from simtool.study.runner import Setting
from simtool.trace.trace import Trace
from simtool.units import format_ns

_MOST_CHANGES = 3
#: What an interval of replays covers, by what it ranges over.
_COVERS = {
    Over.DRAWS: "noise and the fit of the costs, both drawn anew each time",
    Over.SEEDS: "noise only, not the fit of the costs",
    Over.STEPS: "the run's own steps only, for the costs have no noise",
}
_CLEAR = "\N{CHECK MARK}"
_REPEATS = 5
_WORTH_SAYING = 0.005  # of tokens/s


def each_of(decision: Decision) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the heads and a row a candidate: its difference with its interval, measured and modeled where both are
    known; marked where the interval leaves out 0 and nothing else speaks against it.
    """
    if decision.kind == MODELED:
        over = decision.comparison.over
        return ("placement", "change", f"95 % over {over}", "clear"), [
            (each.other, *_cells(each)) for each in decision.others
        ]
    replayed = {each.other: each for each in decision.replayed}
    live = {each.other: each for each in decision.others}
    names = list(dict.fromkeys([*replayed, *live]))
    heads = ["placement", "live", f"95 % over {decision.comparison.over}", "clear"]
    if not replayed:
        return heads, [(name, *_cells(live[name])) for name in names]
    heads += ["modeled", f"95 % over {next(iter(replayed.values())).over}"]
    rows = [(name, *_cells(live.get(name)), *_cells(replayed.get(name))[:2]) for name in names]
    return heads, rows


def _cells(found: Comparison | None) -> tuple[str, str, str]:
    if found is None:
        return "-", "-", ""
    return (
        f"{(found.ratio - 1) * 100:+.1f} %",
        found.ends,
        _CLEAR if found.resolved and found.extrapolation is None else "",
    )


def rests_on(decision: Decision, setting: Setting, given: Sequence[Trace], judged: JudgedSetting | None) -> list[str]:
    """Say what kind of figures the verdict is made of, on what load and which machine, and how far replays were off.

    given: the traces. judged: what live runs of these models in this setting showed.
    """
    manifest, profile = setting.source.manifest, setting.profile
    prompts = setting.source.table("requests").height
    at = f"concurrency {setting.concurrency}, {manifest.algorithm}, SL {manifest.sl}"
    told = []
    if decision.kind == LIVE:
        page = decision.evidence.where
        machine = judged.device_name if page and judged else f"{manifest.device_name} ({manifest.device})"
        load = f"of these models at {at}" if page else f"{prompts} prompts at {at}"
        told = [f"{decision.comparison.repetitions} live runs of each: {load}, {machine}", decision.comparison.method]
        if page and judged and judged.told:
            told.append(_told(judged.told))
    if decision.replayed:
        over = decision.replayed[0].over
        other = "" if profile.device_name == manifest.device_name else ", another machine than the trace's"
        most = f", which knows most outcomes of the {len(given)} given" if len(given) > 1 else ""
        told += [
            f"replays of {setting.source.path.name} ({ORIGIN_WORDS[manifest.origin]}{most}): {prompts} prompts at {at}",
            f"costs of {profile.name}: {profile.device_name} ({profile.device}){other}",
            *filter(None, [one_wave(setting.source, setting.concurrency)]),
            setting.controller.told(setting.source, profile),
            f"the interval over {over} covers {_COVERS[over]}; no other prompts or machines",
        ]
    once = [f"{each.other} {(each.ratio - 1) * 100:+.1f} %" for each in decision.evidence.once]
    if once:
        told.append(f"live, by one run of each, which settles nothing alone: {', '.join(once)}")
    return [*told, *_judged(judged, decision, profile.name)]


def _judged(judged: JudgedSetting | None, decision: Decision, costs: str) -> list[str]:
    """Say how far replays were off: those that the live runs were judged with, and those above, which are others."""
    if judged is None:
        return [f"never judged live in this setting; how far replays were off elsewhere: {PAGE}"]
    live = {each.other: each.ratio for each in decision.others if decision.kind == LIVE}
    off = [abs(each.ratio - live[each.other]) for each in decision.replayed if each.other in live]
    above = (
        [f"the column modeled, at the costs of {costs}, is up to {max(off) * 100:.1f} points off here"] if off else []
    )
    by = f"the costs of {judged.told.costs_of}" if judged.told else "the live runs' own costs and controller"
    return [
        *above,
        f"other replays, at {by}, were within {judged.worst_off * 100:.1f} points of them ({judged.page})",
    ]


def _told(known: Told) -> str:
    draft = f", and that a draft takes {known.draft_ms:g} ms" if known.draft_ms else ""
    return f"there controllers were told the costs of {known.costs_of}{draft}"


def when_told(advice: Advice | None, decision: Decision, setting: Setting) -> str:
    """Return the sentence on a placement that loses as it is, and would lead were its controller told the draft's time.

    Empty where the verdict is to turn one on, or telling it is not enough.
    """
    found = told_over_static(advice, decision)
    if advice is None or found is None or decision.use is not None:
        return ""
    told, gain = found
    far = told.worth.extrapolation
    if gain < _WORTH_SAYING or (far is not None and not far.tells(gain)):
        return ""
    kind = f"{MODELED} on the live difference" if decision.kind == LIVE else MODELED
    option = f"--draft-ms {told.draft_ms:.3g}"
    return (
        f"But told what a draft costs ({option}), {told.placement} would give about {gain * 100:.1f} % more tokens/s "
        f"than {advice.baseline} ({kind}{f', {far.where}' if far else ''}): try it live, simtool validate "
        f"--sl {setting.source.manifest.sl} --concurrency {setting.concurrency} {option}."
    )


def told_over_static(advice: Advice | None, decision: Decision) -> tuple[Change, float] | None:
    """Return what telling the controller the draft's time is worth, and what its placement then gives over the
    baseline, a share, on the live difference where the verdict is of live runs; None: it is not worth a thing.
    """
    told = next((each for each in advice.changes if each.lever is Lever.DRAFT_MS), None) if advice else None
    plain = {each.other: each for each in decision.others}
    if told is None or told.placement not in plain:
        return None
    return told, gain_told(plain[told.placement], told.worth)


def what_matters(advice: Advice, decision: Decision) -> list[tuple[str, str, str]]:
    """Return (change, gain, interval) of the changes that are worth most; an op for free: the most it can give."""
    told = told_over_static(advice, decision)
    if told is None:
        return what_changes(advice.changes)
    change, gain = told
    live = next((each for each in decision.others if each.other == change.placement and decision.kind == LIVE), None)
    on = f", from the live {(live.ratio - 1) * 100:+.1f} %" if live else ""
    return what_changes(advice.changes, f" (then {gain * 100:+.1f} % over {advice.baseline}{on})")


def what_changes(changes: Sequence[Change], then: str = "") -> list[tuple[str, str, str]]:
    """Return the same of some changes, the largest first. then: said where the controller is told a draft's time."""
    rows = [
        (
            _change(change) + (then if change.lever is Lever.DRAFT_MS else ""),
            f"{(change.worth.ratio - 1) * 100:+.1f} %",
            change.worth.ends,
        )
        for change in changes
        if change.worth.resolved
    ]
    return rows[:_MOST_CHANGES]


def withheld(advice: Advice, decision: Decision) -> str:
    """Return why what would turn the answer is not told; empty where it is."""
    live = {each.other: each.ratio > 1 for each in decision.others if decision.kind == LIVE}
    if live.get(advice.best.other, advice.best.ratio > 1) == (advice.best.ratio > 1):
        return ""
    return "the replays that would tell it disagree with what was measured"


def what_turns(advice: Advice, decision: Decision) -> list[str]:
    """Return a sentence for each axis along which another placement would lead, or that none would."""
    if why := withheld(advice, decision):
        return [f"not told: {why}"]
    return [_turn(turn) for turn in advice.turns]


def to_be_surer(decision: Decision, source: Trace, concurrency: int, names: tuple[str, str]) -> str:
    """Return the command that would make the verdict surer. names: of the baseline and of the candidate."""
    baseline, candidate = names
    manifest = source.manifest
    if manifest.origin == "imported":
        return (
            f"run {manifest.engine} with {candidate} and without, in turns and {_REPEATS} times each, import the step "
            "logs, and simtool compare them"
        )
    needed = decision.comparison.needed if decision.kind == LIVE else None
    repeats = max(_REPEATS, min(needed or _REPEATS, 40))
    device = "" if manifest.device == "cpu" else f" --device {manifest.device}"
    return (
        f"simtool validate --policy {baseline} --policy {candidate}{device} --algorithm {manifest.algorithm} "
        f"--sl {manifest.sl} --concurrency {concurrency} --repeats {repeats} --out traces/local/surer"
    )


def live_comparisons(traces: Sequence[Trace], baseline: str) -> tuple[list[Comparison], list[Comparison]]:
    """Compare what was measured with the live baseline: what was repeated, and what was run once."""
    arms = [arm for arm in gather_arms(traces) if arm.decodes and arm.origin == LIVE]
    placements = {arm.placement for arm in arms}
    if baseline not in placements or len(placements) < 2:
        return [], []
    found = [each for group in verdicts(arms, baseline=baseline) for each in group.comparisons]
    return [each for each in found if each.repetitions > 1], [each for each in found if each.repetitions == 1]


def _change(change: Change) -> str:
    if change.lever is Lever.DRAFT_MS:
        return f"tell the controller that a draft costs {change.draft_ms:.2g} ms"
    return f"{change.subject} taking no time"


def _turn(turn: AxisTurn) -> str:
    if turn.axis is Axis.STALE_LOSS:
        lost = "of the drafts accepted after a decision on old confidence"
        if turn.value is None:
            return f"up to {turn.high:.0%} {lost} may be lost, and the order stays"
        return f"if more than {turn.value:.0%} {lost} were lost, {turn.leads} would lead"
    what = "the decision" if turn.axis is Axis.DECIDE else "the draft"
    now = f"(now {format_ns(turn.today)})"
    if turn.value is None:
        return f"nothing, as far as tried: {what} taking {format_ns(turn.low)} to {format_ns(turn.high)} {now}"
    side = "more" if turn.above else "less"
    return f"if {what} took {side} than {format_ns(turn.value)} {now}, {turn.leads} would lead"
