"""Advice in words, one screen: what to do, what it rests on, what matters more, what would turn it, how to be surer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.analysis.comparison.arms import ORIGIN_WORDS, gather_arms
from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.verdict import verdicts
from simtool.study.advice import Advice, Axis, AxisTurn, Change, Lever
from simtool.study.runner import Setting
from simtool.trace.trace import Trace
from simtool.units import format_ns

_MOST_CHANGES = 3
#: What an interval of replays covers, by what it ranges over.
_COVERS = {
    Over.DRAWS: "noise and the fit of the costs",
    Over.SEEDS: "noise only, not the fit of the costs",
    Over.STEPS: "the run's own steps only, for the costs have no noise",
}
_TOLD, _UNTOLD = "\N{CHECK MARK}", "\N{BALLOT X}"
_REPEATS = 5
_WORTH_SAYING = 0.005  # of tokens/s
_LIVE = ORIGIN_WORDS["live"]


@dataclass(frozen=True)
class Decision:
    """What to do: turn one placement on, leave it off, or neither can be told. comparison: what that rests on.

    use: the placement to turn on; None: none. told: whether the comparison settles it. kind: live or modeled; origin:
    the same in words, such as "modeled at the costs of another machine".
    others: every candidate's comparison. hinges: what the recorded predictor says, where that is otherwise.
    """

    comparison: Comparison
    use: str | None
    told: bool
    kind: str
    origin: str
    others: tuple[Comparison, ...]
    hinges: Comparison | None = None


def decide(advice: Advice | None, live: Sequence[Comparison], modeled: str = ORIGIN_WORDS["replayed"]) -> Decision:
    """Take the verdict from live runs where there are any, else replays: the lead, or the least loss.

    advice: None where nothing could be replayed; then there are live runs. modeled: what is said of replays' figures.
    """
    found = tuple(live) or (advice.comparisons if advice else ())
    ahead = [each for each in found if each.resolved and each.ratio > 1]
    behind = [each for each in found if each.resolved and each.ratio < 1]
    sound = all(each.load.trustworthy for each in found)
    best = max(ahead if ahead and sound else found, key=lambda each: each.ratio)
    told = sound and (bool(ahead) or len(behind) == len(found))
    hinges = None if live or advice is None or not told else _hinge(best, bool(ahead), advice.as_recorded)
    return Decision(
        comparison=best,
        use=best.other if ahead and sound and hinges is None else None,
        told=told and hinges is None,
        kind=_LIVE if live else ORIGIN_WORDS["replayed"],
        origin=_LIVE if live else modeled,
        others=found,
        hinges=hinges,
    )


def _hinge(best: Comparison, ahead: bool, again: Sequence[Comparison]) -> Comparison | None:
    """What the recorded predictor says against the verdict: no lead where there was one, or a lead where none was."""
    if ahead:
        same = (each for each in again if each.other == best.other)
        return next((each for each in same if not (each.resolved and each.ratio > 1)), None)
    return next((each for each in again if each.resolved and each.ratio > 1), None)


def headline(decision: Decision, baseline: str) -> str:
    """Return the one sentence that a person acts on; the noise gate's warning first."""
    warning = decision.comparison.load.warning
    return f"{warning}. {_sentence(decision, baseline)}".capitalize() if warning else _sentence(decision, baseline)


def _sentence(decision: Decision, baseline: str) -> str:
    found = decision.comparison
    if decision.hinges is not None:
        return (
            f"Cannot tell, it turns on the controller's predictor: with the profile's, {_said(found)} than {baseline}; "
            f"with the one recorded, {_said(decision.hinges)} ({decision.origin})."
        )
    percent = f"{abs(found.ratio - 1) * 100:.1f} %"
    interval = f"95 % interval {found.interval}, {decision.origin}"
    if decision.use is not None:
        return f"Use {decision.use}: {percent} more tokens/s than {baseline} ({interval})."
    if decision.told:
        return (
            f"Leave it off: {baseline} is fastest. The closest, {found.other}, gives {percent} fewer tokens/s "
            f"({interval})."
        )
    return f"Cannot tell: {_said(found)} than {baseline} here ({decision.origin})."


def _said(found: Comparison) -> str:
    more = "more" if found.ratio > 1 else "fewer"
    return f"{found.other} gives {abs(found.ratio - 1) * 100:.1f} % {more} tokens/s (95 % interval {found.interval})"


