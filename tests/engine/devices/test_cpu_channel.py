"""Messages and shared memory between host and device process."""

from __future__ import annotations

import multiprocessing
from collections import deque
from multiprocessing.shared_memory import SharedMemory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simtool.engine.devices.cpu.channel import Channel, Close, Done, Failed, Launch, Ring, load, size_of, store
from simtool.engine.devices.cpu.process import Commands, Reports


@given(st.lists(st.one_of(st.none(), st.integers(1, 100)), max_size=200))
def test_stretches_in_use_never_overlap(actions):
    """None gives the oldest stretch back; a number asks for that many bytes."""
    ring, live = Ring(100), deque[range]()
    for size in actions:
        if size is None:
            if live:
                ring.give_back()
                live.popleft()
            continue
        start = ring.take(size)
        if start is None:
            assert live, "an empty ring has room for anything up to its capacity"
            continue
        taken = range(start, start + size)
        assert taken.stop <= 100
        assert all(taken.stop <= other.start or other.stop <= taken.start for other in live)
        live.append(taken)


def test_a_full_ring_goes_round():
    ring = Ring(100)
    assert [ring.take(60), ring.take(40), ring.take(1)] == [0, 60, None]
    ring.give_back()
    assert [ring.take(61), ring.take(60), ring.take(1)] == [None, 0, None]


def test_arrays_survive_shared_memory():
    arrays: dict[str, np.ndarray] = {
        "ints": np.arange(6).reshape(2, 3),
        "empty": np.zeros((0, 4), np.int64),
        "reals": np.array([0.25, 7.0], np.float32),
    }
    memory = SharedMemory(create=True, size=4096)
    try:
        fields = store(memory, 128, arrays)
        assert fields[0].offset == 128
        assert fields[-1].offset + arrays["reals"].nbytes <= 128 + size_of(arrays.values())
        back = load(memory, fields)
        memory.buf[:] = bytes(memory.size)
    finally:
        memory.close()
        memory.unlink()
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)
        assert back[name].dtype == array.dtype


def test_messages_arrive_in_order_and_the_end_is_noticed():
    receiving, sending = multiprocessing.Pipe(duplex=False)
    here, there = Channel(receiving), Channel(sending)
    assert not here.ready
    there.send(Launch("draft"))
    there.send([Done(1, 2, ()), Done(2, 3, ())])
    there.send(Close())
    assert here.ready
    assert [here.receive() for _ in range(3)] == [Launch("draft"), [Done(1, 2, ()), Done(2, 3, ())], Close()]
    there.close()
    with pytest.raises(EOFError):
        here.receive()
    here.close()


def test_reports_are_told_together_and_once():
    receiving, sending = multiprocessing.Pipe(duplex=False)
    here, reports = Channel(receiving), Reports(Channel(sending))
    reports.send()
    assert not here.ready
    reports.add(Done(1, 2, ()))
    reports.add(Failed("ValueError", "no", ""))
    assert not here.ready
    reports.send()
    assert here.receive() == [Done(1, 2, ()), Failed("ValueError", "no", "")]
    reports.send()
    assert not here.ready


def test_a_look_ahead_takes_no_command_out_of_its_order():
    receiving, sending = multiprocessing.Pipe(duplex=False)
    commands, host = Commands(Channel(receiving)), Channel(sending)
    assert commands.look_ahead() is None
    host.send(Launch("draft"))
    assert commands.look_ahead() == Launch("draft")
    host.send(Launch("sample"))
    host.send(Close())
    assert commands.look_ahead() == Launch("draft")
    assert [commands.take() for _ in range(3)] == [Launch("draft"), Launch("sample"), Close()]
    host.close()
    with pytest.raises(EOFError):
        commands.take()
