"""A session: one open device, any number of runs, and a manifest that says what each was."""

from __future__ import annotations

import hashlib

import pytest

from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.models.identity import identity
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import TraceError, UsageError
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import random_prompts, reference, requests, runner

SPEC = golden.spec("dspark_b7", slots=2, dtype="float64")
PROMPTS = random_prompts(8, [5, 9, 4])
CONTROLLER = ControllerSettings(LinearPredictor(1.0, 0.25, 0.5), draft_ms=0.5, min_gain=0.1)


def open_session(spec=SPEC, **options) -> Session:
    return Session(TimedDevice(runner(spec), same_durations(1_000), **options), spec, seed=4)


def test_the_manifest_says_what_was_run(tmp_path):
    session = open_session()
    session.record(tmp_path / "b", RunPlan(requests(PROMPTS, 6), BUILT_IN["lag"], CONTROLLER), details={"command": "x"})
    manifest = open_trace(tmp_path / "b").manifest
    assert (manifest.origin, manifest.algorithm, manifest.sl, manifest.block_width) == ("live", "dspark", 7, 7)
    assert (manifest.concurrency, manifest.seed, manifest.device) == (2, 4, "timed")
    assert manifest.placement == BUILT_IN["lag"].to_dict()
    assert manifest.controller == {
        "predictor": {"intercept_ms": 1.0, "query_token_ms": 0.25, "query_prefix_ms": 0.5},
        "draft_ms": 0.5,
        "min_gain": 0.1,
    }
    assert manifest.details["dtype"] == "float64"
    assert manifest.details["command"] == "x"
    assert (manifest.complete, manifest.warnings) == (True, [])
    weights = (SPEC.target / "model.safetensors").read_bytes()
    assert manifest.models["target"] == {"id": "target", "sha256": hashlib.sha256(weights).hexdigest()}
    assert identity(SPEC.draft) == manifest.models["draft"] != manifest.models["target"]


def test_another_block_length_is_warned_about(tmp_path):
    session = open_session(golden.spec("dspark_b7", slots=2, drafts=5))
    session.record(tmp_path / "b", RunPlan(requests(PROMPTS, 6), BUILT_IN["static"]))
    (warning,) = open_trace(tmp_path / "b").manifest.warnings
    assert warning.startswith("SL 5 differs from the drafter's trained block of 7")


def test_sixteen_bits_are_warned_about():
    (warning,) = open_session(golden.spec("dspark_b7", slots=2, dtype="bfloat16")).warnings
    assert warning.startswith("bfloat16: where two tokens all but tie")


def test_runs_on_one_device_repeat_to_the_nanosecond_and_leave_no_trace(tmp_path):
    """A recording in between, a warm-up, and other prompts: the same plan gives the same tokens in the same steps."""
    session = open_session()
    plan = RunPlan(requests(PROMPTS, 6), BUILT_IN["lag-overlap"], CONTROLLER)
    first = session.run(plan)
    session.warm_up(plan)
    session.record(tmp_path / "b", RunPlan(requests(PROMPTS[::-1], 9), BUILT_IN["static"]))
    again = session.run(plan)
    assert again.output_ids == first.output_ids
    assert list(first.output_ids.values()) == [reference("dspark_b7", prompt, 6) for prompt in PROMPTS]
    assert (again.steps, again.end_ns - again.start_ns) == (first.steps, first.end_ns - first.start_ns)


def test_progress_counts_served_tokens():
    heard: list[int] = []
    open_session().run(RunPlan(requests(PROMPTS, [1, 6, 6]), BUILT_IN["static"]), progress=heard.append)
    assert heard[0] >= 1
    assert heard[-1] == 1 + 6 + 6
    assert heard == sorted(heard)


def test_open_loop_requests_wait_for_their_arrival():
    """The second arrives long after the first is done; nobody is admitted before arriving."""
    session = open_session(clock=VirtualClock(tick_ns=100_000))
    late = [Prompt("a", PROMPTS[0], 3), Prompt("b", PROMPTS[1], 3, arrival_ns=20_000_000)]
    facts = session.run(RunPlan(late, BUILT_IN["static"])).requests
    assert facts["a"].finished_ns < facts["b"].arrival_ns <= facts["b"].admitted_ns
    assert facts["b"].output_ids == reference("dspark_b7", PROMPTS[1], 3)


def test_who_arrives_first_is_served_first_however_the_prompts_are_listed(tmp_path):
    session = open_session(clock=VirtualClock(tick_ns=100_000))
    late = [Prompt("b", PROMPTS[1], 3, arrival_ns=20_000_000), Prompt("a", PROMPTS[0], 3)]
    facts = session.record(tmp_path / "open", RunPlan(late, BUILT_IN["static"])).requests
    assert facts["a"].finished_ns < facts["b"].arrival_ns
    session.record(tmp_path / "closed", RunPlan(requests(PROMPTS, 3), BUILT_IN["static"]))
    for name in ("open", "closed"):
        trace = open_trace(tmp_path / name)
        assert trace.manifest.details["closed_loop"] == (name == "closed")
        assert all(finding.severity is Severity.NOTE for finding in check_trace(trace))


def test_an_arrival_while_the_first_are_queued_is_stamped_behind_them(tmp_path):
    session = open_session(clock=VirtualClock(tick_ns=100_000))
    prompts = [Prompt("a", PROMPTS[0], 3), Prompt("b", PROMPTS[1], 3), Prompt("c", PROMPTS[2], 3, arrival_ns=50_000)]
    facts = session.record(tmp_path / "open", RunPlan(prompts, BUILT_IN["static"])).requests
    stamps = [facts[name].arrival_ns for name in "abc"]
    assert stamps == sorted(stamps)
    assert all(finding.severity is Severity.NOTE for finding in check_trace(open_trace(tmp_path / "open")))


def test_a_trace_is_replaced_only_when_told_to(tmp_path):
    session, plan = open_session(), RunPlan(requests(PROMPTS, 3), BUILT_IN["static"])
    session.record(tmp_path / "b", plan)
    with pytest.raises(TraceError, match="holds a trace already"):
        session.record(tmp_path / "b", plan)
    session.record(tmp_path / "b", RunPlan(requests(PROMPTS[:1], 3), BUILT_IN["lag"]), force=True)
    assert open_trace(tmp_path / "b").table("requests").height == 1


@pytest.mark.parametrize(
    ("prompts", "message"),
    [([], "no prompts to serve"), ([Prompt("a", (1,), 2)] * 2, "two prompts share a request id")],
)
def test_plans_that_cannot_run(prompts, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        open_session().record(tmp_path / "b", RunPlan(prompts, BUILT_IN["static"]))
    assert not (tmp_path / "b").exists()
