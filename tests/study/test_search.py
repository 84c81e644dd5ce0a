"""The search where the best order is known, and the tornado and the break-even beside it."""

import pytest

from simtool.cli.shared.study import check_priced
from simtool.errors import UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.stats.student import mean_interval
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.order_search import legal_orders
from simtool.step.placement import BUILT_IN, NAMED, parse_placement
from simtool.study.break_even import break_even
from simtool.study.runner import run_cells
from simtool.study.search import order_candidates, search
from simtool.study.sensitivity import count_jobs, sensitivity
from tests.replay.synthetic import STREAMS, profile_of, random_costs, random_work, source_trace
from tests.study.small import COSTS, setting


def quiet(_done):
    pass


def step_ns(where, placement):
    return run_cells([(where, placement)])[0][0].step_ns


def test_the_best_order_launches_before_it_decides(tmp_path):
    """A decision of 100 ns above the launch delays the draft by 100; behind it 80 of them hide under the draft."""
    where = setting(tmp_path)
    tried = order_candidates(where, (1,))
    assert (tried.enumerated, len(tried.placements), tried.unpriced) == (300, 50, ())
    found = search(where, tried, top=2, processes=1, progress=quiet)
    assert found.screened == 50
    best = found.best[0]
    names = [str(slot).split("|")[0] for slot in best.placement.order]
    assert names.index("launch_draft") < names.index("decide")
    assert best.step_ns == min(step_ns(where, placement) for placement in tried.placements)
    assert best.gain.ratio == pytest.approx(step_ns(where, BUILT_IN["lag-overlap"]) / best.step_ns)
    assert "off the path: " in best.why


def test_a_search_under_syncs_replays_every_order_with_them(tmp_path):
    """fill_varlen waits for the draft and the sample wherever an order runs it, in the baseline too."""
    where = setting(tmp_path)
    plain, tried = order_candidates(where, (1,)), order_candidates(where, (1,), ("fill_varlen",))
    assert (tried.enumerated, len(tried.placements)) == (plain.enumerated, len(plain.placements))
    assert tried.baseline.sync == ("fill_varlen",)
    assert step_ns(where, tried.baseline) > step_ns(where, BUILT_IN["lag-overlap"])
    best = search(where, tried, top=1, processes=1, progress=quiet).best[0]
    assert best.step_ns == min(step_ns(where, placement) for placement in tried.placements)
    for placement in tried.placements:
        runs = {op.name for op in placement.ops(pruned=True)}
        assert placement.sync == (("fill_varlen",) if "fill_varlen" in runs else ())
    assert best.gain.ratio == pytest.approx(step_ns(where, tried.baseline) / best.step_ns)
    with pytest.raises(UsageError, match="'launch_tokens' syncs in none"):
        order_candidates(where, (1,), ("launch_tokens",))


def test_what_has_no_price_is_told(tmp_path):
    costs = COSTS
    pre = {key: line for key, line in costs.pre.items() if key[1] != "build_fill_index"}
    where = setting(tmp_path, type(costs)(pre=pre, duration=costs.duration))
    tried = order_candidates(where, (1,))
    assert len(tried.placements) == 10
    assert tried.unpriced == ("40 orders not tried: no cost of 'build_fill_index' in synthetic",)


@pytest.mark.parametrize("seed", range(3))
def test_orders_that_differ_behind_read_tokens_take_the_same_time(tmp_path, seed):
    """The prune's reason, on random costs; launches and queues apart, whose latencies an order may shift."""
    costs = random_costs(seed)
    costs = type(costs)(costs.pre, costs.post, {}, costs.duration)
    source = source_trace(tmp_path / "source", random_work(seed, 3, 4))
    controller = ControllerSettings(LinearPredictor(0.5, 0.25, 0.0))
    order = [str(slot) for slot in BUILT_IN["lag-overlap-index"].order]
    ends = set()
    for tail in (("finish", "write_context", "store_confidence"), ("write_context", "store_confidence", "finish")):
        other = parse_placement("other", [*order[:-3], *tail], 1)
        for placement in (BUILT_IN["lag-overlap-index"], other):
            tables = replay(source, profile_of(costs, STREAMS), Scenario(placement, 2, controller)).tables
            ends.add(tuple((tables["steps"]["end_ns"] - tables["steps"]["start_ns"]).to_list()))
    assert len(ends) == 1


def test_tornado(tmp_path):
    """target bounds every step: free gives all 200 ns back; decide gives what it takes, or hides behind the launch."""
    where = setting(tmp_path)
    seen = []
    found = sensitivity(where, BUILT_IN["lag-overlap"], processes=1, progress=seen.append)
    bars = {(bar.name, bar.lane): bar for bar in found.bars}
    assert (bars["target", "device"].free_ns, bars["target", "device"].halved_ns) == (200, 100)
    assert bars["target", "device"].moved_ns is None
    decide = bars["decide", "host"]
    assert decide.free_ns == 100
    assert bars["target", "device"].own_ns == 200
    assert all(bar.free_ns == bar.own_ns + bar.follows_ns for bar in found.bars)
    assert decide.moved_ns == found.step_ns - min(
        step_ns(where, moved) for moved in legal_orders(1).placements if moved.name == "lag-overlap-late"
    )
    assert seen[-1] == count_jobs(BUILT_IN["lag-overlap"])


@pytest.mark.parametrize("name", ["static-ahead", "vllm/static", "device-split"])
def test_a_tornado_of_a_placement_whose_ops_borrow_their_costs(tmp_path, name):
    where = setting(tmp_path)
    check_priced(where.profile, NAMED[name])
    found = sensitivity(where, NAMED[name], processes=1)
    bars = {bar.name: bar for bar in found.bars}
    assert {op.name for op in NAMED[name].ever_runs()} <= set(bars)
    assert bars["target"].free_ns >= bars["target"].halved_ns > 0


def test_break_even_is_where_throughputs_meet(tmp_path):
    where = setting(tmp_path)
    late = BUILT_IN["lag-overlap-late"]
    cheap, dear = break_even([where], [0, 500], late, processes=1, progress=quiet)
    assert dear.affordable.mean > cheap.affordable.mean
    assert dear.lost.mean == 0
    assert dear.pays
    assert dear.affordable.low is None


def test_interval():
    """Mean 2, standard deviation 1, three values: 2 +- 4.303 / sqrt(3)."""
    found = mean_interval([1.0, 2.0, 3.0])
    assert found.mean == 2
    assert found.high == pytest.approx(2 + 4.3027 / 3**0.5, abs=1e-3)


def test_enumerated_orders_beyond_lag_one_run(tmp_path):
    where = setting(tmp_path)
    assert step_ns(where, legal_orders(2).placements[0]) > 0
