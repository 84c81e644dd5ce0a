"""Captured forwards on the real wheel: what is updated before a replay, when, and that nothing is left behind."""

from __future__ import annotations

import json
import threading
from collections import Counter

import pytest
import torch

from simtool.engine.devices.open import open_device
from simtool.engine.devices.stream import StreamDevice
from simtool.engine.runner.graphs import DeviceCapture
from simtool.engine.serving.session import Session
from tests.engine import golden
from tests.engine.npu.standin.calls import Call, events_alive, watched
from tests.engine.npu.test_standin_engine import Stamping, plan, spec
from tests.engine.npu.test_standin_runtime import held

pytestmark = pytest.mark.usefixtures("npu")

ROWS = 12


@pytest.fixture(scope="module")
def graphs():
    asked = spec(graph_rows=ROWS)
    with Session(open_device("npu:0", asked), asked) as opened:
        opened.warm_up(plan("this-step+rebind"))
        yield opened


def layers(model: str) -> int:
    found: int = json.loads((golden.FOLDER / "dspark_b7" / model / "config.json").read_text())["num_hidden_layers"]
    return found


def updates_before_replays(calls: list[Call]) -> list[int]:
    """For each replay, how many updates its graph had since its last."""
    updates: Counter[int] = Counter()
    found = []
    for call in calls:
        if call.kind == "update":
            updates[call.object] += 1
        elif call.kind == "replay":
            found.append(updates.pop(call.object, 0))
    return found


@pytest.mark.parametrize("placement", ["this-step+rebind", "lag-overlap+rebind"])
def test_every_op_of_a_graph_has_its_lengths_before_the_replay_and_never_during_one(graphs, placement):
    recorder = Stamping()
    with watched() as calls:
        graphs.run(plan(placement), recorder)
    counts = Counter(updates_before_replays(calls.made))
    steps = sum(op is not None and op.name == "launch_draft" for _, op in recorder.ops)
    # every draft, and every target whose rows fit a bucket, had an update for each of its layers
    assert counts.total() > steps
    assert set(counts) <= {layers("draft"), layers("target")}
    assert calls.count("update_in_flight") == 0
    found = {op.name: waits for op, waits in recorder.blocking(calls.made) if op is not None and waits != op.blocks}
    assert found == {}, "the placement has waited already, so no rebind does"


def test_graphs_give_the_tokens_of_eager_forwards(graphs):
    with Session(open_device("npu:0", spec()), spec()) as eager:
        expected = eager.run(plan("this-step", 1, 40)).requests["p0"].output_ids
    assert graphs.run(plan("this-step+rebind", 1, 40)).requests["p0"].output_ids == expected


def test_a_rebind_right_behind_a_replay_waits_for_it():
    """No placement of today does that; one with two steps in flight would."""
    device = torch.device("npu:0")
    attention = torch.ops.npu.npu_fused_infer_attention_score
    q = torch.randn(1, 1, 64, dtype=torch.bfloat16).to(device)
    pages = torch.randn(2, 128, 64, dtype=torch.bfloat16).to(device)
    table = torch.tensor([[0, 1]], dtype=torch.int32, device=device)

    def attend() -> tuple[torch.Tensor, ...]:
        out, _ = attention(
            q, pages, pages, actual_seq_lengths_kv=[200], block_table=table, num_heads=4, num_key_value_heads=4,
            scale=0.25, input_layout="BSH", sparse_mode=0, block_size=128,
        )  # fmt: skip
        return (out,)

    graph, (out,) = DeviceCapture(device)(attend)
    torch.accelerator.synchronize()
    with watched() as calls:
        graph.rebind([3])
        with held(torch.npu.current_stream()) as let_go:  # type: ignore[attr-defined]
            graph.replay()
            short = out.clone()
            threading.Timer(0.2, let_go).start()
            graph.rebind([150])
        graph.replay()
        torch.accelerator.synchronize()
    assert calls.count("update_in_flight") == 0
    assert updates_before_replays(calls.made) == [1, 1]

    def expected(length: int) -> torch.Tensor:
        k = pages.view(-1, 4, 16)[:length].transpose(0, 1).float().cpu()
        weights = (q.view(4, 1, 16).float().cpu() @ k.transpose(1, 2) * 0.25).softmax(-1)
        return (weights @ k).transpose(0, 1).reshape(1, 1, 64)

    torch.testing.assert_close(short.float().cpu(), expected(3), atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(out.float().cpu(), expected(150), atol=2e-2, rtol=2e-2)


def test_a_thousand_steps_leave_no_event_behind(graphs):
    device = graphs.device
    assert isinstance(device, StreamDevice)

    def run(count: int) -> int:
        recorder = Stamping()
        steps = 0
        while steps < count:
            graphs.run(plan("static+rebind", 1, 80), recorder)
            steps = sum(op is None for _, op in recorder.ops)
        torch.accelerator.synchronize()
        return steps

    run(60)
    alive, made = events_alive(), device._events.made
    assert run(1000) >= 1000
    assert device._events.made == made
    # the wheel's pinned allocator has some of its own under way, more or fewer; one lost a step would be a thousand
    assert events_alive() < alive + 100
