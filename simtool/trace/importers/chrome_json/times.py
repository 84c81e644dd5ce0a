"""Times in microseconds, as numbers or texts, to whole nanoseconds, exactly."""

from __future__ import annotations

from decimal import Decimal

import polars as pl

from simtool.trace.importers.written import number
from simtool.units import NS_PER_US

_MAX_US = 9 * 10**15  # what 64 bits of nanoseconds hold
_EXACT = pl.Decimal(38, 9)


def to_span_ns(start_us: object, duration_us: object) -> tuple[int, int] | None:
    """Return start and end in ns, each rounded once, or None when the two are no span."""
    start, duration = microseconds(start_us), microseconds(duration_us)
    if start is None or duration is None or duration < 0:
        return None
    return round(start * NS_PER_US), round((start + duration) * NS_PER_US)


def times_ns(start: pl.Series, duration: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return starts and ends in ns (Int64) from texts in us; both null where the two are no span of time."""
    frame = pl.DataFrame({"start": _decimals(start), "duration": _decimals(duration)})
    start_us, end_us = pl.col("start"), pl.col("start") + pl.col("duration")
    sound = start_us.abs().le(_MAX_US) & end_us.abs().le(_MAX_US) & pl.col("duration").ge(0)
    exact = frame.select(start_ns=pl.when(sound).then(_rounded(start_us)), end_ns=pl.when(sound).then(_rounded(end_us)))
    return exact["start_ns"], exact["end_ns"]


def _rounded(time_us: pl.Expr) -> pl.Expr:
    return (time_us * NS_PER_US).round(0, mode="half_to_even").cast(pl.Int64, strict=False)


def _decimals(texts: pl.Series) -> pl.Series:
    """Texts as exact numbers, null where they are none. The few in an unusual form are read one by one."""
    exact = texts.cast(_EXACT, strict=False)
    odd = (exact.is_null() & texts.is_not_null()).arg_true()
    if odd.is_empty():
        return exact
    mended = [microseconds(text) for text in texts.gather(odd).to_list()]
    return exact.scatter(odd, pl.Series(mended, dtype=_EXACT))


def microseconds(value: object) -> Decimal | None:
    """Return the number, or None when it is none or would not fit 64 bits of ns."""
    found = number(value)
    return None if found is None or abs(found) >= _MAX_US else found
