import numpy as np
import pytest

from simtool.analysis.confidence import (
    auc,
    autocorrelation,
    quality_by_position,
    reliability,
    reliability_over_positions,
)
from simtool.calibrate.drafted import DraftedBlocks, blocks_of
from tests.synthetic import SL, make_trace


def _calibrated(count: int = 20_000) -> DraftedBlocks:
    """Blocks whose confidence is the truth."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1, (count, 4))
    match = np.cumprod(rng.random((count, 4)) < confidence, axis=1).sum(axis=1)
    return DraftedBlocks(confidence, match, np.full(count, 4), np.arange(count) // 10)


def test_auc_is_the_share_of_pairs_in_the_right_order():
    assert auc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, False, True, True])) == (1 + 1 + 1 + 0.5) / 4
    assert auc(np.array([0.1, 0.9]), np.array([True, True])) is None


def test_a_calibrated_confidence_has_little_error_and_an_overconfident_one_much():
    blocks = _calibrated()
    boasting = DraftedBlocks(np.sqrt(blocks.confidence), blocks.match_run, blocks.offered, blocks.request)
    for honest, boast in zip(quality_by_position(blocks), quality_by_position(boasting), strict=True):
        assert honest.calibration_error < 0.02
        assert boast.calibration_error > 0.08
        assert boast.auc == pytest.approx(honest.auc)


def test_independent_blocks_make_an_old_confidence_worthless():
    blocks = _calibrated()
    for quality in quality_by_position(blocks):
        assert quality.auc > 0.65
        assert quality.lagged_auc == pytest.approx(0.5, abs=0.03)
    assert autocorrelation(blocks) == pytest.approx(0, abs=0.03)


def test_a_request_that_stays_easy_makes_an_old_confidence_useful():
    blocks = _calibrated()
    ease = np.repeat(np.random.default_rng(1).uniform(0.2, 1, 2000), 10)
    steady = DraftedBlocks(np.tile(ease[:, None], (1, 4)), blocks.match_run, blocks.offered, blocks.request)
    assert autocorrelation(steady) == pytest.approx(1)


def test_pruned_positions_are_not_judged():
    blocks = DraftedBlocks(np.full((3, 2), 0.5), np.array([1, 0, 2]), np.array([1, 0, 2]), np.zeros(3, np.int64))
    first, second = quality_by_position(blocks)
    assert (first.blocks, first.accepted) == (2, 2)
    assert (second.blocks, second.accepted, second.auc) == (1, 1, None)


def test_reliability_bins_count_everything():
    bins = reliability(np.array([0.05, 0.07, 0.95, 1.0]), np.array([False, True, True, True]))
    assert [(b.count, b.accepted) for b in bins] == [(2, 1), (2, 2)]
    blocks = _calibrated(500)
    assert sum(b.count for b in reliability_over_positions(blocks)) == 500 * 4


def test_blocks_of_a_pruned_run_come_from_its_rows(tmp_path):
    trace = make_trace(tmp_path / "lag", "lag")
    blocks = blocks_of(trace)
    assert blocks.positions == SL
    assert blocks.offered.sum() == trace.table("rows")["prefix_len"].sum()
    assert len(np.unique(blocks.request)) == 6
