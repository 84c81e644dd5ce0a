"""Placements that launch work for the next step: what is legal, what is refused, and which datum is named."""

import pytest

from simtool.errors import PlacementError
from simtool.step.ops import CATALOGUE, for_next_step, plain, syncing
from simtool.step.order_search import to_toml
from simtool.step.placement import (
    AHEAD_ARMS,
    BUILT_IN,
    NAMED,
    launches_ahead,
    load_placement,
    parse_placement,
    placement_from_dict,
    resolve_placement,
    with_lag,
    with_rebinds,
    with_sync,
    without_sync,
)

STATIC = [str(slot) for slot in AHEAD_ARMS["static-ahead"].order]
LAG = [str(slot) for slot in AHEAD_ARMS["lag-ahead"].order]


def moved(order, slot, before):
    rest = [each for each in order if each != slot]
    at = rest.index(before)
    return [*rest[:at], slot, *rest[at:]]


@pytest.mark.parametrize("arm", AHEAD_ARMS.values(), ids=lambda arm: arm.name)
def test_it_survives_its_file_and_its_manifest(tmp_path, arm):
    (tmp_path / "mine.toml").write_text(to_toml(arm).replace(arm.name, "mine"))
    assert load_placement(tmp_path / "mine.toml").order == arm.order
    assert placement_from_dict(arm.to_dict()) == arm
    assert resolve_placement(arm.name) is arm


def names(placement, **which):
    return [("next:" if op.ahead else "") + op.name for op in placement.ops(pruned=False, **which)]


def test_a_warm_step_leaves_out_what_was_launched_ahead_and_a_last_one_launches_nothing():
    arm = AHEAD_ARMS["static-ahead"]
    assert arm.runs_ahead
    assert not BUILT_IN["static"].runs_ahead
    drafting = {"build_query", "launch_draft", "launch_sample"}
    assert drafting <= set(names(arm))
    assert not drafting & set(names(arm, warm=True))
    assert not any(name.startswith("next:") for name in names(arm, ahead=False))
    assert arm.handed_on == {"query_batch", "draft_hidden", "draft_tokens", "confidence"}


def test_every_step_drafts_once_for_itself_or_had_it_drafted():
    for arm in AHEAD_ARMS.values():
        for warm in (False, True):
            assert (names(arm, warm=warm).count("launch_draft") == 0) == warm
            assert names(arm, warm=warm).count("next:launch_draft") == 1


@pytest.mark.parametrize(
    ("order", "lag", "named"),
    [
        # the next block's rows cannot be built by the host: their anchors and positions are not published yet
        (
            [slot.replace("advance_query", "build_query") for slot in STATIC],
            None,
            "'build_query' for the next step needs states of the next step: next:read_states gives it once there is "
            "finished of this step, which 'finish' gives only later",
        ),
        # the next batch cannot be scheduled: who leaves it is not known
        (
            moved(STATIC, "next:schedule", "next:advance_query"),
            None,
            "'schedule' for the next step needs finished of the step before it: 'finish' gives it, but only later",
        ),
        # the draft reads the context of all that was accepted
        (
            moved(STATIC, "extend_context", "await_tokens"),
            None,
            "'launch_draft' for the next step needs context of the step before it: 'extend_context' gives it, but",
        ),
        # and the context of accepted rows alone needs the tokens
        (
            ["write_context" if slot == "extend_context" else slot for slot in STATIC],
            None,
            "'write_context' needs tokens: 'await_tokens' gives it, but only later",
        ),
        # its anchors are the verdict's
        (
            moved(STATIC, "next:advance_query", "launch_verify"),
            None,
            "'advance_query' for the next step needs verdict of the step before it: 'launch_verify' gives it, but only",
        ),
        # two steps in flight with a host that builds the validate rows
        (
            moved(STATIC, "next:build_dense", "await_tokens"),
            None,
            "'build_dense' for the next step needs states of the next step: next:read_states gives it once there is "
            "finished of this step",
        ),
        # a decision for the next step needs its states, which the host has not
        (moved(LAG, "next:decide", "await_tokens"), 2, "'decide' for the next step needs states of the next step"),
        # nothing launched ahead, and yet said to be cold; and the other way round
        ([slot for slot in STATIC if not slot.startswith("next:")], None, "as none launches ahead"),
        ([slot.removeprefix("cold:") for slot in STATIC], None, "nothing launched ahead for it"),
        # a cold step must do it all itself
        ([slot for slot in STATIC if slot != "cold:launch_sample"], None, "never runs 'launch_sample'"),
        ([slot for slot in STATIC if slot != "cold:build_query"], None, "never runs 'build_query'"),
        # a warm step finds only what was handed on
        ([slot for slot in STATIC if slot != "next:launch_sample"], None, "'fill_dense' needs draft_tokens"),
        ([*STATIC[:-1], "read_tokens", "finish"], None, "does one thing twice"),
        ([*STATIC, "next:advance_query"], None, "runs 'advance_query' twice"),
        # this step's confidence is kept once there is one: behind the read of the states that it would displace
        (moved(LAG, "keep_confidence", "read_states"), 1, "'keep_confidence' needs sent_confidence"),
        (["next:nonsense" if slot == "next:advance_query" else slot for slot in STATIC], None, "unknown op 'nonsense'"),
    ],
)  # fmt: skip
def test_what_the_data_flow_forbids_is_refused_with_the_datum(order, lag, named):
    with pytest.raises(PlacementError) as refused:
        parse_placement("mine", order, lag)
    assert named in str(refused.value)


