"""Figures and verdicts in words, alike on the page and on the terminal."""

from __future__ import annotations

from published_runs.prediction import Prediction, Verdict

HEADS = ("setting", "figure", "predicted", "published", "its 95 % interval, at the least and most spread", "verdict")
SHORT_HEADS = ("setting", "figure", "predicted", "published", "verdict")
_TOLD = {
    Verdict.COVERED: "covered",
    Verdict.WIDE_ONLY: "covered by the upper spread only",
    Verdict.MISSED: "**missed**",
    Verdict.INSIDE: "inside (no spread published)",
    Verdict.OUTSIDE: "**missed** (no spread published)",
}


def predicted(each: Prediction) -> str:
    """Return what was predicted: a range, or a figure where nothing was left open."""
    low, high = value(each, each.low), value(each, each.high)
    return low if low == high else f"{low} to {high}"


def value(each: Prediction, figure: float) -> str:
    """Return a figure as its kind is written: a gain in percent, a rate, or a count."""
    if each.gain:
        return percent(figure)
    return f"{figure:.3f}" if abs(figure) < 1 else f"{figure:.1f}"


def spread(each: Prediction) -> str:
    """Return the published figure's 95 % interval at the least and at the most that repetitions are told to differ."""
    if each.spread is None:
        return "-"
    ends = (each.interval(deviation) for deviation in (each.spread.low, each.spread.high))
    return "; ".join(f"{value(each, low)} to {value(each, high)}" for low, high in ends)


def verdict(each: Prediction) -> str:
    """Return how the prediction fares, and where the sign is another."""
    wrong = ", wrong sign" if each.sign_holds is False else ""
    return _TOLD[each.verdict] + wrong


def percent(share: float, digits: int = 1, *, sign: bool = True) -> str:
    """Return a share in percent."""
    return f"{share:{'+' if sign else ''}.{digits}%}".replace("%", " %")


def counted(predictions: list[Prediction]) -> str:
    """Return how many hold, in one phrase."""
    verdicts = [each.verdict for each in predictions]
    held = sum(each in (Verdict.COVERED, Verdict.INSIDE) for each in verdicts)
    wide = sum(each is Verdict.WIDE_ONLY for each in verdicts)
    missed = len(verdicts) - held - wide
    return f"{held} hold, {wide} only by the upper end of the published spread, {missed} miss"


def row(each: Prediction) -> tuple[str, ...]:
    """Return a prediction under HEADS."""
    return (
        each.setting,
        each.figure,
        predicted(each),
        value(each, each.published),
        spread(each),
        verdict(each),
    )


def short_row(each: Prediction) -> tuple[str, ...]:
    """Return a prediction under SHORT_HEADS, for a terminal."""
    return each.setting, each.figure, predicted(each), value(each, each.published), each.verdict.value
