import pytest

from simtool.errors import PlacementError
from simtool.step.ops import CATALOGUE, Lane
from simtool.step.order_search import to_toml
from simtool.step.placement import (
    BUILT_IN,
    PREFILL_ORDER,
    PULL_REQUEST_ARMS,
    load_placement,
    parse_placement,
    placement_from_dict,
    resolve_placement,
    with_lag,
)

LAG = [str(slot) for slot in BUILT_IN["lag"].order]


def names(placement, pruned):
    return [op.name for op in placement.ops(pruned=pruned)]


def moved(order, op, before):
    rest = [text for text in order if text != op]
    at = rest.index(before)
    return [*rest[:at], op, *rest[at:]]


def test_the_four_arms_run_the_orders_of_the_pull_request():
    assert set(PULL_REQUEST_ARMS) <= set(BUILT_IN)
    head, tail = ["schedule", "read_states"], ["launch_target", "launch_verify", "read_tokens"]
    assert names(BUILT_IN["static"], pruned=False) == [
        *head, "build_query", "launch_draft", "build_dense", "launch_sample", "fill_dense", *tail,
        "write_context", "finish",
    ]  # fmt: skip
    assert names(BUILT_IN["this-step"], pruned=True) == [
        *head, "build_query", "launch_draft", "build_dense", "launch_sample", "read_confidence", "decide",
        "build_varlen", "fill_varlen", *tail, "write_context", "finish",
    ]  # fmt: skip
    assert names(BUILT_IN["lag"], pruned=True) == [
        *head, "build_query", "launch_draft", "build_dense", "launch_sample", "decide", "build_varlen",
        "fill_varlen", *tail, "store_confidence", "write_context", "finish",
    ]  # fmt: skip
    assert names(BUILT_IN["lag-overlap"], pruned=True) == [
        *head, "decide", "build_query", "launch_draft", "build_varlen", "launch_sample", "fill_varlen", *tail,
        "store_confidence", "write_context", "finish",
    ]  # fmt: skip


def test_a_full_width_step_of_lag_overlap_builds_the_dense_batch_in_the_window():
    order = names(BUILT_IN["lag-overlap"], pruned=False)
    assert order[order.index("launch_draft") + 1] == "build_dense"
    assert "build_varlen" not in order
    assert "fill_dense" in order


@pytest.mark.parametrize(
    ("op", "before", "complaint"),
    [
        (
            "store_confidence",
            "launch_sample",
            "'store_confidence' needs confidence: 'launch_sample' gives it, but only",
        ),
        ("launch_target", "build_dense", "'launch_target' needs filled_batch"),
        ("finish", "read_tokens", "'finish' needs tokens: 'read_tokens' gives it, but only later"),
        ("build_dense", "read_states", "'build_dense' needs states: 'read_states' gives it, but only later"),
    ],
)
def test_a_broken_dependency_is_named(op, before, complaint):
    with pytest.raises(PlacementError, match=complaint):
        parse_placement("mine", moved(LAG, op, before), 1)


def test_deciding_before_this_steps_confidence_exists_is_refused():
    order = [str(slot) for slot in BUILT_IN["this-step"].order]
    with pytest.raises(PlacementError, match="'decide' needs decision_confidence: 'read_confidence' gives it"):
        parse_placement("mine", moved(order, "decide", "build_query"), 0)


def test_a_lag_needs_its_confidence_stored():
    with pytest.raises(PlacementError, match="never runs 'store_confidence'"):
        parse_placement("mine", [text for text in LAG if text != "store_confidence"], 1)


def test_a_slot_that_depends_on_the_prune_comes_after_the_decision():
    order = moved(LAG, "build_varlen|-", "launch_draft")
    with pytest.raises(PlacementError, match=r"needs prefix_lengths|depends on the prune"):
        parse_placement("mine", order, 1)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"order": [*LAG, "finish"]}, "runs 'finish' twice"),
        ({"order": ["brew_coffee"]}, "unknown op 'brew_coffee'; expected one of schedule"),
        ({"lag_steps": -1}, "lag_steps is -1; expected 0 to 8"),
        ({"lag_steps": "1"}, "lag_steps is '1'; expected a whole number"),
        ({"lag_steps": None}, "runs 'decide' without lag_steps"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"name": ""}, "name is ''"),
        ({"order": 7}, "order is 7"),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(change, complaint):
    with pytest.raises(PlacementError, match=complaint) as caught:
        placement_from_dict({"name": "mine", "order": LAG, "lag_steps": 1} | change, source="mine.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("placement", BUILT_IN.values(), ids=lambda p: p.name)
def test_a_placement_survives_its_own_text(placement):
    assert placement_from_dict(placement.to_dict()) == placement


def test_a_toml_file_is_a_placement(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"lag_steps = 2\norder = {LAG!r}\n")
    assert load_placement(path).lag_steps == 2
    assert resolve_placement(str(path)).name == "mine"
    path.write_text("order = [")
    with pytest.raises(PlacementError, match="not TOML"):
        load_placement(path)


@pytest.mark.parametrize(
    ("name", "lag_steps", "part"),
    [("this-step", 1, "order"), ("lag", 2, "lag_steps"), ("lag-2", 1, "lag_steps"), ("lag+rebind", 1, "order")],
)
def test_a_file_cannot_go_by_the_name_of_a_built_in(tmp_path, name, lag_steps, part):
    path = tmp_path / "mine.toml"
    path.write_text(f"name = {name!r}\nlag_steps = {lag_steps}\norder = {LAG!r}\n")
    with pytest.raises(PlacementError, match=f"a built-in placement, but its {part} is not .* choose another name"):
        load_placement(path)


@pytest.mark.parametrize("placement", [*BUILT_IN.values(), with_lag(BUILT_IN["lag"], 2)], ids=lambda p: p.name)
def test_a_file_that_equals_a_built_in_keeps_its_name(tmp_path, placement):
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(placement))
    assert load_placement(path) == placement


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(PlacementError, match="unknown placement 'lagg'; expected one of static, this-step, lag"):
        resolve_placement("lagg")


def test_lag_is_a_number():
    assert with_lag(BUILT_IN["lag"], 3).lag_steps == 3
    assert with_lag(BUILT_IN["lag"], 1) is BUILT_IN["lag"]
    with pytest.raises(PlacementError, match="cannot be run at lag 2"):
        with_lag(BUILT_IN["this-step"], 2)


def test_every_need_has_a_giver_and_device_work_is_on_a_device_lane():
    given = {name for op in CATALOGUE.values() for name in op.gives}
    for op in CATALOGUE.values():
        assert set(op.needs) <= given, op.name
        assert all(work.lane is not Lane.HOST for work in op.works)
        launched = [giver for giver in CATALOGUE.values() if giver.works and set(giver.gives) & set(op.needs)]
        assert op.works or launched or not op.blocks, op.name


def test_prefill_gives_what_it_needs():
    given: set[str] = set()
    for op in PREFILL_ORDER:
        assert set(op.needs) <= given
        given |= set(op.gives)
