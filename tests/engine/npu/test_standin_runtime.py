"""The wheel's streams, events, copies and graphs on the stand-in: what waits for what, and what the host waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.engine.npu.standin.calls import BLOCKING, watched

pytestmark = pytest.mark.usefixtures("npu")

DEVICE = "npu:0"


@contextmanager
def held(stream: torch.Stream) -> Iterator[Callable[[], None]]:
    """Hold a stream up until the given function is called, or the block is left."""
    gate = getattr(torch, "npu").ExternalEvent()  # noqa: B009
    opener = torch.npu.Stream()  # type: ignore[attr-defined]
    gate.wait(stream)
    opened = threading.Event()

    def let_go() -> None:
        if not opened.is_set():
            opened.set()
            gate.record(opener)

    try:
        yield let_go
    finally:
        let_go()
        torch.accelerator.synchronize()


def npu_stream() -> torch.Stream:
    stream: torch.Stream = torch.npu.Stream()  # type: ignore[attr-defined]
    return stream


def test_nobody_takes_it_for_an_npu(npu):
    assert "stand-in" in npu.get_device_name(0)
    assert "no NPU" in npu.get_device_name(0)


def test_a_pinned_upload_only_enqueues():
    stream, host = npu_stream(), torch.arange(8).pin_memory()
    done = torch.Event(DEVICE)
    with held(stream) as let_go, watched() as calls:
        with stream:
            there = host.to(DEVICE, non_blocking=True)
        done.record(stream)
        assert not done.query()
        let_go()
        done.synchronize()
    assert there.tolist() == list(range(8))
    assert calls.count("copy_pinned") == 1
    assert calls.by_kind()["sync_stream"] == 0


def test_an_upload_from_unpinned_memory_waits_for_its_stream():
    stream, host = npu_stream(), torch.arange(8)
    with watched() as calls, stream:
        host.to(DEVICE, non_blocking=True)
    assert calls.by_kind()["copy_unpinned"] == 1
    assert calls.by_kind()["sync_stream"] == 1


def test_a_pinned_read_back_has_its_value_once_its_event_has_passed():
    stream, room = npu_stream(), torch.zeros(4, dtype=torch.int64).pin_memory()
    there = torch.arange(4, device=DEVICE)
    torch.accelerator.synchronize()
    done = torch.Event(DEVICE)
    with held(stream) as let_go:
        with stream:
            room.copy_(there, non_blocking=True)
        done.record(stream)
        assert room.tolist() == [0, 0, 0, 0]
        let_go()
        done.synchronize()
        assert room.tolist() == [0, 1, 2, 3]


def test_a_stream_waits_for_another_ones_event_and_both_are_on_one_clock():
    first, second = npu_stream(), npu_stream()
    begun, passed, ended = (torch.Event(DEVICE, enable_timing=True) for _ in range(3))
    value = torch.zeros(1, device=DEVICE)
    torch.accelerator.synchronize()
    begun.record(second)
    with held(first) as let_go:
        with first:
            value.add_(1)
        passed.record(first)
        second.wait_event(passed)
        with second:
            value.mul_(10)
        ended.record(second)
        assert not ended.query()
        let_go()
        ended.synchronize()
    assert value.item() == 10
    assert begun.elapsed_time(passed) >= 0
    assert passed.elapsed_time(ended) >= 0


def test_an_event_that_was_never_recorded_holds_nobody_up():
    stream = npu_stream()
    stream.wait_event(torch.Event(DEVICE))
    stream.synchronize()


def causal(q: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(q, q[:, :2], q[:, :2], is_causal=True, enable_gqa=True)


X = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)).bfloat16()
WIDE = torch.randn(1, 4, 6, 16, generator=torch.Generator().manual_seed(2)).bfloat16()
WHOLE = torch.arange(15).view(3, 5) * 7 % 10
PLACES = torch.tensor([[2, 0, 1, 0, 2]] * 3)
OPS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "linear": (functional.linear, (X, X)),
    "embedding": (functional.embedding, (WHOLE, torch.randn(10, 4))),
    "prompt attention": (causal, (WIDE,)),
    "log_softmax": (lambda x: x.float().log_softmax(-1), (X,)),
    "argmax": (lambda x: x.argmax(-1), (X,)),
    "kth largest": (lambda x: x.float().topk(2).values, (X,)),
    "sorted": (lambda x: x.float().sort(-1, descending=True).indices, (X,)),
    "sum of a running product": (lambda x: (x > 0).to(torch.int64).cumprod(1).sum(1), (X,)),
    "finite rows": (lambda x: x.isfinite().all(1), (X,)),
    "gather": (lambda x, i: x.gather(-1, i), (X, PLACES)),
    "scatter": (lambda x, i: x.scatter(-1, i[:, :1], -torch.inf), (X, PLACES)),
    "rows by index": (lambda x, i: x[i[0, :2]], (X, PLACES)),
    "columns by index": (lambda x, i: x.index_select(1, i[0]), (X, PLACES)),
    "index copy": (lambda x, i: x.clone().index_copy_(0, i[0, :1], x[1:2]), (X, PLACES)),
    "transposed": (lambda x: x.T.contiguous(), (X,)),
    "slices written": (lambda x: torch.cat((x, -x), -1)[:, 1:7:2].clone().fill_(3).add_(x[:, :3]), (X,)),
    "masked": (lambda x, i: x.masked_fill(i > 4, 0), (X, WHOLE)),
    "searched": (lambda x, i: torch.searchsorted(x.float().sort(-1).values, i.float(), right=True), (X, WHOLE)),
    "one hot": (lambda i: functional.one_hot(i, 10), (WHOLE,)),
    "padded": (lambda i: functional.pad(i, (0, 1)), (WHOLE,)),
    "mixed bits": (lambda i: ((i ^ (i >> 2)) & 7) * 3, (WHOLE,)),
    "repeated": (lambda i: i[0].repeat_interleave(3), (WHOLE,)),
    "gated": (lambda x: functional.silu(x) * torch.sigmoid(x) + torch.tanh(x), (X,)),
    "rotated": (lambda i: (i.float() * (1.0 / 1e4 ** (i.float() / 10))).cos(), (WHOLE,)),
    "clamped": (lambda x: torch.minimum(x.clamp(min=0), 1 - x), (X,)),
}


@pytest.mark.parametrize("name", OPS)
def test_an_op_agrees_with_the_cpu_and_runs_on_the_device(name):
    function, arguments = OPS[name]
    there = [argument.to(DEVICE) for argument in arguments]
    fresh = function(*there)  # constants that the wheel makes once are uploaded on the first call
    with watched() as calls:
        fresh = function(*there)
        torch.accelerator.synchronize()
    assert calls.count("kernel") > 0
    assert [call.kind for call in calls.made if call.kind in BLOCKING] == ["sync_device"], "it fell back to the host"
    torch.testing.assert_close(fresh.cpu(), function(*arguments), atol=2e-2, rtol=2e-2)
