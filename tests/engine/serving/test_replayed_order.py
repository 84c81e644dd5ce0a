"""A replay admits in the order in which the live run queued, also past a request that its first token ended."""

import dataclasses

from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.runner import load_runner
from simtool.engine.serving.session import RunPlan, Session
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace
from tests.engine import golden

ENDED = 1  # admitted together with others, and gone before it holds a slot in any row


def record(path, concurrency):
    """Serve the golden prompts under static; request r1 stops at its first token."""
    cases = golden.cases("dspark_b7")
    spec = golden.spec("dspark_b7", slots=concurrency)
    device = TimedDevice(load_runner(spec), same_durations(1000), VirtualClock(tick_ns=7), one_executor=True)
    device.info = dataclasses.replace(device.info, eos_token_ids=(cases[ENDED]["output"][0],))
    prompts = [Prompt(f"r{i}", tuple(case["prompt"]), 12, key=i) for i, case in enumerate(cases)]
    Session(device, spec).record(path, RunPlan(prompts, BUILT_IN["static"]))
    return open_trace(path)


def test_a_request_that_ends_at_its_first_token_keeps_its_place_in_the_queue(tmp_path):
    source, other = record(tmp_path / "three", 3), record(tmp_path / "two", 2)
    outputs = dict(source.table("requests").select("request_id", "output_tokens").iter_rows())
    assert outputs[f"r{ENDED}"] == 1
    assert f"r{ENDED}" not in source.table("rows")["request_id"].to_list()
    profile = calibrate([source], name="test", command="test", created="2026-01-01")
    for live, concurrency in ((source, 3), (other, 2)):
        replayed = replay(source, profile, Scenario(BUILT_IN["static"], concurrency)).trace(tmp_path / "replayed")
        rows, wrong = mismatches(live, replayed)
        assert rows > 0
        assert wrong == 0