def test_graphs_that_take_lengths_from_the_host_forbid_it():
    """Whose tokens are not published yet, its context lengths are not on the host either."""
    with pytest.raises(PlacementError, match="'rebind_draft' for the next step needs query_lengths of the next step"):
        with_rebinds(AHEAD_ARMS["static-ahead"])


def test_an_order_without_cold_slots_keeps_its_drafts():
    """A draft waits for its sequence; what a step drafts it must then not draft for itself as well."""
    order = NAMED["vllm/static"]
    assert order.keeps_drafts
    assert not AHEAD_ARMS["static-ahead"].keeps_drafts
    assert placement_from_dict(order.to_dict()) == order
    texts = list(map(str, order.order))
    with pytest.raises(PlacementError, match="nothing launched ahead for it"):
        parse_placement("mine", [*texts[:2], "build_query", "launch_draft", *texts[2:]], None)
    with pytest.raises(PlacementError, match="'fill_dense' needs draft_tokens"):
        parse_placement("mine", [text for text in texts if text != "next:launch_sample"], None)


def test_a_draft_may_be_launched_ahead_without_its_sampling():
    order = [slot.replace("cold:launch_sample", "launch_sample") for slot in STATIC if slot != "next:launch_sample"]
    assert parse_placement("mine", order, None).handed_on == {"query_batch", "draft_hidden"}


def test_lags_and_syncs_hold_for_it():
    lag = with_lag(AHEAD_ARMS["lag-ahead"], 3)
    assert lag.lag_steps == 3
    assert lag.handed_on == AHEAD_ARMS["lag-ahead"].handed_on
    synced = with_sync(AHEAD_ARMS["lag-ahead"], ["launch_draft", "fill_varlen"])
    assert set(synced.sync) == {"launch_draft", "fill_varlen"}
    assert placement_from_dict(synced.to_dict()) == synced
    assert without_sync(synced).order == AHEAD_ARMS["lag-ahead"].order


def test_an_op_for_the_next_step_is_the_same_op():
    draft = CATALOGUE["launch_draft"]
    ahead = for_next_step(draft)
    assert (ahead.name, ahead.needs, ahead.works, ahead.priced_as) == (draft.name, draft.needs, draft.works, draft.name)
    assert plain(syncing(ahead)) == ahead
    assert plain(syncing(draft)) == draft


def test_nothing_is_launched_ahead_while_a_sequence_may_reach_its_limit():
    assert launches_ahead([9, 20], [7, 7])
    assert not launches_ahead([8, 20], [7, 7])
    assert launches_ahead([8, 20], [6, 7])
