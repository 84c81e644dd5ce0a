"""What a run leaves behind: host ops tile the step, rows and outcomes tell the truth, a failure keeps what there is."""

from __future__ import annotations

import polars as pl
import pytest
import torch

from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.reference import DenseSequence, speculative
from simtool.engine.runner.spec import SamplingConfig
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import DeviceError
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.ops import CATALOGUE
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine import small_runs as serving
from tests.engine.small_runs import PLACEMENTS, random_prompts, reference, requests, runner

NAME, N, TOKENS = "dspark_b7", 7, 14
SPEC = golden.spec(NAME, slots=3, dtype="float64")
PROMPTS = random_prompts(8, [5, 9, 4, 12, 7])
CONTROLLER = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))


def record(path, placement, spec=SPEC, **durations):
    device = TimedDevice(runner(spec), {**same_durations(2_000), **durations}, VirtualClock(tick_ns=50))
    Session(device, spec).record(path, RunPlan(requests(PROMPTS, TOKENS), PLACEMENTS[placement], CONTROLLER))
    return open_trace(path)


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return record(tmp_path_factory.mktemp("recorder") / "b", "lag-overlap")


def test_a_recording_breaks_no_invariant(trace):
    assert [f for f in check_trace(trace) if f.severity != Severity.NOTE] == []


def test_host_ops_tile_the_step(trace):
    host = trace.table("events").filter(lane="host").sort("step", "flow")
    for step, start_ns, end_ns in trace.table("steps").select("step", "start_ns", "end_ns").iter_rows():
        ops = host.filter(step=step)
        assert ops["start_ns"].to_list() == [start_ns, *ops["end_ns"].to_list()[:-1]]
        assert ops["end_ns"][-1] == end_ns


def test_every_device_work_is_there_once_even_what_ends_after_its_step(tmp_path):
    """Reading confidence last leaves its copy unfinished at the step's end when nothing waits for it."""
    found = record(tmp_path / "b", "static", context_kv=1_000).table("events").filter(pl.col("lane") != "host")
    host = open_trace(tmp_path / "b").table("events").filter(lane="host")
    expected = sum(len(CATALOGUE[op].works) for op in host["op"])
    assert len(found) == expected
    assert not found.select("step", "flow", "op").is_duplicated().any()


def test_requests_tell_prompt_output_and_times_in_order(trace):
    table = trace.table("requests").sort("request_id")
    assert table["prompt_ids"].to_list() == [list(prompt) for prompt in PROMPTS]
    assert table["output_ids"].to_list() == [reference(NAME, prompt, TOKENS) for prompt in PROMPTS]
    times = table.select("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns")
    assert all(list(row) == sorted(row) for row in times.iter_rows())


def test_visited_outcomes_are_the_references(trace):
    """Confidence and match run of each visited anchor, pruned or not; null only where the output ends too soon."""
    target, draft = serving._target(NAME), runner(SPEC)._draft
    unknown = 0
    for i, prompt in enumerate(PROMPTS):
        _, steps = speculative(target, draft, prompt, TOKENS + 20, N)
        truth = {step.start: step for step in steps}
        outcomes = trace.table("outcomes").filter(request_id=f"r{i:02d}").to_dicts()
        rows = trace.table("rows").filter(request_id=f"r{i:02d}")
        assert [o["anchor_position"] for o in outcomes] == rows["anchor_position"].sort().to_list()
        for outcome in outcomes:
            unknown += outcome["match_run"] is None
            step = truth.get(outcome["anchor_position"])
            if step is not None:
                assert outcome["confidence"] == pytest.approx(step.confidence, abs=1e-6)
                assert outcome["match_run"] in (step.match_run, None)
    assert unknown < len(PROMPTS) * N


def test_a_sampled_run_does_not_guess_what_a_prune_hid(tmp_path):
    """At temperature > 0 the tokens that follow say nothing of the drafts that were not offered."""
    spec = golden.spec(NAME, slots=3, sampling=SamplingConfig(temperature=1.0))
    table = record(tmp_path / "b", "this-step", spec)
    joined = table.table("outcomes").join(table.table("rows"), on=["request_id", "anchor_position"])
    hidden = (pl.col("accepted") == pl.col("prefix_len")) & (pl.col("prefix_len") < N)
    assert joined.filter(hidden)["match_run"].null_count() == joined.filter(hidden).height > 0
    seen = joined.filter(~hidden)
    assert seen["match_run"].to_list() == seen["accepted"].to_list()


def test_a_failure_leaves_what_was_recorded_marked_incomplete(tmp_path):
    class Failing(TimedDevice):
        launches = 0

        def launch(self, *args, **kwargs):
            self.launches += 1
            if self.launches > 30:
                raise DeviceError("the device is gone")
            return super().launch(*args, **kwargs)

    device = Failing(runner(SPEC), same_durations(2_000))
    with pytest.raises(DeviceError, match="gone"):
        Session(device, SPEC).record(tmp_path / "b", RunPlan(requests(PROMPTS, TOKENS), PLACEMENTS["static"]))
    found = open_trace(tmp_path / "b")
    assert not found.manifest.complete
    assert found.manifest.warnings == ["stopped by DeviceError: the device is gone"]


def test_every_output_token_has_the_targets_gap(trace):
    """Prefill's token and decoded ones, whatever was pruned; as the target alone, asked once, has them."""
    target = serving._target(NAME)
    for prompt, row in zip(PROMPTS, trace.table("requests").sort("request_id").iter_rows(named=True), strict=True):
        tokens = torch.tensor([*prompt, *row["output_ids"]])
        hidden, _ = target(tokens, torch.arange(len(tokens)), DenseSequence())
        best = target.logits(hidden[len(prompt) - 1 : -1]).topk(2).values
        assert row["output_margin"] == pytest.approx((best[:, 0] - best[:, 1]).tolist(), abs=1e-6)


def test_a_sampled_run_has_no_gaps(tmp_path):
    table = record(tmp_path / "b", "static", golden.spec(NAME, slots=3, sampling=SamplingConfig(temperature=1.0)))
    assert table.table("requests")["output_margin"].null_count() == len(PROMPTS)
