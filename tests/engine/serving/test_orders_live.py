"""A placement file runs live and replayed: the same order, the same tokens, whatever the order."""

from pathlib import Path

import pytest

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.ops import Lane
from simtool.step.order_search import legal_orders
from simtool.step.placement import load_placement
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import random_prompts, reference, requests, runner, serve

NAME = "dspark_b7"
SPEC = golden.spec(NAME)
FILE = Path(__file__).parents[3] / "docs" / "placements" / "lag-in-place.toml"
PROMPTS = random_prompts(8, (6, 11, 3))
PRUNING = ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))
TOKENS = 12


def test_a_placement_file_is_recorded_in_its_order(tmp_path):
    placement = load_placement(FILE)
    Session(TimedDevice(runner(SPEC), same_durations(1_000)), SPEC).record(
        tmp_path / "live", RunPlan(requests(PROMPTS, TOKENS), placement, PRUNING)
    )
    trace = open_trace(tmp_path / "live")
    assert trace.placement == placement
    steps = trace.table("steps").filter(kind="decode")
    assert steps["pruned"].any()
    events = trace.table("events").filter(lane=Lane.HOST.value).sort("start_ns")
    for step, pruned in steps.select("step", "pruned").iter_rows():
        ran = events.filter(step=step)["op"].to_list()
        assert ran == [op.name for op in placement.ops(pruned=pruned)]


@pytest.mark.parametrize("place", range(0, 50, 7))
def test_enumerated_orders_emit_the_targets_own_tokens(place):
    placement = legal_orders(1).placements[place]
    result, _ = serve(SPEC, requests(PROMPTS, TOKENS), placement, controller=PRUNING)
    for index, prompt in enumerate(PROMPTS):
        assert result.requests[f"r{index:02d}"].output_ids == reference(NAME, prompt, TOKENS)
