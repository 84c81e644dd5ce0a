"""The engine on the real wheel: StreamDevice, task queue, pinned allocator and graphs, over the stand-in for CANN.

What this shows: what the host waits for and how often, that work is ordered by events alone, that graphs are updated
before they are replayed, that nothing leaks, that the tokens are right. What it does not show: anything of an NPU's
kernels or times.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise

import polars as pl
import pytest
import torch

from simtool.engine.devices.open import open_device
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import RunnerSpec, SamplingConfig
from simtool.engine.serving.recorder import Recorder
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.ops import Op
from simtool.step.placement import resolve_placement
from simtool.trace.checks.sound import open_sound
from tests.engine import golden
from tests.engine.npu.standin.calls import BLOCKING, Call, watched

pytestmark = pytest.mark.usefixtures("npu")

#: Makes rows dear enough that steps are pruned.
PRUNES = ControllerSettings(predictor=LinearPredictor(1.0, 1.0, 0.0))
PAGE = 128
PLACEMENTS = (
    "static",
    "this-step",
    "lag",
    "lag-overlap",
    "lag-overlap-index",
    "xllm-2280/this-step",
    "xllm-2280/lag",
    "xllm-2280/lag-overlap",
)


def spec(name: str = "dspark_b7", slots: int = 2, **changes: object) -> RunnerSpec:
    fields = {"dtype": "bfloat16", "block_size": PAGE, "kv_blocks": 2 * slots, "context_tokens": 160, **changes}
    return golden.spec(name, slots, **fields)


def plan(placement: str, count: int = 3, tokens: int = 16) -> RunPlan:
    prompts = [
        Prompt(f"p{i}", tuple(case["prompt"]), tokens, key=i)
        for i, case in enumerate((golden.cases("dspark_b7") * count)[:count])
    ]
    return RunPlan(prompts, resolve_placement(placement), PRUNES)


class Stamping(Recorder):
    """Keeps when each op began, on the clock of the stand-in's log; None: between steps."""

    times_work = True

    def __init__(self) -> None:
        super().__init__(time.perf_counter_ns)
        self.ops: list[tuple[int, Op | None]] = [(0, None)]

    def begin_op(self, op: Op) -> int:
        self.ops.append((self.now_ns(), op))
        return super().begin_op(op)

    def close_step(self) -> None:
        self.ops.append((self.now_ns(), None))

    def blocking(self, calls: list[Call]) -> list[tuple[Op | None, int]]:
        """Each op and how many calls of it held the host up."""
        held = [call.ns for call in calls if call.kind in BLOCKING]
        spans = [*pairwise(self.ops), (self.ops[-1], (2**63, None))]
        return [(op, sum(start <= ns < end for ns in held)) for (start, op), (end, _) in spans]


@pytest.fixture(scope="module")
def session():
    with Session(open_device("npu:0", spec()), spec()) as opened:
        opened.warm_up(plan("this-step"))
        yield opened


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_host_waits_once_in_each_blocking_op_and_nowhere_else(session, placement):
    recorder = Stamping()
    with watched() as calls:
        session.run(plan(placement), recorder)
    found = [(op, waits) for op, waits in recorder.blocking(calls.made) if op is not None]
    assert {op.name: waits for op, waits in found if waits != op.blocks} == {}
    assert any(op.name in ("fill_varlen", "scatter_fill") for op, _ in found) == (placement != "static")
    assert calls.by_kind()["copy_unpinned"] == 0


@pytest.mark.parametrize("placement", ["static", "this-step", "lag-overlap"])
def test_sampling_waits_nowhere_else_either(placement):
    asked = spec(sampling=SamplingConfig(temperature=0.8, top_k=20, top_p=0.9))
    recorder = Stamping()
    with Session(open_device("npu:0", asked), asked) as sampled:
        sampled.warm_up(plan(placement))
        with watched() as calls:
            sampled.run(plan(placement, 2), recorder)
    found = {op.name: waits for op, waits in recorder.blocking(calls.made) if op is not None and waits != op.blocks}
    assert found == {}


def test_an_upload_from_unpinned_memory_would_be_found(session, monkeypatch):
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self)
    recorder = Stamping()
    with watched() as calls:
        session.run(plan("static", 1), recorder)
    waits = {op.name for op, count in recorder.blocking(calls.made) if op is not None and count and not op.blocks}
    assert waits == {"build_prefill", "build_query", "build_dense"}


def test_two_step_placements_and_one_give_the_same_tokens(session):
    """The same models in half precision: another batch may tip a tie, so the batch is one request."""
    runs = [session.run(plan(placement, 1, 40)).requests["p0"].output_ids for placement in ("this-step", "lag-overlap")]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 40


@pytest.mark.parametrize("graph_rows", [0, 12])
def test_both_layouts_give_the_same_tokens(session, graph_rows):
    expected = session.run(plan("this-step", 1, 40)).requests["p0"].output_ids
    asked = spec(npu_layout="TND", graph_rows=graph_rows)
    with Session(open_device("npu:0", asked), asked) as other:
        placement = "this-step+rebind" if graph_rows else "this-step"
        assert other.run(plan(placement, 1, 40)).requests["p0"].output_ids == expected


def simtool(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "simtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_simtool_record_leaves_a_clean_trace(tmp_path):
    """The command itself, with the shipped pair."""
    out = tmp_path / "trace"
    asked = ("--dtype", "bfloat16", "--block-size", "128", "--sl", "7", "--concurrency", "2", "--num-prompts", "2")
    simtool("record", "--policy", "static", "--device", "npu:0", *asked, "--max-new-tokens", "24", "--out", str(out))
    trace = open_sound(out)
    assert "stand-in" in str(trace.manifest.device_name)
    works = trace.table("events").filter(pl.col("lane").is_in(["prepare", "compute", "copy"]))
    assert set(works["lane"].unique()) == {"prepare", "compute", "copy"}
    assert (works["end_ns"] >= works["start_ns"]).all()
