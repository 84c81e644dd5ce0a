"""`simtool fill`: only with the models of the recording, only where an anchor has one outcome."""

from __future__ import annotations

import json

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.runner.spec import SamplingConfig
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace, replace_table
from tests.engine import golden
from tests.engine.small_runs import random_prompts, requests, runner

NAME = "dspark_b7"


def models(name: str = NAME) -> list[str]:
    return ["--target", str(golden.FOLDER / name / "target"), "--draft", str(golden.FOLDER / name / "draft")]


def record(path, **changes):
    spec = golden.spec(NAME, slots=3, **changes)
    device = TimedDevice(runner(spec), same_durations(1_000))
    Session(device, spec).record(path, RunPlan(requests(random_prompts(8, [5, 9]), 8), BUILT_IN["static"]))
    return str(path)


@pytest.fixture
def recorded(tmp_path):
    return record(tmp_path / "b")


def test_every_anchor_is_filled_and_filling_again_changes_nothing(recorded, capsys):
    assert run(["fill", recorded, *models(), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["anchors"], report["filled"], report["disagreeing"]) == (16, 16, 0)
    before = open_trace(recorded).table("outcomes")
    assert run(["fill", recorded, *models()]) == 0
    assert "outcomes: 16 of 16 positions filled (100%)" in capsys.readouterr().err
    assert open_trace(recorded).table("outcomes").equals(before)


def test_bad_use_is_one_line_and_leaves_the_trace_alone(recorded, tmp_path, capsys):
    before = open_trace(recorded).table("outcomes")
    for options, message in (
        (models("dspark_b16"), "not the target that"),
        ([*models()[:2], *models("nomarkov_b7")[2:]], "not the draft that"),
        (models()[:2], "a target and a drafter belong together"),
        (["--target", "nowhere", *models()[2:]], "nowhere: no such target folder"),
    ):
        assert run(["fill", recorded, *options]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
    assert run(["fill", str(tmp_path), *models()]) == 2
    assert "not a trace" in capsys.readouterr().err
    assert open_trace(recorded).table("outcomes").equals(before)


def test_tokens_that_the_target_would_not_choose_are_counted(recorded, capsys):
    """One output token is another one, and not for a tie."""
    trace = open_trace(recorded)
    table = trace.table("requests")
    outputs = table["output_ids"].to_list()
    outputs[0][-1] = (outputs[0][-1] + 1) % 8
    replace_table(trace, "requests", table.with_columns(output_ids=pl.Series(outputs, dtype=pl.List(pl.Int32))))
    run(["fill", recorded, *models()])
    error = capsys.readouterr().err
    assert (
        "1 of 16 output tokens are not what the target chooses here; widest r00, logits gap at position 12: " in error
    )
    assert "not a tie: a logic fault" in error


def test_a_sampled_trace_has_nothing_to_fill(tmp_path, capsys):
    path = record(tmp_path / "s", sampling=SamplingConfig(temperature=1.0))
    assert run(["fill", path, *models()]) == 2
    assert "sampled at temperature > 0" in capsys.readouterr().err
