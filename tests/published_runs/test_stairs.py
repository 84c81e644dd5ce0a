"""A step table fitted to stairs that somebody measured: vLLM's verify and draft times, graph by graph."""

import sys

import numpy as np
import pytest
from published_runs.tables import PUBLISHED, draft_table, verify_table

from simtool.replay.profiling.step_table import _fitted, _sizes
from simtool.replay.step_planner import Block
from simtool.step.graph_buckets import GraphBuckets

DRAFTS, REQUESTS = 7, 64
VERIFY, DRAFT = verify_table(PUBLISHED), draft_table(PUBLISHED)
GRAPHS = tuple(sorted(rows for rows in VERIFY if rows <= REQUESTS * (DRAFTS + 1)))
#: What each graph takes, and the same where more rows never take less, as vLLM's own rule has it.
MEASURED = np.array([VERIFY[rows] for rows in GRAPHS])
RISING = np.maximum.accumulate(MEASURED)


def drafting_ms(batch):
    return float(np.interp(batch, sorted(DRAFT), [DRAFT[requests] for requests in sorted(DRAFT)]))


def steps_ms(batch, rows, stairs):
    return drafting_ms(batch) + stairs[np.searchsorted(GRAPHS, rows)]


def fitted():
    block = Block(DRAFTS, DRAFTS, GraphBuckets(target=GRAPHS))
    sizes = [size for size in _sizes(REQUESTS, block) if size.offered < size.batch * DRAFTS]
    return _fitted(sizes, np.array([steps_ms(size.batch, size.rows, MEASURED) for size in sizes]))


@pytest.mark.parametrize("batch", [8, 32, 64])
def test_it_is_near_the_stairs_that_it_was_fitted_to(batch):
    """32 probes for 51 graphs, so between some of them lies a line."""
    rows = np.arange(batch + 1, batch * (DRAFTS + 1))
    off = fitted().staircase_ms(batch, rows, GRAPHS) / steps_ms(batch, rows, RISING) - 1
    assert np.abs(off).max() < 0.04
    assert np.abs(off).mean() < 0.016


def test_stairs_that_never_fall_are_above_what_was_measured_where_more_rows_took_less_time():
    rows = np.array([rows for rows in GRAPHS if rows > REQUESTS])
    above = steps_ms(REQUESTS, rows, RISING) / steps_ms(REQUESTS, rows, MEASURED) - 1
    assert above.max() == pytest.approx(0.077, abs=0.001)


def test_straightening_bends_no_step_that_was_measured(monkeypatch):
    rows = np.array([rows for rows in GRAPHS if rows > 1])
    tables = []
    for weight in (1e-3, 0.0):
        monkeypatch.setattr(sys.modules[_fitted.__module__], "_STRAIGHTEN", weight)
        tables.append(fitted().linear_ms(16, rows))
    assert tables[0] == pytest.approx(tables[1], rel=1e-3)
