"""Temperatures that made a confidence wrong are found again, and the calibration error goes."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from simtool.analysis.judged_confidence import judge_confidence
from simtool.calibrate.confidence import calibration_error, fit_temperatures
from simtool.calibrate.drafted import DraftedBlocks
from simtool.cli.main import run
from simtool.errors import TraceError, UsageError
from simtool.profile.storage import load_profile
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.step.controller import LinearPredictor
from simtool.step.placement import resolve_placement
from simtool.step.temperatures import calibrated
from tests.replay.synthetic import profile_of, random_costs, random_work, source_trace
from tests.synthetic import make_trace

TRUE = (2.0, 0.5, 1.0)


def drawn(count: int = 20_000, seed: int = 3) -> DraftedBlocks:
    """Blocks whose confidence is right at the true temperatures alone."""
    rng = np.random.default_rng(seed)
    said = 1 / (1 + np.exp(-rng.normal(0.7, 1.5, (count, len(TRUE)))))
    accepted = np.cumprod(rng.random(said.shape) < calibrated(said, TRUE), axis=1).sum(axis=1)
    return DraftedBlocks(said, accepted, np.full(count, len(TRUE)), np.arange(count) // 50)


def test_the_true_temperatures_come_back():
    fit = fit_temperatures(drawn())
    assert fit.temperatures == pytest.approx(TRUE, rel=0.15)  # the grid's steps are 12 %
    assert max(fit.error_after) < 0.02 < max(fit.error_before)
    assert fit.held_out_after < 0.5 * fit.held_out_before


def test_a_confidence_that_is_right_keeps_its_temperature():
    blocks = drawn()
    right = DraftedBlocks(calibrated(blocks.confidence, TRUE), blocks.match_run, blocks.offered, blocks.request)
    assert fit_temperatures(right).temperatures == pytest.approx((1.0, 1.0, 1.0), rel=0.15)


def test_calibration_error_by_hand():
    """Three forecasts of 0.9 of which two came true, and one of 0.1 that did: (3 x |0.9 - 2/3| + 0.9) / 4."""
    said, happened = np.array([0.9, 0.9, 0.9, 0.1]), np.array([True, True, False, True])
    assert calibration_error(said, happened) == pytest.approx((3 * (0.9 - 2 / 3) + 0.9) / 4)
    assert calibration_error(np.zeros(0), np.zeros(0, bool)) == 0.0


def test_too_few_blocks_are_refused():
    with pytest.raises(TraceError, match="takes 50"):
        fit_temperatures(drawn(40))


def test_the_command_keeps_them_in_the_profile(tmp_path, capsys):
    trace = make_trace(tmp_path / "t", "lag", requests=40)
    plain, warm = tmp_path / "plain.json", tmp_path / "warm.json"
    assert run(["calibrate", str(trace.path), "--out", str(plain)]) == 0
    capsys.readouterr()
    assert run(["calibrate", str(trace.path), "--confidence", "--out", str(warm), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["confidence"]["temperatures"]) == trace.manifest.sl
    profile = load_profile(warm)
    assert profile.temperatures == pytest.approx(tuple(told["confidence"]["temperatures"]))
    assert load_profile(plain).temperatures == ()
    assert ControllerOptions().settings(trace, profile).temperatures == profile.temperatures


@pytest.mark.parametrize("order", ["lag", "this-step"])
def test_a_replay_decides_by_the_temperatures_whichever_simulator_runs(tmp_path, order):
    source = source_trace(tmp_path / "s", random_work(11, 4, 12), concurrency=3)
    raw = replace(profile_of(random_costs(11)), predictor=LinearPredictor(0.5, 0.3, 0.0))
    warm = replace(raw, temperatures=(3.0, 0.3, 5.0, 0.5))
    prefixes = {}
    for name, profile in (("raw", raw), ("warm", warm)):
        scenario = Scenario(resolve_placement(order), 3, ControllerOptions().settings(source, profile))
        simpy = replay(source, profile, scenario)
        compiled = replay(source, profile, scenario, simulator="compiled")
        assert compiled.manifest.details["simulator"] == "compiled"
        assert compiled.tables["rows"].equals(simpy.tables["rows"])
        assert recorded_controller(simpy.manifest).temperatures == profile.temperatures
        prefixes[name] = simpy.tables["rows"]["prefix_len"].to_list()
        confidence = simpy.tables["rows"]["confidence"].to_list()
        prefixes[f"{name} confidence"] = sorted(map(tuple, confidence))[:3]
    assert prefixes["raw"] != prefixes["warm"]
    assert prefixes["raw confidence"] == prefixes["warm confidence"]  # the trace keeps what the drafter said


def test_the_terminal_says_how_wrong_it_was_and_shows_reliability_when_asked(tmp_path, capsys):
    trace = make_trace(tmp_path / "t", "lag", requests=40)
    asked = ["calibrate", str(trace.path), "--confidence", "--force", "--out", str(tmp_path / "costs.json")]
    assert run(asked) == 0
    short = capsys.readouterr().out
    assert "The drafter's confidence is off by" in short
    assert "came true" not in short
    assert run([*asked, "--verbose"]) == 0
    assert "came true" in capsys.readouterr().out


def test_judged_bins_count_every_block_and_agree_with_the_fit(tmp_path):
    trace = make_trace(tmp_path / "t", "lag", requests=40)
    judged = judge_confidence([trace])
    for reports, errors in ((judged.before, judged.fit.error_before), (judged.after, judged.fit.error_after)):
        assert [each.ece for each in reports] == list(errors)
        for each in reports:
            assert sum(one.count for one in each.reliability) == each.quality.blocks
            assert sum(one.accepted for one in each.reliability) == each.quality.accepted


def test_traces_of_two_block_lengths_are_refused(tmp_path):
    trace = make_trace(tmp_path / "t", "lag", requests=8)
    longer = replace(trace, manifest=replace(trace.manifest, sl=trace.manifest.sl + 1))
    with pytest.raises(UsageError, match="one block length"):
        judge_confidence([trace, longer])
