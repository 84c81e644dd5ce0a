"""A study's cells are the same by either simulator: figures, steps and what they rest on."""

from dataclasses import replace

import pytest

from simtool.errors import UsageError
from simtool.profile.cost import Cost, Line
from simtool.step.controller import LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.study.runner import Cell, Setting, run_cells
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    Asked,
    Work,
    profile_of,
    random_costs,
    random_work,
    source_trace,
    with_history,
)

PLACEMENTS = ("static", "this-step", "lag", "lag-overlap-index")


def told(cell: Cell) -> tuple[object, ...]:
    """All of a cell, arrays as lists."""
    run = (cell.run.name, cell.run.tokens.tolist(), cell.run.duration_ns.tolist(), cell.run.workload)
    rest = (cell.full_batch, cell.sequence_steps, cell.offered, cell.accepted, cell.idle_ns, cell.caveats)
    return (cell.placement, cell.concurrency, cell.seed, run, *rest)


def refitted(cost: Cost) -> Cost:
    lines = tuple(Line(cost.intercept_ns + i, cost.per_feature_ns) for i in range(4))
    return replace(cost, residuals_ns=tuple((i * 37) % 101 - 50 for i in range(90)), refits=lines)


@pytest.mark.parametrize("executors", [ONE_DEVICE, STREAMS], ids=["one", "streams"])
def test_both_simulators_make_the_same_cells(tmp_path, executors):
    profile = profile_of(with_history(random_costs(4), 4), executors).each_cost(refitted)
    profile = replace(profile, predictor=LinearPredictor(0.5, 0.25, 0.001))
    sources = [source_trace(tmp_path / f"s{drafts}", random_work(drafts, drafts, 9, tokens=40)) for drafts in (3, 7)]
    jobs = [
        (Setting(source, profile, concurrency, seeds=seeds, stale_loss=loss), BUILT_IN[name])
        for source in sources
        for concurrency, loss in ((1, 0.0), (4, 0.2))
        for seeds in ((), (0, 1, 2))
        for name in PLACEMENTS
    ]
    done: list[int] = []
    compiled = run_cells(
        [(replace(setting, simulator="compiled"), each) for setting, each in jobs], progress=done.append
    )
    simpy = run_cells([(replace(setting, simulator="simpy"), each) for setting, each in jobs])
    assert [list(map(told, cells)) for cells in compiled] == [list(map(told, cells)) for cells in simpy]
    assert done[-1] == sum(len(cells) for cells in simpy)


def test_a_run_without_a_decode_step_is_refused_by_both(tmp_path):
    source = source_trace(tmp_path / "s", Work(2, (Asked("a", 4, 1, 1),), {("a", 4): ([0.5, 0.5], 0)}))
    for simulator in ("simpy", "compiled"):
        with pytest.raises(UsageError, match="no step decodes"):
            run_cells([(Setting(source, profile_of(random_costs(1)), 1, simulator=simulator), BUILT_IN["static"])])
