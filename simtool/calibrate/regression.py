"""Fit a cost to observed durations: non-negative least squares that keeps the mean and shrugs off outliers.

The first pass fits every observation. Each further pass fits again with every observation pulled to within Tukey's
far-out fence (three interquartile ranges) of the line before, until the line stays, so that a preempted op cannot
tilt the slopes (winsorised residuals; Huber, Robust Statistics, 1981, section 7.8). The intercept then moves until
the mean residual over ALL observations is zero: throughput depends on means, so what the outliers cost must stay in
the prediction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from simtool.calibrate.bootstrap import Resample
from simtool.calibrate.observed import Ints, Observed
from simtool.profile.cost import Cost, Line, Quality
from simtool.step.idle_effects import IDLE_FEATURES

_FENCE_IQR = 3.0  # Tukey, Exploratory Data Analysis (1977): "far out"
_PASSES = 30
_STAYS = 1e-6  # share of a coefficient by which it may move in a last pass
_BLOCK = 16  # consecutive observations kept together when every second block is held out
_MIN_HELD_OUT = 8
_MAX_RESIDUALS = 2048
_HALF_NS = 0.5

_Reals = NDArray[np.float64]


def fit_cost(observed: Observed, features: Sequence[str], resamples: Sequence[Resample] = ()) -> Cost:
    """Return the cost of work whose duration grows with `features`; needs one observation or more, in time order.

    resamples: what to fit again, for the cost's refits. A feature that never varied cannot be told from the intercept:
    its share stays there, and `ranges` says so. History has no range: it is bounded, and no size to extrapolate in.
    """
    values, columns = observed.value_ns.astype(np.float64), observed.columns(features)
    line = fit_line(columns, values)
    residuals = values - _predict(columns, line)
    refits = [_refit(observed.start_ns, columns, values, line, resample) for resample in resamples]
    whole, *lines = (_line(each, features, columns) for each in (line, *refits))
    return Cost(
        whole.intercept_ns,
        whole.per_feature_ns,
        _centred(residuals[-_MAX_RESIDUALS:]),
        {
            n: (float(c.min()), float(c.max()))
            for n, c in zip(features, columns.T, strict=True)
            if n not in IDLE_FEATURES
        },
        _quality(columns, values, residuals),
        tuple(lines),
    )


def fit_line(columns: _Reals, values: _Reals) -> _Reals:
    """Return [intercept, slopes...] of the line described above; columns: [n, k], values: [n].

    No slope is below zero; that of a column which never varies is zero.
    """
    varies = np.ptp(columns, axis=0) > 0
    line = np.zeros(columns.shape[1] + 1)
    if not varies.any():
        line[0] = values.mean()
        return line
    used = columns[:, varies]
    fitted = _winsorised(used, values)
    fitted[0] = max(fitted[0] + (values - _predict(used, fitted)).mean(), 0.0)
    line[np.concatenate([[True], varies])] = fitted
    return line


def fit_nonnegative(columns: _Reals, values: _Reals) -> _Reals:
    """Return [intercept, slopes...], none below zero, of the least-squares line; columns: [n, k], values: [n]."""
    return _solver(columns)(values)


def _solver(columns: _Reals) -> Callable[[_Reals], _Reals]:
    """Return what fits values to these columns, whose design is made once."""
    design = np.column_stack([np.ones(len(columns)), columns])
    scale = np.maximum(design.max(axis=0), 1e-300)  # nnls picks columns by gradient, so they must be of one size
    design /= scale

    def solve(values: _Reals) -> _Reals:
        return np.asarray(nnls(design, values)[0] / scale, dtype=np.float64)

    return solve


def _centred(residuals: _Reals) -> tuple[int, ...]:
    """Whole ns with mean zero, so that noise moves no mean, even where only the last ones are kept."""
    return tuple(int(residual) for residual in np.rint(residuals - residuals.mean()))


def _winsorised(columns: _Reals, values: _Reals) -> _Reals:
    solve = _solver(columns)
    line = solve(values)
    for _ in range(_PASSES):
        before, predicted = line, _predict(columns, line)
        low, high = quartiles(values - predicted)
        reach = _FENCE_IQR * (high - low)
        line = solve(np.clip(values, predicted + low - reach, predicted + high + reach))
        if (np.abs(line - before) <= _STAYS * np.abs(before)).all():
            break
    return line


def quartiles(values: _Reals) -> tuple[float, float]:
    """Return `np.quantile` of finite values at 0.25 and 0.75, to the last bit: a fit asks for thousands of them.

    What numpy does besides takes longer than the quartiles of some hundred values.
    """
    last = len(values) - 1
    places = [(math.floor(share * last), share * last % 1) for share in (0.25, 0.75)]
    near = np.partition(values, [min(low + more, last) for low, _ in places for more in (0, 1)])
    first, third = (_between(near[low], near[min(low + 1, last)], way) for low, way in places)
    return first, third


def _between(low: float, high: float, way: float) -> float:
    """A point between two, from the nearer of them."""
    return float(low + (high - low) * way if way < 0.5 else high - (high - low) * (1 - way))


def _refit(starts_ns: Ints, columns: _Reals, values: _Reals, line: _Reals, resample: Resample) -> _Reals:
    """The line of a resample; the whole recording's where the resample drew none of these observations."""
    times = resample.times_drawn(starts_ns)
    if not times.any():
        return line
    return fit_line(np.repeat(columns, times, axis=0), np.repeat(values, times))


def _line(fitted: _Reals, features: Sequence[str], columns: _Reals) -> Line:
    slopes = zip(features, fitted[1:], columns.T, strict=True)
    return Line(float(fitted[0]), {name: float(slope) for name, slope, column in slopes if _seen(slope, column)})


def _seen(slope: float, column: _Reals) -> bool:
    """Whether a slope ever makes half a nanosecond; less is rounding in the fit."""
    return float(slope * column.max()) >= _HALF_NS


def _predict(columns: _Reals, line: _Reals) -> _Reals:
    return np.asarray(line[0] + columns @ line[1:], dtype=np.float64)


def _quality(columns: _Reals, values: _Reals, residuals: _Reals) -> Quality:
    spread = float(((values - values.mean()) ** 2).sum())
    r2 = 1.0 - float((residuals**2).sum()) / spread if spread > 0 else None
    p50, p99 = np.quantile(values, (0.5, 0.99))
    error, bias = _held_out(columns, values)
    return Quality(
        n=len(values),
        mean_ns=float(values.mean()),
        p50_ns=float(p50),
        p99_ns=float(p99),
        r2=r2,
        held_out_error=error,
        held_out_bias=bias,
    )


def _held_out(columns: _Reals, values: _Reals) -> tuple[float | None, float | None]:
    """Fit on every second block of consecutive observations, judge on the others."""
    block = max(1, min(_BLOCK, len(values) // 4))
    judged = np.arange(len(values)) // block % 2 == 1
    mean = abs(float(values[judged].mean())) if judged.any() else 0.0
    if judged.sum() < _MIN_HELD_OUT or mean == 0:
        return None, None
    errors = values[judged] - _predict(columns[judged], fit_line(columns[~judged], values[~judged]))
    return float(np.abs(errors).mean()) / mean, float(errors.mean()) / mean
