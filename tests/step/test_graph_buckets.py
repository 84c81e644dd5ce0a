import pytest
from hypothesis import given
from hypothesis import strategies as st

from simtool.errors import PlacementError
from simtool.step.cost_features import DecodeShape
from simtool.step.graph_buckets import GraphBuckets, make_buckets, pick_bucket
from simtool.step.placement import BUILT_IN, parse_placement, placement_from_dict, resolve_placement, with_rebinds


@given(largest=st.integers(0, 600), size=st.integers(1, 700))
def test_the_smallest_bucket_that_fits(largest, size):
    buckets = make_buckets(largest)
    assert list(buckets) == sorted(set(buckets))
    assert buckets[-1:] == ((largest,) if largest else ())
    bucket = pick_bucket(buckets, size)
    if size > largest:
        assert bucket is None
    else:
        assert bucket == min(b for b in buckets if b >= size)
        assert bucket - size <= 15


def test_the_published_grid():
    """Every 8 rows up to 256, then every 16: the sizes in the verify table that vLLM published for V4-Flash."""
    assert make_buckets(288) == (1, 2, 4, *range(8, 257, 8), 272, 288)


@pytest.mark.parametrize(
    ("prefix_lens", "rows", "past"), [([7, 7], (16, 0), 0), ([3, 0], (8, 0), 0), ([7, 7, 0], (0, 17), 1)]
)
def test_a_padded_batch_costs_its_bucket_and_one_past_the_graphs_is_another_program(prefix_lens, rows, past):
    graphs = GraphBuckets(make_buckets(4), make_buckets(16))
    batch = len(prefix_lens)
    features = DecodeShape(7, 7, [9] * batch, prefix_lens, [1] * batch, graphs).features()
    assert (features["target_rows"], features["past_graph_rows"]) == rows
    assert features["past_graphs"] == past
    assert features["validate_rows"] == sum(prefix_lens) + batch
    assert features["draft_rows"] == 7 * {2: 2, 3: 4}[batch]


def test_buckets_survive_their_own_table():
    graphs = GraphBuckets((1, 2), (1, 2, 4, 8), rebinds=True)
    assert GraphBuckets.from_dict(graphs.to_dict()) == graphs
    assert GraphBuckets.from_dict(None) == GraphBuckets()


@pytest.mark.parametrize("name", BUILT_IN)
def test_rebinds_go_right_before_the_launches_and_change_nothing_else(name):
    placement = resolve_placement(f"{name}+rebind")
    assert placement == with_rebinds(BUILT_IN[name]) == placement_from_dict(placement.to_dict())
    assert placement.rebinds
    assert not BUILT_IN[name].rebinds
    order = [str(slot) for slot in placement.order]
    assert order[order.index("launch_draft") - 1] == "rebind_draft"
    assert order[order.index("launch_target") - 1] == "rebind_target"
    assert [text for text in order if not text.startswith("rebind")] == [str(slot) for slot in BUILT_IN[name].order]
    with pytest.raises(PlacementError, match="rebinds already"):
        with_rebinds(placement)


def reordered(op, before):
    order = [str(slot) for slot in with_rebinds(BUILT_IN["lag"]).order if str(slot) != op]
    at = order.index(before)
    return [*order[:at], op, *order[at:]]


def test_the_target_may_be_bound_before_its_tokens_are_drafted_but_not_before_its_rows_are_final():
    assert parse_placement("mine", reordered("rebind_target", "fill_varlen|fill_dense"), 1).rebinds
    with pytest.raises(
        PlacementError, match="'build_varlen' replaces validate_lengths, which 'rebind_target' has read"
    ):
        parse_placement("mine", reordered("rebind_target", "decide"), 1)
    with pytest.raises(PlacementError, match="'rebind_target' comes after 'launch_target'"):
        parse_placement("mine", reordered("rebind_target", "launch_verify"), 1)
    with pytest.raises(PlacementError, match="'rebind_draft' needs query_lengths"):
        parse_placement("mine", reordered("rebind_draft", "build_query"), 1)
