"""sync, as data of a placement: what it says, what it is refused for, and that legality does not change with it."""

import dataclasses

import pytest

from simtool.errors import PlacementError
from simtool.step.ops import CATALOGUE, Lane, priced_name, priced_op, syncing
from simtool.step.order_search import legal_orders, moves, to_toml
from simtool.step.placement import (
    BUILT_IN,
    NAMED,
    XLLM_ARMS,
    load_placement,
    placement_from_dict,
    resolve_placement,
    with_lag,
    with_rebinds,
    with_sync,
    without_sync,
)


def synced(placement, *, pruned):
    return {op.name for op in placement.ops(pruned=pruned) if op.syncs}


@pytest.mark.parametrize("op", CATALOGUE.values(), ids=lambda op: op.name)
def test_an_op_that_syncs_launches_its_kernels_after_the_wait(op):
    if op.blocks or not op.works:
        with pytest.raises(PlacementError, match=op.name):
            syncing(op)
        return
    variant = syncing(op)
    assert variant.blocks
    assert variant.early_works + variant.late_works == op.works
    assert {work.lane for work in variant.late_works} <= {Lane.COMPUTE}
    assert Lane.COMPUTE not in {work.lane for work in variant.early_works}
    assert syncing(variant) is variant is syncing(op)
    assert priced_op(variant.priced_as) is variant
    assert priced_name(variant.priced_as) == priced_op(op.priced_as).name == op.name


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_placement_with_syncs_survives_its_file_and_its_manifest(tmp_path, name):
    placement = dataclasses.replace(NAMED[name], name="mine")
    (tmp_path / "mine.toml").write_text(to_toml(placement))
    assert load_placement(tmp_path / "mine.toml") == placement
    assert placement_from_dict(placement.to_dict()) == placement
    assert ("sync" in placement.to_dict()) == bool(placement.sync)


def test_a_sync_holds_in_the_steps_that_it_names():
    static = with_sync(BUILT_IN["static"], ["launch_verify"])
    assert synced(static, pruned=False) == {"launch_verify"}
    assert static.sync == ("launch_verify",)
    lag = with_sync(BUILT_IN["lag"], ["launch_verify|-", "fill_varlen", "-|launch_target"])
    assert synced(lag, pruned=True) == {"launch_verify", "fill_varlen"}
    assert synced(lag, pruned=False) == {"launch_target"}
    assert sorted(lag.sync) == ["-|launch_target", "fill_varlen", "launch_verify|-"]


def test_the_pull_requests_arms_sync_in_pruned_steps_only():
    for placement in XLLM_ARMS.values():
        assert synced(placement, pruned=False) == set()
        if placement.decides:
            assert synced(placement, pruned=True) == {"fill_varlen", "launch_verify"}
    assert not XLLM_ARMS["xllm-2280/static"].gives("confidence")
    assert resolve_placement("xllm-2280/lag") is XLLM_ARMS["xllm-2280/lag"]


@pytest.mark.parametrize(
    ("placement", "sync", "named"),
    [
        ("lag", ["decide"], "nothing on the device"),
        ("lag", ["read_tokens"], "waits for the device anyway"),
        ("static", ["fill_varlen"], "never runs"),
        ("static", ["launch_verify|-"], "never runs"),
        ("lag", ["-|fill_varlen"], "never runs"),
        ("lag", ["fill_varlen", "fill_varlen"], "names it twice"),
        ("lag", ["nothing"], "never runs"),
    ],
)
def test_what_cannot_sync_is_refused(placement, sync, named):
    with pytest.raises(PlacementError, match=named):
        with_sync(BUILT_IN[placement], sync)


def test_a_sync_in_pruned_steps_must_come_after_the_decision():
    with pytest.raises(PlacementError, match="'decide' must come before"):
        with_sync(BUILT_IN["lag"], ["build_query|-"])


@pytest.mark.parametrize("name", sorted(NAMED))
def test_a_sync_changes_neither_order_nor_what_is_legal(name):
    placement = NAMED[name]
    plain = without_sync(placement)
    assert plain.sync == ()
    assert list(map(str, plain.order)) == list(map(str, placement.order))
    for op in ("build_dense", "launch_verify"):
        names = [[str(slot) for slot in moved.placement.order] for moved in moves(placement, op)]
        assert names == [[str(slot) for slot in moved.placement.order] for moved in moves(plain, op)]
        assert all(moved.placement.sync == placement.sync or set(moved.placement.sync) == set(placement.sync)
                   for moved in moves(placement, op))  # fmt: skip


def test_lags_and_rebinds_keep_the_syncs():
    placement = XLLM_ARMS["xllm-2280/lag"]
    for other in (with_lag(placement, 3), with_rebinds(placement), with_rebinds(with_lag(placement, 2))):
        assert other.sync == placement.sync


def test_a_file_that_calls_other_syncs_by_a_built_ins_name_is_refused(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(with_sync(BUILT_IN["lag"], ["fill_varlen"])))
    with pytest.raises(PlacementError, match="its sync is not"):
        load_placement(path)
    path.write_text('name = "x"\nlag_steps = 1\nsync = "fill_varlen"\norder = "schedule"\n')
    with pytest.raises(PlacementError, match="expected a list of op names"):
        load_placement(path)


def test_enumerated_orders_sync_what_they_run():
    plain, found = legal_orders(1), legal_orders(1, ("fill_varlen", "launch_verify|-"))
    assert found.enumerated == plain.enumerated
    assert len(found.placements) == len(plain.placements)
    for one, other in zip(plain.placements, found.placements, strict=True):
        assert one.order == without_sync(other).order
        runs = {op.name for op in one.ops(pruned=True)}
        assert synced(other, pruned=True) == runs & {"fill_varlen", "launch_verify"}
    assert not any(placement.sync for placement in legal_orders(None, ("launch_verify|-",)).placements)
