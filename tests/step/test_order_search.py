"""The enumeration against brute force, and the text form that goes back in."""

import itertools

import pytest

from simtool.errors import PlacementError, UsageError
from simtool.step.order_search import legal_orders, moves, to_toml
from simtool.step.placement import BUILT_IN, load_placement, parse_placement

FREE = {
    None: ["build_query", "launch_draft", "launch_sample", "build_dense"],
    0: ["build_query", "launch_draft", "launch_sample", "read_confidence", "decide", "build_varlen|build_dense"],
    1: ["build_query", "launch_draft", "launch_sample", "decide", "build_varlen|build_dense"],
}


def brute_force(lag, free, fill):
    """Every permutation that Placement itself accepts, the tail as the built-ins have it."""
    tail = ["launch_target", "launch_verify", "read_tokens", *(["store_confidence"] if lag else []), "write_context"]
    found = set()
    for middle in itertools.permutations(free):
        order = ["schedule", "read_states", *middle, fill, *tail, "finish"]
        try:
            found.add(tuple(map(str, parse_placement("x", order, lag).order)))
        except PlacementError:
            continue
    return found


@pytest.mark.parametrize(("lag", "enumerated", "kept"), [(None, 8, 4), (0, 6, 3), (1, 300, 50), (3, 300, 50)])
def test_counts(lag, enumerated, kept):
    orders = legal_orders(lag)
    assert (orders.enumerated, len(orders.placements)) == (enumerated, kept)
    assert len({placement.order for placement in orders.placements}) == kept
    assert len({placement.name for placement in orders.placements}) == kept


@pytest.mark.parametrize("lag", [None, 0, 1])
def test_nothing_legal_is_missed(lag):
    whole = "fill_dense" if lag is None else "fill_varlen|fill_dense"
    expected = brute_force(lag, FREE[lag], whole)
    if lag is not None:
        expected |= brute_force(lag, [*FREE[lag], "build_fill_index|-"], "scatter_fill|fill_dense")
    assert {tuple(map(str, placement.order)) for placement in legal_orders(lag).placements} == expected


def test_built_ins_keep_their_names():
    found = {placement.name: placement for lag in (None, 1) for placement in legal_orders(lag).placements}
    for name in ("static", "lag-overlap", "lag-overlap-late", "lag-overlap-index"):
        assert found[name] == BUILT_IN[name]


def test_moves_of_one_op():
    places = [str(slot) for moved in moves(BUILT_IN["lag-overlap"], "decide") for slot in moved.placement.order[2:5]]
    assert places == ["build_query", "decide", "launch_draft", "build_query", "launch_draft", "decide"]
    assert moves(BUILT_IN["static"], "schedule") == []
    with pytest.raises(UsageError, match="static does not run 'decide'"):
        moves(BUILT_IN["static"], "decide")


@pytest.mark.parametrize("placement", [*BUILT_IN.values(), *legal_orders(1).placements[:3]], ids=lambda p: p.name)
def test_toml_round_trip(tmp_path, placement):
    path = tmp_path / "order.toml"
    path.write_text(to_toml(placement))
    assert load_placement(path) == placement
