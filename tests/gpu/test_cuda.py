"""On a CUDA GPU: golden cases, batching, graphs, the clock. docs/hardware.md says when `make test-gpu` last ran."""

from __future__ import annotations

import random

import pytest
import torch

from simtool.engine.devices.open import open_device
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import DeviceError
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import AHEAD_ARMS, BUILT_IN, PULL_REQUEST_ARMS
from simtool.trace.checks.check import check_trace
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.driving import generate

TOKENS = 24

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA GPU here: nothing of this lane was checked"),
]


def rows(name: str) -> int:
    return 4 * 17 if "16" in name else 4 * 8


@pytest.mark.parametrize("name", golden.NAMES)
@pytest.mark.parametrize("graphs", [False, True])
def test_golden_tokens_under_ragged_prunes(name, graphs):
    cases = golden.cases(name)[:4]
    device = open_device("cuda:0", golden.spec(name, dtype="float64", graph_rows=rows(name) if graphs else 0))
    streams = golden.streams([case["prompt"] for case in cases])
    n = device.info.drafts
    before_ns = device.now_ns()
    generate(device, streams, TOKENS, lambda step, running: [(3 * step + 5 * s.slot) % (n + 1) for s in running])
    assert [s.output[:TOKENS] for s in streams] == [case["output"][:TOKENS] for case in cases]
    timings = device.timings()
    slack_ns = device.clock_facts()["offset_uncertainty_ns"]
    assert timings
    for timing in timings:
        assert before_ns - slack_ns <= timing.start_ns <= timing.end_ns <= device.now_ns() + slack_ns
    device.close()


def test_past_the_largest_graph_runs_eagerly():
    cases = golden.cases("dspark_b7")[:4]
    device = open_device("cuda", golden.spec("dspark_b7", dtype="float64", graph_rows=8))
    streams = golden.streams([case["prompt"] for case in cases])
    generate(device, streams, TOKENS)
    assert [s.output[:TOKENS] for s in streams] == [case["output"][:TOKENS] for case in cases]
    device.close()


def test_strangers_in_the_batch_change_no_token():
    prompt = golden.cases("dspark_b7")[0]["prompt"]
    rng = random.Random(3)
    strangers = [[rng.randrange(7) for _ in range(rng.randint(1, 50))] for _ in range(32)]
    device = open_device("cuda", golden.spec("dspark_b7", 33, dtype="float64", graph_rows=264))
    together = golden.streams([prompt, *strangers])
    generate(device, together, 12, lambda _, running: [(3 * s.slot) % 8 for s in running])
    (alone,) = golden.streams([prompt])
    generate(device, [alone], 12)
    assert alone.output[:12] == together[0].output[:12]
    device.close()


@pytest.mark.parametrize("arm", PULL_REQUEST_ARMS)
def test_a_recording_keeps_every_invariant_and_the_tokens(tmp_path, arm):
    spec = golden.spec("dspark_b7", dtype="float64", graph_rows=32)
    cases = golden.cases("dspark_b7")[:6]
    prompts = [Prompt(f"r{i}", tuple(case["prompt"]), TOKENS) for i, case in enumerate(cases)]
    plan = RunPlan(prompts, BUILT_IN[arm], ControllerSettings(LinearPredictor(1.0, 0.05, 0.0)))
    with Session(open_device("cuda", spec), spec) as session:
        result = session.record(tmp_path / "run", plan)
    assert result.output_ids == {f"r{i}": case["output"][:TOKENS] for i, case in enumerate(cases)}
    trace = open_trace(tmp_path / "run")
    assert not [finding for finding in check_trace(trace) if finding.severity == "error"]
    assert trace.manifest.details["clock"]["anchors"] >= 1
    decodes = trace.table("steps").filter(trace.table("steps")["kind"] == "decode")
    assert decodes["graph_bucket"].null_count() == 0
    assert (decodes["graph_bucket"] >= decodes["validate_rows"]).all()


def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(DeviceError, match="cuda:99"):
        open_device("cuda:99", golden.spec("dspark_b7"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("graphs", [False, True])
def test_attention_over_pages_emits_what_gathering_does(dtype, graphs):
    """In bfloat16 a token may differ where two all but tie; the first of each must not."""
    cases = golden.cases("dspark_b7")[:4]
    outputs = []
    for attention in ("pages", "gather"):
        rows_ = rows("dspark_b7") if graphs else 0
        spec = golden.spec("dspark_b7", dtype=dtype, attention=attention, graph_rows=rows_, block_size=16, kv_blocks=64)
        device = open_device("cuda:0", spec)
        assert device.info.attention == attention
        prompts = [Prompt(f"r{i}", tuple(case["prompt"]), TOKENS, key=i) for i, case in enumerate(cases)]
        result = Session(device, spec).run(RunPlan(prompts, BUILT_IN["lag"]))
        outputs.append([facts.output_ids for facts in result.requests.values()])
        device.close()
    if dtype == "float32":
        assert outputs[0] == outputs[1]
    assert [tokens[0] for tokens in outputs[0]] == [tokens[0] for tokens in outputs[1]]


@pytest.mark.parametrize("arm", AHEAD_ARMS)
def test_a_draft_launched_ahead_changes_no_token(arm):
    spec = golden.spec("dspark_b7", dtype="float64")
    device = open_device("cuda:0", spec)
    cases = golden.cases("dspark_b7")[:4]
    prompts = [Prompt(f"r{i}", tuple(case["prompt"]), TOKENS, key=i) for i, case in enumerate(cases)]
    controller = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))
    result = Session(device, spec).run(RunPlan(prompts, AHEAD_ARMS[arm], controller))
    device.close()
    assert [facts.output_ids for facts in result.requests.values()] == [case["output"][:TOKENS] for case in cases]
