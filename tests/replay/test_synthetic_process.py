"""What a synthetic trace is drawn from: closed forms where there are any, and the draw against what was stated."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy import special

import simtool as st
from simtool.analysis.confidence import autocorrelation, quality_by_position
from simtool.calibrate.drafted import blocks_of
from simtool.errors import UsageError
from simtool.profile.storage import load_profile
from simtool.replay.synthetic.draw import _bridge, draw_blocks, generator
from simtool.replay.synthetic.lengths import Lengths, read_lengths
from simtool.replay.synthetic.process import AcceptanceProcess, constant_acceptance
from simtool.replay.synthetic.solve import sharpness_for, solve
from simtool.replay.synthetic.trace import SyntheticPlan, draw_trace, synthesize
from simtool.trace.checks.check import check_trace
from tests.replay.synthetic import constant_costs, profile_of


def process(**other):
    stated = {"acceptance": (0.5,), "sharpness": 1 / 3, "confidence_autocorrelation": 0.5}
    return AcceptanceProcess(**{**stated, **other})


def test_one_draft_by_hand():
    """At acceptance 1/2 a confidence that is uniform on 0..1 (spread 1) explains (2/pi) asin(1/2), a third.

    Uniforms made of normals that correlate by r correlate by (6/pi) asin(r/2), which is 1/2 at r = 2 sin(pi/12); the
    drafts of successive steps then correlate by (2/pi) asin(r/2) = 1/6.
    """
    shape = solve(process())
    assert shape.spread == pytest.approx(1, abs=1e-6)
    assert shape.middle == pytest.approx([0], abs=1e-6)
    assert shape.correlation == pytest.approx(2 * math.sin(math.pi / 12), abs=1e-6)
    assert shape.acceptance_autocorrelation == pytest.approx(1 / 6, abs=1e-6)


def test_the_bias_by_hand():
    """Phi(m + b + s h) is Phi((m + b) / sqrt(1 + s^2)) on average."""
    shape = solve(process(calibration_error=0.1))
    assert shape.bias == pytest.approx(math.sqrt(2) * float(special.ndtri(0.6)), abs=1e-6)


def test_without_sharpness_drafts_are_coins():
    acceptance = (0.8, 0.4)
    shape = solve(process(acceptance=acceptance, sharpness=0.0, confidence_autocorrelation=0.0))
    assert special.ndtr(shape.middle) == pytest.approx([0.8, 0.5])
    assert (shape.spread, shape.correlation, shape.acceptance_autocorrelation) == (0, 0, 0)


def test_the_sharpness_that_an_autocorrelation_asks_for():
    wanted = process(acceptance=(0.8, 0.6, 0.5), confidence_autocorrelation=0.7)
    sharpness = sharpness_for(wanted, 0.3)
    assert solve(dataclasses.replace(wanted, sharpness=sharpness)).acceptance_autocorrelation == pytest.approx(0.3)
    with pytest.raises(UsageError, match="at most"):
        sharpness_for(wanted, 0.75)


def test_constant_acceptance_by_hand():
    assert constant_acceptance(2, 1.75) == pytest.approx((0.5, 0.25))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"acceptance": (0.5, 0.6)}, "never grows"),
        ({"acceptance": (1.0,)}, "between 0 and 1"),
        ({"sharpness": 1.0}, "sharpness is 1"),
        ({"confidence_autocorrelation": -0.1}, "autocorrelation is -0.1"),
    ],
)
def test_what_is_no_process(other, message):
    with pytest.raises(UsageError, match=message):
        process(**other)


def test_an_error_beyond_certainty_is_refused():
    with pytest.raises(UsageError, match=r"between -0\.500 and 0\.500"):
        solve(process(calibration_error=0.6))


def test_a_bridge_of_one_anchor_stands_halfway():
    """Two steps that correlate by 0.64 with an anchor between them: it correlates by 0.8 with either."""
    noise = np.random.default_rng(0).standard_normal((3, 40_000))
    here = noise[0]
    after = 0.64 * here + math.sqrt(1 - 0.64**2) * noise[1]
    middles = []
    for one, other, luck in zip(here[:4000], after[:4000], noise[2, :4000], strict=True):
        found = _bridge(
            0.64, np.array([one, other]), np.array([1], np.int32), np.array([0], np.int32), np.array([0, luck])
        )
        middles.append(found[1])
    assert np.corrcoef(here[:4000], middles)[0, 1] == pytest.approx(0.8, abs=0.03)
    assert np.corrcoef(after[:4000], middles)[0, 1] == pytest.approx(0.8, abs=0.03)
    assert np.std(middles) == pytest.approx(1, abs=0.05)


def test_full_width_steps_follow_each_other():
    blocks = draw_blocks(solve(process(acceptance=(0.8, 0.6))), 500, generator(7, 0))
    anchor = 0
    while anchor < 500:
        assert blocks.full_width[anchor]
        run = int(blocks.match_run[anchor])
        assert not blocks.full_width[anchor + 1 : anchor + 1 + run].any()
        anchor += run + 1
    assert blocks.full_width.sum() < 500


STATED = [
    AcceptanceProcess(
        acceptance=(0.85, 0.7, 0.55, 0.45),
        sharpness=0.4,
        confidence_autocorrelation=0.6,
        calibration_error=0.05,
    ),
    AcceptanceProcess(
        acceptance=(0.64, 0.45, 0.38, 0.33, 0.31),
        sharpness=0.7,
        confidence_autocorrelation=0.85,
        calibration_error=-0.04,
    ),
    AcceptanceProcess(acceptance=(0.6, 0.3), sharpness=0.5, confidence_autocorrelation=0.0),
]


@pytest.mark.parametrize("stated", STATED)
def test_the_draw_has_what_was_stated(stated):
    """Judged as a recording would be, on what a full-width replay visited; standard errors are over requests."""
    plan = SyntheticPlan(process=stated, requests=400, prompt=Lengths(50), output=Lengths(200, 0.5, 600), seed=11)
    profile = profile_of(constant_costs(pre=10))
    drawn = draw_trace(plan, profile, 8)
    trace = synthesize(plan, profile, st.scenario(drawn, profile, "static"), simulator="compiled").trace()
    blocks = blocks_of(trace)
    assert blocks is not None
    runs = blocks.match_run
    for k, share in enumerate(stated.acceptance, 1):
        missed = (runs >= k) - share
        by_request = np.bincount(blocks.request, weights=missed)
        error = math.sqrt((by_request**2).sum()) / len(runs)
        assert abs(missed.mean()) < 4 * error, k
    wrong = [each.calibration_error for each in quality_by_position(blocks)]
    assert np.mean(wrong) == pytest.approx(abs(stated.calibration_error), abs=0.012)
    signed = blocks.forecast.mean() - np.mean([runs >= k for k in range(1, stated.drafts + 1)])
    assert signed == pytest.approx(stated.calibration_error, abs=0.012)
    follows = blocks.request[1:] == blocks.request[:-1]
    lasting = np.corrcoef(runs[:-1][follows], runs[1:][follows])[0, 1]
    assert autocorrelation(blocks) == pytest.approx(stated.confidence_autocorrelation, abs=0.03)
    assert lasting == pytest.approx(solve(stated).acceptance_autocorrelation, abs=0.03)
    assert np.corrcoef(blocks.forecast.sum(axis=1), runs)[0, 1] ** 2 == pytest.approx(stated.sharpness, abs=0.03)


def test_a_seed_says_it_all():
    plan = SyntheticPlan(process=STATED[0], requests=12, prompt=Lengths(50, 1.0), output=Lengths(60, 0.8), seed=3)
    profile = profile_of(constant_costs(pre=10))
    plans = (plan, plan, dataclasses.replace(plan, requests=20), dataclasses.replace(plan, seed=4))
    one, same, more, other = (draw_trace(each, profile, 4) for each in plans)
    for name in ("requests", "outcomes"):
        assert_frame_equal(one.table(name), same.table(name))
    assert not one.table("outcomes").equals(other.table("outcomes"))
    names = one.table("requests")["request_id"].implode()
    assert_frame_equal(one.table("outcomes"), more.table("outcomes").filter(pl.col("request_id").is_in(names)))


def test_a_synthetic_trace_is_sound_and_labelled_everywhere(tmp_path):
    plan = SyntheticPlan(process=STATED[1], requests=10, prompt=Lengths(20), output=Lengths(40))
    profile = load_profile_of_figures()
    drawn = draw_trace(plan, profile, 4)
    trace = synthesize(plan, profile, st.scenario(drawn, profile, "lag")).save(tmp_path / "drawn")
    assert trace.manifest.origin == "synthetic"
    assert trace.manifest.run.synthetic.acceptance == STATED[1].acceptance
    severities = {str(finding).split(":")[0] for finding in check_trace(trace)}
    assert severities == {"warning"}
    sources = dict(trace.table("outcomes")["source"].value_counts().iter_rows())
    assert sources["visited"] == trace.table("rows").height
    again = st.replay(trace, profile, st.scenario(trace, profile, "this-step"))
    assert again.manifest.origin == "replayed"
    assert again.manifest.replay.outcomes == "synthetic, distributional"
    assert any(warning.startswith("synthetic: ") for warning in again.manifest.warnings)
    with pytest.raises(st.SimtoolError, match="is synthetic, so its times come from the profile"):
        st.calibrate([trace])


def load_profile_of_figures():
    return load_profile(Path(__file__).parents[2] / "models" / "profiles" / "xllm-2280-like.json")


def test_lengths():
    assert read_lengths("128").at(0.3) == 128
    assert str(read_lengths("lognormal:338:1:1024")) == "lognormal:338:1:1024"
    drawn = [read_lengths("lognormal:338:1:1024").at((i + 0.5) / 2000) for i in range(2000)]
    assert max(drawn) == 1024
    assert np.median(drawn) == pytest.approx(338 * math.exp(-0.5), rel=0.01)
    assert np.mean([Lengths(338, 1.0).at((i + 0.5) / 20000) for i in range(20000)]) == pytest.approx(338, rel=0.01)
    for text in ("", "12.5", "lognormal:3", "uniform:1:2", "lognormal:0:1"):
        with pytest.raises(UsageError):
            read_lengths(text)
