"""The validation for a terminal: predicted beside measured, arm by arm and pair by pair, then in words."""

from __future__ import annotations

from simtool.analysis.comparison.headline import Metric
from simtool.analysis.comparison.noise import MAX_FOREIGN_SHARE, ForeignLoad
from simtool.analysis.fidelity.fidelity import Fidelity, Judged, JudgedPair
from simtool.report.terminal.tables import TextTable, table
from simtool.stats.interval import LEVEL_TEXT, Interval
from simtool.units import format_ns

_INSIDE, _OUTSIDE = "\N{CHECK MARK}", "\N{BALLOT X}"


def tables(fidelity: Fidelity) -> list[TextTable]:
    """Return the table of arms and the table of pairs; none when only tokens were judged."""
    if not fidelity.judged:
        return []
    arms = table(
        f"replayed beside live ({fidelity.repetitions} interleaved live runs each; {_INSIDE}: inside their interval)",
        ("placement", "measure", "replayed", "live", "95 % interval", "error"),
        [_arm_row(each) for each in fidelity.judged],
        numbers_from=2,
    )
    pairs = table(
        f"throughput of one over another, {LEVEL_TEXT} intervals (holds: whose interval holds the other's figure)",
        ("placement", "over", "replayed, %", "live, %", "holds"),
        [_pair_row(each) for each in fidelity.pairs],
        numbers_from=2,
    )
    return [arms, pairs]


def headline(fidelity: Fidelity) -> list[str]:
    """Answer first, a sentence a pair: what one placement buys over another, live, with its interval.

    The noise gate speaks before all of them.
    """
    warning = [f"{fidelity.load.warning}: no figure of a live run below is to be relied on"]
    return [*(warning if fidelity.load.warning else ()), *map(_sentence, fidelity.pairs)]


def _sentence(each: JudgedPair) -> str:
    interval = f"{LEVEL_TEXT} interval {each.live.text(_change)}; replay {_change(each.replayed.mean)}"
    if not each.live.side(1.0):
        return f"cannot tell {each.other} from {each.baseline} ({interval})"
    more = "more" if each.live.mean > 1 else "fewer"
    size = f"{abs(each.live.mean - 1) * 100:.1f} %"
    where = " over the whole run" if each.metric is Metric.WHOLE_RUN else ""
    return f"{each.other} gives {size} {more} tokens/s{where} than {each.baseline} ({interval})"


def describe(fidelity: Fidelity) -> list[str]:
    """Say in sentences how far the replay can be trusted, and how quiet the machine was."""
    tokens = (
        f"tokens: {fidelity.mismatches} of {fidelity.rows} live rows differ from the replay in step, request, anchor, "
        "prefix length, accepted or emitted."
    )
    differences = list(map(str, fidelity.first_differences))
    if not fidelity.judged:
        return [tokens, *differences]
    errors = fidelity.errors("step time")
    worst = max(errors, key=abs, default=0.0)
    mean = sum(map(abs, errors)) / max(len(errors), 1)
    return [
        tokens,
        *differences,
        f"time: step time predicted within {mean:.1%} on average, {worst:+.1%} at worst; costs were fitted on other "
        "prompts than those judged.",
        f"machine: {_busy_with_others(fidelity.load)}",
    ]


def _arm_row(each: Judged) -> tuple[str, ...]:
    error = "-" if each.error is None else f"{each.error:+.1%}"
    interval = _span(each)
    values = (_value(each.predicted, each.unit), _value(each.live.mean, each.unit))
    return each.arm, each.measure, *values, interval, f"{error} {_INSIDE if each.inside else _OUTSIDE}"


def _pair_row(each: JudgedPair) -> tuple[str, ...]:
    return (
        each.other,
        each.baseline,
        _with_interval(each.replayed),
        _with_interval(each.live),
        _whose(each),
    )


def _span(each: Judged) -> str:
    """The interval, its unit once where both ends have the same."""
    text = each.live.text(lambda value: _value(value, each.unit))
    low, _, high = text.partition(" to ")
    unit = high.rpartition(" ")[2]
    return f"{low.removesuffix(f' {unit}')} to {high}" if each.unit == "ns" and low.endswith(f" {unit}") else text


def _with_interval(found: Interval) -> str:
    """A change with its interval, in percent."""
    ends = "" if found.bounds is None else f" ({found.text(_percent)})"
    return _percent(found.mean) + ends


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}"


def _whose(each: JudgedPair) -> str:
    """Whose interval holds the other's figure."""
    held = {(True, True): "both", (True, False): "live's", (False, True): "replay's"}
    return held.get((each.inside, each.foreseen), "neither")


def _busy_with_others(load: ForeignLoad) -> str:
    if load.worst is None:
        return "how busy it was with other work is not known here."
    return (
        f"other work took {load.worst:.0%} of its cores' time at most during a run; "
        f"above {MAX_FOREIGN_SHARE:.0%}, live overlap is not to be trusted."
    )


def _value(value: float, unit: str) -> str:
    if unit == "ns":
        return format_ns(value)
    return f"{value:.0f}" if value >= 100 else f"{value:.3f}"


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"
