import dataclasses

import numpy as np
import polars as pl
import pytest

from simtool.analysis.metrics import spread, summarise_trace
from simtool.trace.frames import empty_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S
from tests.synthetic import make_trace


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return make_trace(tmp_path_factory.mktemp("run") / "lag", "lag", requests=7, concurrency=3)


def test_tokens_are_counted_once(trace):
    summary = summarise_trace(trace)
    assert summary.requests == summary.finished == 7
    assert summary.output_tokens == 7 * 40
    assert trace.table("rows")["emitted"].sum() == 7 * 39  # the first token of each comes from prefill
    assert summary.tokens_per_s == summary.output_tokens * NS_PER_S / summary.span_ns


def test_steady_state_is_the_full_batch(trace):
    summary = summarise_trace(trace)
    steps = trace.table("steps").filter((pl.col("kind") == "decode") & (pl.col("batch") == 3))
    assert (summary.full_batch, summary.full_steps) == (3, steps.height)
    assert summary.full_ns == (steps["end_ns"] - steps["start_ns"]).sum()
    assert summary.steady_tokens_per_s > summary.tokens_per_s


def test_acceptance_counts_offered_drafts_only(trace):
    rows = trace.table("rows")
    summary = summarise_trace(trace)
    assert summary.acceptance_rate == rows["accepted"].sum() / rows["prefix_len"].sum()
    assert summary.acceptance_length == pytest.approx(rows["accepted"].mean() + 1)
    assert sum(summary.offered_at) == summary.offered
    assert sum(summary.accepted_at) == summary.accepted


def test_tpot_is_per_request_without_its_first_token(trace):
    requests = trace.table("requests")
    expected = (requests["finished_ns"] - requests["first_token_ns"]) / (requests["output_tokens"] - 1)
    summary = summarise_trace(trace)
    assert summary.tpot.count == 7
    assert summary.tpot.p50_ns == pytest.approx(expected.median())


def test_idle_and_exposed_add_up(trace):
    """The device is idle while the host works or while something starts or is noticed; busy and idle fill the step."""
    summary = summarise_trace(trace)
    assert 0 < summary.exposed_ns <= summary.device_idle_ns < summary.step.total_ns
    assert summary.exposed_ns <= summary.host_busy_ns


def test_an_empty_trace_has_counts_and_no_rates(trace):
    nothing = {name: empty_frame(table) for name, table in TABLES.items()}
    summary = summarise_trace(Trace(trace.path, trace.manifest, nothing))
    assert summary.decode_steps == summary.span_ns == 0
    assert summary.tokens_per_s is summary.acceptance_rate is summary.device_idle_per_step_ns is None
    assert dataclasses.asdict(summary.step)["count"] == 0


def test_spread():
    found = spread(np.array([4, 2, 6]))
    assert dataclasses.astuple(found) == pytest.approx((3, 12, 4.0, 5.8, 5.96))
    assert spread(np.array([], np.int64)).mean_ns is None
