"""The freshness gate: a slot never lends one request what another left in it."""

from __future__ import annotations

import pytest

from simtool.engine.serving.decode_state import DecodeStates
from simtool.errors import SimtoolError


def test_a_slot_never_written_has_nothing():
    cache = DecodeStates(depth=1)
    assert cache.lagged_confidence(0, "a", 1) is None
    with pytest.raises(SimtoolError, match="slot 0 holds nothing, asked for request a"):
        cache.read(0, "a")


def test_the_first_step_is_not_fresh_and_the_second_is():
    cache = DecodeStates(depth=1)
    cache.commit(0, "a", 5, 10)
    assert cache.lagged_confidence(0, "a", 1) is None
    cache.store_confidence(0, "a", [0.5])
    cache.commit(0, "a", 6, 12)
    assert cache.lagged_confidence(0, "a", 1) == [0.5]
    state = cache.read(0, "a")
    assert (state.token, state.position) == (6, 12)


def test_a_new_request_in_the_slot_starts_anew():
    cache = DecodeStates(depth=1)
    cache.commit(0, "a", 5, 10)
    cache.store_confidence(0, "a", [0.5])
    assert cache.lagged_confidence(0, "b", 1) is None
    with pytest.raises(SimtoolError, match="slot 0 holds request a, asked for request b"):
        cache.store_confidence(0, "b", [0.9])
    cache.commit(0, "b", 7, 3)
    assert cache.lagged_confidence(0, "b", 1) is None
    assert cache.lagged_confidence(0, "a", 1) is None


def test_lag_counts_decode_steps_and_no_more_are_kept():
    cache = DecodeStates(depth=3)
    cache.commit(0, "a", 5, 10)
    for step in range(5):
        assert cache.lagged_confidence(0, "a", 3) == ([step - 3.0] if step >= 3 else None)
        cache.store_confidence(0, "a", [float(step)])
    assert [cache.lagged_confidence(0, "a", lag) for lag in (1, 2, 3, 4)] == [[4.0], [3.0], [2.0], None]


def test_slots_are_apart():
    cache = DecodeStates(depth=1)
    cache.commit(0, "a", 1, 1)
    cache.commit(1, "b", 2, 2)
    cache.store_confidence(1, "b", [0.1])
    assert cache.lagged_confidence(0, "a", 1) is None
    assert cache.lagged_confidence(1, "b", 1) == [0.1]
