"""What to do, in one sentence. What was measured leads; what was computed stands second, and where the two disagree the
sentence says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from simtool.analysis.comparison.arms import ORIGIN_WORDS
from simtool.analysis.comparison.comparison import Comparison
from simtool.report.terminal.live_first import LIVE, measured
from simtool.study.advice import Advice

MODELED = ORIGIN_WORDS["replayed"]


@dataclass(frozen=True)
class Evidence:
    """repeated: live comparisons of several runs of each; where: the page that they stand on, empty for the traces
    given. once: by one live run of each, which settle nothing. modeled: what is said of replays' figures, such as
    "modeled at the costs of another machine". elsewhere: the machine of the repeated ones, where that is another.
    """

    repeated: Sequence[Comparison] = ()
    once: Sequence[Comparison] = ()
    where: str = ""
    modeled: str = MODELED
    elsewhere: str = ""

    @property
    def measured(self) -> str:
        """What is said of the live figures."""
        return measured(self.where, self.elsewhere)


@dataclass(frozen=True)
class Decision:
    """What to do: turn one placement on, leave it off, or neither can be told. comparison: what that rests on.

    use: the placement to turn on; None: none. told: whether the comparison settles it. kind: live or modeled; origin:
    the same in words. others: every candidate's comparison of that kind; replayed: by replays. hinges: what the
    recorded predictor says, where that is otherwise. against: a live comparison by one run each that points the other
    way. second: what the other kind of figure says, for the same sentence; disagree: that it says otherwise.
    """

    comparison: Comparison
    use: str | None
    told: bool
    kind: str
    origin: str
    others: tuple[Comparison, ...]
    replayed: tuple[Comparison, ...] = ()
    hinges: Comparison | None = None
    against: Comparison | None = None
    second: str = ""
    disagree: bool = False
    evidence: Evidence = field(default_factory=Evidence)


def decide(advice: Advice | None, evidence: Evidence) -> Decision:
    """Take the verdict from repeated live runs where there are any, else replays: the lead, or the least loss.

    advice: None where nothing could be replayed; then there are live runs.
    """
    replayed = advice.comparisons if advice else ()
    found = tuple(evidence.repeated) or replayed
    live = bool(evidence.repeated)
    ahead = [each for each in found if each.resolved and each.ratio > 1]
    behind = [each for each in found if each.resolved and each.ratio < 1]
    sound = all(each.load.trustworthy for each in found)
    best = max(ahead if ahead and sound else found, key=lambda each: each.ratio)
    told = sound and (bool(ahead) or len(behind) == len(found))
    hinges = None if live or advice is None or not told else _hinge(best, bool(ahead), advice.as_recorded)
    against = None if live or not told else _against(best, bool(ahead), evidence.once)
    settled = told and hinges is None and against is None
    second, disagree = _second_to_live(best, advice, evidence.modeled) if live else _second_to_replays(best, evidence)
    return Decision(
        comparison=best,
        use=best.other if ahead and settled else None,
        told=settled,
        kind=LIVE if live else MODELED,
        origin=evidence.measured if live else evidence.modeled,
        others=found,
        replayed=replayed,
        hinges=hinges,
        against=against,
        second=second,
        disagree=disagree or hinges is not None or against is not None,
        evidence=evidence,
    )


def headline(decision: Decision, baseline: str) -> str:
    """Return the one sentence that a person acts on; the noise gate's warning first."""
    warning = decision.comparison.load.warning
    return f"{warning}. {_sentence(decision, baseline)}".capitalize() if warning else _sentence(decision, baseline)


def _hinge(best: Comparison, ahead: bool, again: Sequence[Comparison]) -> Comparison | None:
    """What the recorded predictor says against the verdict: no lead where there was one, or a lead where none was."""
    if ahead:
        same = (each for each in again if each.other == best.other)
        return next((each for each in same if not (each.resolved and each.ratio > 1)), None)
    return next((each for each in again if each.resolved and each.ratio > 1), None)


def _against(best: Comparison, ahead: bool, once: Sequence[Comparison]) -> Comparison | None:
    """The live comparison by one run each that leaves out what replays say: none leads, or the leader does not."""
    if ahead:
        return next((each for each in once if each.other == best.other and each.found.side(1.0) < 0), None)
    return next((each for each in once if each.found.side(1.0) > 0), None)


def _second_to_live(best: Comparison, advice: Advice | None, modeled: str) -> tuple[str, bool]:
    """What replays say beside a live verdict, and whether that is something else."""
    if advice is None:
        return "", False
    both = (advice.comparisons, advice.as_recorded)
    leaders = [max(found, key=lambda each: each.ratio) for found in both if found]
    lead = next((each for each in leaders if each.resolved and each.ratio > 1), None)
    name = best.other if best.ratio > 1 or lead is None else lead.other
    told = [_percent(each) for found in both for each in found if each.other == name]
    if not told:
        return "", False
    by = f"{told[0]} by the profile's predictor and {told[1]} by the recorded one" if len(told) > 1 else told[0]
    mine = next((each for each in advice.comparisons if each.other == best.other), None)
    behind = best.ratio > 1 and mine is not None and mine.resolved and mine.ratio < 1
    if (best.ratio < 1 and lead is not None) or behind:
        return f"; replays say otherwise, {name} {by} ({modeled}): go by the live figure", True
    return f"; {modeled} {by}", False


def _second_to_replays(best: Comparison, evidence: Evidence) -> tuple[str, bool]:
    """What one live run of each shows beside a verdict of replays."""
    mine = next((each for each in evidence.once if each.other == best.other), None)
    return (f"; live, by one run of each, {_percent(mine)}" if mine else ""), False


def _sentence(decision: Decision, baseline: str) -> str:
    found = decision.comparison
    far = f", {found.extrapolation}" if found.extrapolation is not None else ""
    if decision.against is not None:
        return (
            f"Cannot tell: {decision.origin}, {_said(found)} than {baseline}; live, by one run of each, "
            f"{_said(decision.against)}{far}."
        )
    if decision.hinges is not None:
        return (
            "Cannot tell, it turns on what the controller takes a verify to cost (its predictor): by the profile's "
            f"{_said(found)} than {baseline}; by the one recorded {_said(decision.hinges)} ({decision.origin}"
            f"{decision.second}){far}."
        )
    percent = f"{abs(found.ratio - 1) * 100:.1f} %"
    interval = f"95 % interval {found.interval}, {decision.origin}"
    if decision.use is not None:
        return f"Use {decision.use}: {percent} more tokens/s than {baseline} ({interval}){decision.second}{far}."
    if decision.told:
        return (
            f"Leave it off: {baseline} is fastest. The closest, {found.other}, gives {percent} fewer tokens/s "
            f"({interval}){decision.second}{far}."
        )
    return f"Cannot tell: {_said(found)} than {baseline} here ({decision.origin}){decision.second}{far}."


def _said(found: Comparison) -> str:
    more = "more" if found.ratio > 1 else "fewer"
    return f"{found.other} gives {abs(found.ratio - 1) * 100:.1f} % {more} tokens/s (95 % interval {found.interval})"


def _percent(found: Comparison) -> str:
    return f"{(found.ratio - 1) * 100:+.1f} %"
