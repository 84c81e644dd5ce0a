"""From what is stated to what is drawn from: the latent ease of a step, and what it does to drafts and confidence.

A step's ease h is standard normal, and AR(1) over the steps of a request. Draft k is accepted, after those before it,
with probability Phi(middle[k] + spread h), and its confidence is Phi(middle[k] + spread h + bias): it knows the ease
and nothing else. All that is stated is an expectation over h, or over h and its successor, and is solved for here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from simtool.errors import UsageError
from simtool.replay.synthetic.process import MOST_CORRELATION, MOST_SHARPNESS, AcceptanceProcess

Reals = NDArray[np.float64]

#: The trapezoid rule on this grid is exact to rounding for what is smooth beside its step.
_EASE = np.linspace(-8.5, 8.5, 3401)
_WEIGHT = np.exp(-(_EASE**2) / 2)
_WEIGHT /= _WEIGHT.sum()
_MOST_SPREAD, _MOST_SHIFT = 60.0, 40.0
_HERMITE_TERMS = 80


@dataclass(frozen=True)
class Shape:
    """What blocks are drawn from. middle: [N]. correlation: of the ease with that of the step before.

    acceptance_autocorrelation: what follows for the accepted drafts of successive blocks. before: [grid], share of a
    text's tokens that are emitted by steps up to that ease.
    """

    middle: Reals
    spread: float
    bias: float
    correlation: float
    acceptance_autocorrelation: float
    before: Reals

    def ease_before(self, share: float) -> float:
        """Return the ease of the step before a request's first: that of a token, not of a step, taken at random.

        A request is a stretch of so many tokens. Were its first step as any other, requests that begin with ease
        would be over in few steps, and all steps together show less acceptance than is stated.
        """
        return float(np.interp(share, self.before, _EASE))

    def chances(self, ease: Reals) -> Reals:
        """Return the chance of each draft after accepted ones: [steps, N]."""
        return _phi(self.middle + self.spread * ease[:, None])

    def confidence(self, ease: Reals) -> Reals:
        """Return what the drafter says of them: [steps, N]."""
        return _phi(self.middle + self.spread * ease[:, None] + self.bias)


def solve(process: AcceptanceProcess) -> Shape:
    """Return what has the stated properties; raises UsageError where nothing has."""
    spread = _spread(process)
    middle = _middle(process.acceptance, spread)
    bias = _bias(process, middle, spread)
    forecast = _survival(middle + bias, spread).sum(axis=1)
    correlation = _correlation(process.confidence_autocorrelation, _powers(forecast))
    accepted = _survival(middle, spread).sum(axis=1)
    lasting = _lagged(_powers(accepted), correlation) / _variance(process.acceptance)
    tokens = np.cumsum(_WEIGHT * (1 + accepted))
    return Shape(
        middle=middle,
        spread=spread,
        bias=bias,
        correlation=correlation,
        acceptance_autocorrelation=lasting,
        before=tokens / tokens[-1],
    )


def sharpness_for(process: AcceptanceProcess, acceptance_autocorrelation: float) -> float:
    """Return the sharpness at which accepted drafts of successive blocks correlate so; all else as in the process.

    Raises UsageError where the confidence does not last long enough for it.
    """
    if not 0 < acceptance_autocorrelation < 1:
        raise UsageError(
            f"acceptance autocorrelation is {acceptance_autocorrelation:g}; expected more than 0 and less than 1, or "
            "give the sharpness"
        )

    def short(sharpness: float) -> float:
        shape = solve(replace(process, sharpness=sharpness))
        return acceptance_autocorrelation - shape.acceptance_autocorrelation

    if (missing := short(MOST_SHARPNESS)) > 0:
        raise UsageError(
            f"acceptance autocorrelation is {acceptance_autocorrelation:g}; at a confidence autocorrelation of "
            f"{process.confidence_autocorrelation:g} it reaches {acceptance_autocorrelation - missing:.2f} at most"
        )
    return _root(short, 1e-9, MOST_SHARPNESS)


def _phi(value: Reals) -> Reals:
    return np.asarray(special.ndtr(value), np.float64)


def _survival(middle: Reals, spread: float) -> Reals:
    """Chance that the first k drafts are all accepted, at each ease of the grid: [ease, N]."""
    return np.cumprod(_phi(middle + spread * _EASE[:, None]), axis=1, dtype=np.float64)


def _middle(acceptance: tuple[float, ...], spread: float) -> Reals:
    """Position by position, what makes the acceptance that is stated: [N]."""
    survived, middle = np.ones_like(_EASE), []
    for share in acceptance:

        def surplus(value: float, share: float = share, survived: Reals = survived) -> float:
            return float(_WEIGHT @ (survived * _phi(value + spread * _EASE))) - share

        edge = _MOST_SHIFT + 10 * spread
        middle.append(edge if surplus(edge) <= 0 else _root(surplus, -edge, edge))
        survived = survived * _phi(middle[-1] + spread * _EASE)
    return np.array(middle)


def _variance(acceptance: tuple[float, ...]) -> float:
    """Variance of the accepted drafts of a block: E[m^2] is the sum of (2 k - 1) P(m >= k)."""
    square = math.fsum((2 * k - 1) * share for k, share in enumerate(acceptance, 1))
    return square - math.fsum(acceptance) ** 2


def _spread(process: AcceptanceProcess) -> float:
    """The spread at which the ease explains the stated share of the variance of accepted drafts."""
    total = _variance(process.acceptance)

    def surplus(spread: float) -> float:
        expected = _survival(_middle(process.acceptance, spread), spread).sum(axis=1)
        mean = float(_WEIGHT @ expected)
        return float(_WEIGHT @ (expected - mean) ** 2) / total - process.sharpness

    if process.sharpness == 0:
        return 0.0
    if surplus(_MOST_SPREAD) < 0:
        raise UsageError(f"sharpness is {process.sharpness:g}; this acceptance by position allows less")
    return _root(surplus, 0.0, _MOST_SPREAD)


def _bias(process: AcceptanceProcess, middle: Reals, spread: float) -> float:
    """The shift of the confidence at which its forecasts are off by the stated error."""
    accepted = math.fsum(process.acceptance) / process.drafts

    def surplus(bias: float) -> float:
        forecast = float(_WEIGHT @ _survival(middle + bias, spread).mean(axis=1))
        return forecast - accepted - process.calibration_error

    if process.calibration_error == 0:
        return 0.0
    edge = _MOST_SHIFT + 10 * spread + float(np.abs(middle).max())
    if surplus(-edge) > 0 or surplus(edge) < 0:
        raise UsageError(
            f"calibration error is {process.calibration_error:g}; acceptance is {accepted:.3f} on average, so it lies "
            f"between {-accepted:.3f} and {1 - accepted:.3f}"
        )
    return _root(surplus, -edge, edge)


def _powers(values: Reals) -> Reals:
    """How much of the variance of a function of the ease is of each Hermite degree: [degrees], from 1 on.

    The correlation of f(h) and f(h') is then the sum of power x correlation^degree (Mehler's formula).
    """
    centred = values - float(_WEIGHT @ values)
    before, now, found = np.ones_like(_EASE), _EASE.copy(), []
    for degree in range(1, _HERMITE_TERMS + 1):
        found.append(float(_WEIGHT @ (centred * now)) ** 2)
        before, now = now, (_EASE * now - math.sqrt(degree) * before) / math.sqrt(degree + 1)
    return np.array(found)


def _lagged(powers: Reals, correlation: float) -> float:
    """Covariance between successive steps."""
    return float((powers * correlation ** np.arange(1, len(powers) + 1)).sum())


def _correlation(wanted: float, powers: Reals) -> float:
    """The correlation of the ease at which that of the forecast is as wanted."""
    total = float(powers.sum())
    if wanted == 0:
        return 0.0
    if not total:
        raise UsageError(
            f"confidence autocorrelation is {wanted:g}, and at sharpness 0 the confidence is the same in every step; "
            "give it a sharpness above 0, or autocorrelation 0"
        )
    return _root(lambda value: _lagged(powers, value) / total - wanted, 0.0, (1 + MOST_CORRELATION) / 2)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(optimize.brentq(function, low, high, xtol=1e-10))
