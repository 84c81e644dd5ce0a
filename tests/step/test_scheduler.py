import pytest
from hypothesis import given
from hypothesis import strategies as st

from simtool.errors import CapacityError, UsageError
from simtool.step.cost_features import FEATURES, PREFILL_FEATURES, DecodeShape, prefill_sizes
from simtool.step.ops import CATALOGUE
from simtool.step.scheduler import BlockPool, Request, Scheduler


def scheduler(concurrency=2, blocks=100, block_size=4, lookahead=3):
    return Scheduler(concurrency, BlockPool(blocks, block_size), lookahead)


def test_requests_are_admitted_in_order_into_the_lowest_free_slots():
    s = scheduler(concurrency=2)
    for name in "abc":
        s.add(Request(name, 4, 4))
    assert [(q.request.request_id, q.slot) for q in s.admit(0)] == [("a", 0), ("b", 1)]
    s.retire(s.running[0])
    assert [(q.request.request_id, q.slot) for q in s.admit(0)] == [("c", 0)]
    assert not s.idle


def test_a_request_waits_for_its_arrival_and_for_blocks():
    s = scheduler(concurrency=4, blocks=6)
    s.add(Request("a", 4, 4, arrival_ns=10))
    s.add(Request("b", 8, 8, arrival_ns=10))
    assert not s.can_admit(9)
    assert s.next_arrival_ns == 10
    assert [q.request.request_id for q in s.admit(10)] == ["a"]  # a reserves 3 blocks, b needs 5 of the 3 left
    s.retire(s.running[0])
    assert [q.request.request_id for q in s.admit(10)] == ["b"]


def test_what_can_never_fit_is_refused_before_it_starts():
    with pytest.raises(CapacityError, match="request a: 40 prompt \\+ 4 new tokens need 12 KV blocks"):
        scheduler(blocks=11).add(Request("a", 40, 4))
    with pytest.raises(UsageError, match="0 prompt"):
        scheduler().add(Request("a", 0, 4))
    with pytest.raises(UsageError, match="concurrency is 0"):
        scheduler(concurrency=0)


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=12), st.integers(1, 4))
def test_blocks_and_slots_are_never_shared_and_all_come_back(sizes, concurrency):
    s = scheduler(concurrency, blocks=30)
    for i, (prompt, new) in enumerate(sizes):
        s.add(Request(str(i), prompt, new))
    order = []
    while not s.idle:
        s.admit(0)
        taken = [block for q in s.running for block in q.blocks]
        assert len(set(taken)) == len(taken)
        assert len({q.slot for q in s.running}) == len(s.running) <= concurrency
        order.append(s.running[0].request.request_id)
        s.retire(s.running[0])
    assert s.pool.free == 30
    assert order == sorted(order, key=int)


def test_features_count_what_the_forwards_touch():
    shape = DecodeShape(num_speculative_tokens=3, block_width=4, kv_lens=[10, 20], prefix_lens=[0, 3], emitted=[1, 2])
    assert shape.features() == {
        "batch": 2,
        "block_rows": 8,
        "draft_kv": 4 * (14 + 24),
        "draft_tokens": 6,
        "dense_rows": 8,
        "draft_rows": 8,
        "validate_rows": 5,
        "target_rows": 5,
        "past_graphs": 0,
        "past_graph_rows": 0,
        "validate_kv": 11 + (21 + 22 + 23 + 24),
        "ragged": 1,
        "decide_work": pytest.approx(6 * 2.584962500721156),
        "accepted_rows": 3,
        "rectangle_keys": 2 * 4 * 24,
        "draft_rectangle": 2 * 4 * 24,
    }
    assert dict(zip(PREFILL_FEATURES, prefill_sizes([2, 3]), strict=True)) == {
        "batch": 2,
        "prompt_rows": 5,
        "prompt_kv": 3 + 6,
        "accepted_rows": 5,
    }


def test_the_catalogue_uses_only_known_features():
    used = {f for op in CATALOGUE.values() for f in op.features}
    used |= {f for op in CATALOGUE.values() for work in op.works for f in work.features}
    assert used <= set(FEATURES)
