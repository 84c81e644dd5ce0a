"""What outcomes are drawn from: acceptance by position, how much the confidence knows, how long it holds, how wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy import optimize

from simtool.errors import UsageError

_MOST_DRAFTS = 256
#: Beyond this a step is as good as its neighbour for longer than any request lasts.
MOST_CORRELATION = 0.999
MOST_SHARPNESS = 0.99


@dataclass(frozen=True, kw_only=True)
class AcceptanceProcess:
    """Outcomes as a full-width run would see them, step after step of a request.

    acceptance: [N], share of blocks whose first k drafts are all accepted, never growing with k.
    sharpness: share of the variance of accepted drafts per block that a fresh confidence foretells, 0 to 0.99.
    confidence_autocorrelation: of a block's expected accepted drafts with those of the request's block before.
    calibration_error: mean over blocks and positions of forecast less acceptance; above 0 the confidence promises too
    much, below 0 too little. It has one sign for every forecast, so it is the expected calibration error, in any bins.
    """

    acceptance: tuple[float, ...]
    sharpness: float
    confidence_autocorrelation: float
    calibration_error: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= len(self.acceptance) <= _MOST_DRAFTS:
            raise UsageError(f"acceptance of {len(self.acceptance)} positions; expected 1 to {_MOST_DRAFTS}")
        if not all(0 < share < 1 for share in self.acceptance):
            raise UsageError(f"acceptance is {_listed(self.acceptance)}; expected shares between 0 and 1, neither")
        if any(later > earlier for earlier, later in pairwise(self.acceptance)):
            raise UsageError(
                f"acceptance is {_listed(self.acceptance)}; the first k drafts are all accepted at most as often as "
                "the first k-1, so it never grows"
            )
        _check("sharpness", self.sharpness, 0.0, MOST_SHARPNESS)
        _check("confidence autocorrelation", self.confidence_autocorrelation, 0.0, MOST_CORRELATION)
        _check("calibration error", self.calibration_error, -1.0, 1.0)

    @property
    def drafts(self) -> int:
        """N."""
        return len(self.acceptance)

    @property
    def acceptance_length(self) -> float:
        """Mean tokens that a full-width step emits per sequence, the bonus token included."""
        return 1 + sum(self.acceptance)


def constant_acceptance(drafts: int, acceptance_length: float) -> tuple[float, ...]:
    """Return acceptance by position where every draft stands the same chance after accepted ones: [drafts].

    acceptance_length: mean emitted tokens, bonus token included: between 1 and drafts + 1, neither. Raises UsageError.
    """
    if not 1 <= drafts <= _MOST_DRAFTS:
        raise UsageError(f"{drafts} drafts a block; expected 1 to {_MOST_DRAFTS}")
    if not 1 < acceptance_length < drafts + 1:
        raise UsageError(
            f"acceptance length is {acceptance_length:g}; of {drafts} drafts it lies between 1 and {drafts + 1}"
        )

    def surplus(chance: float) -> float:
        return math.fsum(chance**k for k in range(drafts + 1)) - acceptance_length

    chance = float(optimize.brentq(surplus, 0.0, 1.0, xtol=1e-14))
    return tuple(chance**k for k in range(1, drafts + 1))


def _check(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise UsageError(f"{name} is {value:g}; expected {least:g} to {most:g}")


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
