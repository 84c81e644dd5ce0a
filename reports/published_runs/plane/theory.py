"""Where a lag wins, in closed form: what a decision knows of the next step, against what deciding in line costs.

A step of B sequences takes F + r W: r a row, W rows. A decision takes the drafts whose survival is above one threshold,
the best for tokens per time. Decided on this step's confidence they bring E1 tokens, at random E0, and on the last
step's E0 + rho (E1 - E0), to first order: the survival of a normal ease follows the old one by its correlation rho.
Deciding in line costs x besides. So a lag beats this-step where (1 - rho) (E1 - E0) / E1 < x / (F + r W + x), and
static where its tokens per time exceed L B / (F + r B (N + 1)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from simtool.replay.synthetic.solve import Shape

Reals = NDArray[np.float64]
_EASE = np.linspace(-8.0, 8.0, 801)
_WEIGHT = np.exp(-(_EASE**2) / 2)
_WEIGHT /= _WEIGHT.sum()
_THRESHOLDS = np.linspace(0.0, 0.99, 100)


@dataclass(frozen=True)
class Costs:
    """Of one machine, as shares of static's step, which verifies every draft. rows: what all its rows take.
    decision: what deciding in line adds.
    """

    rows: float
    decision: float


@dataclass(frozen=True)
class Point:
    """One text on one machine: tokens per static step's time, a sequence, of each arm.

    lag_needs: the correlation from which on a lag beats this-step, to first order; above 1: nowhere, 0: everywhere.
    """

    static: float
    this_step: float
    lag: float
    lag_needs: float

    @property
    def winner(self) -> str:
        """The arm with most tokens per time; static first among equals."""
        rates = {"static": self.static, "this-step": self.this_step, "lag": self.lag}
        return max(rates, key=lambda name: rates[name])


def judge(shape: Shape, correlation: float, costs: Costs) -> Point:
    """Judge the arms. shape: of the text, whatever its own correlation. correlation: of a step's ease with the "
    "last's."""
    survival = np.cumprod(special.ndtr(shape.middle + shape.spread * _EASE[:, None]), axis=1, dtype=np.float64)
    acceptance = _WEIGHT @ survival
    drafts = len(acceptance)
    best = None
    for threshold in _THRESHOLDS.tolist():
        taken = np.cumprod(survival > threshold, axis=1)
        rows = 1 + float((_WEIGHT @ taken).sum())
        time = 1 - costs.rows + costs.rows * rows / (drafts + 1)
        fresh = 1 + float((_WEIGHT @ (taken * survival)).sum())
        if best is None or fresh / (time + costs.decision) > best[0]:
            best = fresh / (time + costs.decision), taken, time, fresh
    assert best is not None
    rate, taken, time, fresh = best
    blind = 1 + float((acceptance * (_WEIGHT @ taken)).sum())
    stale = fresh if fresh == blind else blind + correlation * (fresh - blind)
    worth = (fresh - blind) / fresh
    paid = costs.decision / (time + costs.decision)
    needs = 0.0 if worth <= paid else 1 - paid / worth
    return Point(1 + float(acceptance.sum()), rate, stale / time, needs)