def each_of(decision: Decision) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """Return the heads and a row a candidate: its difference with its interval, marked where that is told apart."""
    heads = ("placement", "change", f"95 % over {decision.comparison.over}", "told apart")
    rows = [
        (each.other, f"{(each.ratio - 1) * 100:+.1f} %", each.ends, _TOLD if each.resolved else _UNTOLD)
        for each in decision.others
    ]
    return heads, rows


def rests_on(decision: Decision, setting: Setting, aside: Sequence[Comparison]) -> list[str]:
    """Say what kind of figures the verdict is made of, on what load and which machine.

    aside: live comparisons of one run each, which settle nothing.
    """
    manifest, profile = setting.source.manifest, setting.profile
    prompts = setting.source.table("requests").height
    load = f"{prompts} prompts at concurrency {setting.concurrency}, {manifest.algorithm}, SL {manifest.sl}"
    if decision.kind == _LIVE:
        machine = f"{manifest.device_name} ({manifest.device})"
        return [f"{decision.comparison.repetitions} live runs of each: {load}, {machine}", decision.comparison.method]
    other = "" if profile.device_name == manifest.device_name else ", another machine than the trace's"
    told = [f"{each.other} {(each.ratio - 1) * 100:+.1f} %" for each in aside]
    return [
        f"replays of {setting.source.path.name} ({ORIGIN_WORDS[manifest.origin]}): {load}",
        f"costs of {profile.name}: {profile.device_name} ({profile.device}){other}",
        setting.controller.told(setting.source, profile),
        *([f"set aside, for one live run of each settles nothing: {', '.join(told)}"] if told else ()),
        f"not measured live: the interval covers {_COVERS[decision.comparison.over]}, no other prompts or machines",
    ]


def when_told(advice: Advice | None, decision: Decision, baseline: str) -> str:
    """Return the sentence on a placement that loses as it is, and would lead were its controller told the draft's time.

    Empty where the verdict is to turn one on, or telling it is not enough.
    """
    told = next((each for each in advice.changes if each.lever is Lever.DRAFT_MS), None) if advice else None
    if advice is None or told is None or decision.use is not None:
        return ""
    plain = next((each for each in advice.comparisons if each.other == told.placement), None)
    gain = plain.ratio * told.worth.ratio - 1 if plain else 0.0
    if gain < _WORTH_SAYING:
        return ""
    option = f"--draft-ms {told.draft_ms:.3g}"
    return (
        f"But told what a draft costs ({option}), {told.placement} would give about {gain * 100:.1f} % more tokens/s "
        f"than {baseline} (modeled): try it live, simtool validate {option}."
    )


def what_matters(advice: Advice) -> list[tuple[str, str, str]]:
    """Return (change, gain, interval) of the changes that are worth most; an op for free: the most it can give."""
    rows = [
        (_change(change), f"{(change.worth.ratio - 1) * 100:+.1f} %", change.worth.ends)
        for change in advice.changes
        if change.worth.resolved
    ]
    return rows[:_MOST_CHANGES]


def what_turns(advice: Advice) -> list[str]:
    """Return a sentence for each axis along which another placement would lead, or that none would."""
    return [_turn(turn) for turn in advice.turns]


def to_be_surer(decision: Decision, source: Trace, concurrency: int, names: tuple[str, str]) -> str:
    """Return the command that would make the verdict surer. names: of the baseline and of the candidate."""
    baseline, candidate = names
    manifest = source.manifest
    needed = decision.comparison.needed if decision.kind == _LIVE else None
    repeats = max(_REPEATS, min(needed or _REPEATS, 40))
    device = "" if manifest.device == "cpu" else f" --device {manifest.device}"
    return (
        f"simtool validate --policy {baseline} --policy {candidate}{device} --algorithm {manifest.algorithm} "
        f"--sl {manifest.sl} --concurrency {concurrency} --repeats {repeats} --out traces/local/surer"
    )


def live_comparisons(traces: Sequence[Trace], baseline: str) -> tuple[list[Comparison], list[Comparison]]:
    """Compare what was measured with the live baseline: what was repeated, and what was run once."""
    arms = [arm for arm in gather_arms(traces) if arm.decodes and arm.origin == _LIVE]
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
        return f"{what} may take from {format_ns(turn.low)} to {format_ns(turn.high)} {now}, and the order stays"
    side = "more" if turn.above else "less"
    return f"if {what} took {side} than {format_ns(turn.value)} {now}, {turn.leads} would lead"
