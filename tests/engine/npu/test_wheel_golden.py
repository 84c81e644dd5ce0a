"""Golden cases and batching properties through the NPU path, on reference kernels under the wheel's own schemas.

What this shows: block tables, row layout, lengths and arguments are right in value. What it does not show: that the
device's kernels agree, or how long anything takes.
"""

from __future__ import annotations

import random

import pytest
import torch

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.runner.npu import layers as npu_layers
from simtool.engine.runner.npu.attention import NpuKernels, check_head_dim, check_spec
from simtool.engine.runner.runner import Runner
from simtool.engine.runner.spec import NPU_LAYOUTS, RunnerSpec
from simtool.errors import UsageError
from tests.engine import driving, golden
from tests.engine.driving import decode, generate, prefill
from tests.engine.recomputing import RecomputingCapture

TOKENS = 24
PAGE = 16

pytestmark = pytest.mark.usefixtures("cpu_kernels")


@pytest.fixture(autouse=True)
def pages_of_16(monkeypatch):
    monkeypatch.setattr(driving, "BLOCK_SIZE", PAGE)
    monkeypatch.setattr(golden, "BLOCKS_EACH", 160 // PAGE)


LAYOUT = pytest.mark.parametrize("layout", NPU_LAYOUTS)


def npu_runner(name: str, slots: int = 4, capture: RecomputingCapture | None = None, **changes) -> Runner:
    spec: RunnerSpec = golden.spec(name, slots, block_size=PAGE, **changes)
    dtype = getattr(torch, spec.dtype)
    target = load_target(spec.target, dtype)
    draft = load_draft(spec.draft, target, dtype)
    for model in (target, draft):
        npu_layers.fuse(model)
        assert any(isinstance(module, npu_layers.NpuRMSNorm) for module in model.modules())
    return Runner(target, draft, spec, NpuKernels(spec.npu_layout), capture)


class Rebinding(TimedDevice):
    """Binds before each launch, as a placement with rebinds does."""

    def launch(self, work, flow, after=()):
        if work in ("draft", "target"):
            self.rebind(work)
        return super().launch(work, flow, after)


@LAYOUT
@pytest.mark.parametrize("name", golden.NAMES)
def test_golden_drafts_verdicts_and_tokens(name, layout):
    cases = golden.cases(name)[:4]
    device = TimedDevice(npu_runner(name, npu_layout=layout), same_durations(1))
    streams = golden.streams([case["prompt"] for case in cases])
    prefill(device, streams)
    for _ in range(8):
        decode(device, streams)
    for stream, case in zip(streams, cases, strict=True):
        for ours, theirs in zip(stream.steps, case["steps"], strict=False):
            assert (ours["start"], ours["draft_tokens"]) == (theirs["start"], theirs["draft"])
            assert ours["accepted"] == theirs["accepted"]
        shared = min(len(stream.output), len(case["output"]))
        assert stream.output[:shared] == case["output"][:shared]


@LAYOUT
@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
def test_ragged_prunes_and_scattered_pages_change_no_token(name, layout):
    cases = golden.cases(name)[:4]
    device = TimedDevice(npu_runner(name, npu_layout=layout), same_durations(1))
    rng = random.Random(7)
    blocks = list(range(4 * golden.BLOCKS_EACH))
    rng.shuffle(blocks)
    streams = golden.streams([case["prompt"] for case in cases], blocks)
    generate(device, streams, TOKENS, lambda _, running: [rng.randint(0, device.info.drafts) for _ in running])
    assert [s.output[:TOKENS] for s in streams] == [case["output"][:TOKENS] for case in cases]


def test_strangers_in_the_batch_change_no_token():
    prompt = golden.cases("dspark_b7")[0]["prompt"]
    rng = random.Random(3)
    strangers = [[rng.randrange(7) for _ in range(rng.randint(1, 50))] for _ in range(12)]
    device = TimedDevice(npu_runner("dspark_b7", 13, dtype="float64"), same_durations(1))
    together = golden.streams([prompt, *strangers])
    generate(device, together, 12, lambda _, running: [(3 * s.slot) % 8 for s in running])
    (alone,) = golden.streams([prompt])
    generate(device, [alone], 12)
    assert alone.output[:12] == together[0].output[:12]


@LAYOUT
@pytest.mark.parametrize(("name", "graph_rows"), [("dspark_b7", 64), ("dflash_b16", 20)])
def test_padded_and_rebound_graphs_change_no_token(name, graph_rows, layout):
    cases = golden.cases(name)[:3]
    capture = RecomputingCapture(rebinds=True)
    device = Rebinding(npu_runner(name, 3, capture, graph_rows=graph_rows, npu_layout=layout), same_durations(1))
    streams = golden.streams([case["prompt"] for case in cases])
    n = device.info.drafts
    generate(device, streams, TOKENS, lambda step, running: [(3 * step + 5 * s.slot) % (n + 1) for s in running])
    assert [s.output[:TOKENS] for s in streams] == [case["output"][:TOKENS] for case in cases]
    assert all(len(graph.bound) == graph.replays for graph in capture.graphs)


def test_a_replay_that_is_not_rebound_goes_wrong():
    """So the test above would notice a path that forgets to."""
    case = golden.cases("dspark_b7")[0]
    runner = npu_runner("dspark_b7", 1, RecomputingCapture(rebinds=True), graph_rows=8)
    (stream,) = golden.streams([case["prompt"]])
    generate(TimedDevice(runner, same_durations(1)), [stream], TOKENS)
    assert stream.output[:TOKENS] != case["output"][:TOKENS]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"dtype": "float32"}, "dtype is float32; attention on an NPU takes float16 or bfloat16"),
        ({"dtype": "bfloat16", "block_size": 4}, "block_size is 4; attention on an NPU takes multiples of 16"),
        ({"dtype": "bfloat16", "block_size": 1024}, "block_size is 1024"),
    ],
)
def test_what_the_kernels_do_not_take_is_refused(changes, complaint):
    with pytest.raises(UsageError, match=complaint):
        check_spec(golden.spec("dspark_b7", **changes))
    with pytest.raises(UsageError, match="head_dim is 24; attention on an NPU takes multiples of 16"):
        check_head_dim(24)
