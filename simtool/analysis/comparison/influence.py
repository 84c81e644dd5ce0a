"""How much each step, or stretch of tokens, weighs in a run's metric: what intervals of one run each rest on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simtool.analysis.comparison.headline import Metric
from simtool.analysis.comparison.runs import Counts, Run, series
from simtool.stats.series import mean_influence, ratio_influence

Reals = NDArray[np.float64]


def same_tokens(first: Run, second: Run) -> bool:
    """Whether two runs must emit the same tokens, so that their steps pair by them."""
    return first.workload is not None and first.workload == second.workload


def run_influence(run: Run, metric: Metric) -> Reals:
    """Return each step's influence on the log of a run's metric: [steps]."""
    tokens, duration_ns = series(run, metric)
    return mean_influence(duration_ns) if metric is Metric.STEP_TIME else ratio_influence(tokens, duration_ns)


def paired_influence(first: Run, second: Run, metric: Metric) -> Reals:
    """Cut two runs of equal tokens into stretches of them: each one's influence on the log ratio of throughputs."""
    both = [series(run, metric) for run in (first, second)]
    stretches = max(min(len(tokens) for tokens, _ in both), 1)
    marks = np.linspace(0, min(tokens.sum() for tokens, _ in both), stretches + 1)
    times = [np.diff(np.interp(marks, *_progress(*each))) for each in both]
    return ratio_influence(times[0], times[1])


def _progress(tokens: Counts, duration_ns: Counts) -> tuple[Reals, Reals]:
    """Tokens emitted and ns spent by the end of each step, from zero."""
    return np.append(0.0, np.cumsum(tokens)), np.append(0.0, np.cumsum(duration_ns))
