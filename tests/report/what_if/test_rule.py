"""The page's step rule, run by Chromium, against the simulator: 200 drawn cases, every time to the ns."""

import json
import random
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from simtool.analysis.critical_path.critical_path import critical_path
from simtool.errors import PlacementError
from simtool.profile.cost import Line
from simtool.profile.whatif import with_changes
from simtool.replay.replay import replay
from simtool.report.whatif.grid import WhatIfGrid, grid_json
from simtool.report.whatif.model import step_model
from simtool.report.whatif.page import SCRIPTS, script
from simtool.step.controller import LinearPredictor
from simtool.step.placement import BUILT_IN, XLLM_ARMS, Placement, with_lag, with_rebinds, with_sync
from simtool.study.runner import Setting
from tests.replay.synthetic import (
    ONE_DEVICE,
    STREAMS,
    profile_of,
    random_costs,
    random_work,
    source_trace,
    with_history,
)
from tests.report.what_if.browser import CHROMIUM, WHY_SKIPPED, told_by

CASES = 200
PLACEMENTS = (
    *BUILT_IN.values(),
    *XLLM_ARMS.values(),
    with_lag(BUILT_IN["lag-overlap"], 2),
    with_rebinds(BUILT_IN["lag"]),
    with_sync(BUILT_IN["static"], ["build_dense", "fill_dense", "launch_target"]),
    with_sync(BUILT_IN["lag-overlap-index"], ["build_query", "build_fill_index", "-|launch_verify"]),
)
EXECUTORS = (ONE_DEVICE, STREAMS, {"prepare": "copies", "compute": "compute", "copy": "copies"})
PREDICTORS = (
    LinearPredictor(0.5, 0.25, 0.001),
    LinearPredictor(0.0, 50.0, 0.0),  # prunes everything
    LinearPredictor(1.0, 0.0, 0.0),  # prunes nothing
)
TIMES = ("start_ns", "end_ns", "wait_start_ns", "wait_end_ns")

_RUNNER = """
const told = CASES.map(({ grid, draw, factors }) => {
  const [placement] = grid.placements, [point] = grid.concurrencies, steps = [];
  const plan = point.plans[point.placements[placement.name].plan];
  const seen = (_, ops, span) => {
    const spans = [];
    for (const op of ops) {
      const here = [[op.start, op.end, op.blocks ? op.waitStart : null, op.blocks ? op.waitEnd : null, "host"]];
      for (const work of op.works) here.push([work.start, work.end, null, null, work.lane]);
      spans.push(...here.sort((a, b) => a[4] < b[4] ? -1 : 1).map(each => each.slice(0, 4)));
    }
    const path = criticalPath(ops, span).map(each => [each.part, each.name, each.lane, each.start, each.end]);
    steps.push({ span: [span.start, span.end], spans, path });
  };
  replay(withFactors(grid, factors), placement.order, plan, { draw, luck: point.luck[draw - 1], seen });
  return steps;
});
const out = document.createElement("pre");
out.id = "told"; out.textContent = JSON.stringify(told);
document.body.append(out);
"""


def shuffled(placement: Placement, draw: random.Random) -> Placement:
    """The placement after some random moves that are legal."""
    for _ in range(30):
        order = list(placement.order)
        order.insert(draw.randrange(len(order)), order.pop(draw.randrange(len(order))))
        try:
            placement = replace(placement, order=tuple(order))
        except PlacementError:
            continue
    return placement


def drawn_profile(seed):
    """Costs with residuals and refits, many of which grow with what ran just before."""
    rng = np.random.default_rng(seed)

    def noisy(cost):
        residuals = tuple(int(ns) for ns in rng.integers(-300, 300, int(rng.choice((0, 1, 7, 20)))))
        slopes = {name: rng.random() * slope for name, slope in cost.per_feature_ns.items()}
        return replace(cost, residuals_ns=residuals, refits=(Line(cost.intercept_ns + rng.random(), slopes),))

    costs = with_history(random_costs(seed), seed) if seed % 2 else random_costs(seed)
    profile = profile_of(costs, EXECUTORS[seed % 3]).each_cost(noisy)
    return replace(profile, predictor=PREDICTORS[seed // 3 % 3])


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """What each case is, as the browser gets it and as the simulator replays it."""
    folder, found = tmp_path_factory.mktemp("sources"), []
    for seed in range(CASES):
        draw = random.Random(seed)
        source = source_trace(folder / str(seed), random_work(seed, draw.choice((1, 3, 7)), 3, tokens=8))
        placement = shuffled(draw.choice(PLACEMENTS), draw)
        work = draw.choice([f"host.{op.name}" for op in placement.ever_runs()] + ["device.target", "device.draft"])
        factors = {} if seed % 4 == 0 else {work: draw.choice((0.0, 0.25, 1.7))}
        setting = Setting(source, drawn_profile(seed), draw.choice((1, 2, 3)), seeds=(0,))
        grid = grid_json(WhatIfGrid([setting], [placement]), lambda: None)
        noisy = bool(seed % 3)
        changed = with_changes(setting.profile, [f"{name}=x{by}" for name, by in factors.items()])
        (scenario,) = replace(setting, profile=changed, seeds=(0,) if noisy else ()).scenarios(placement)
        replayed = replay(source, changed.refitted(0) if noisy else changed, scenario)
        found.append(({"grid": grid, "draw": int(noisy), "factors": factors}, replayed, setting.profile.executors))
    return found


@pytest.fixture(scope="module")
def told(cases, tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip(WHY_SKIPPED)
    folder = tmp_path_factory.mktemp("rule")
    model, given = json.dumps(step_model(PLACEMENTS)), json.dumps([case for case, _, _ in cases])
    rule = "".join(script(name) for name in SCRIPTS[:4])
    page = folder / "rule.html"
    page.write_text(f"<body><script>const MODEL = {model}, CASES = {given};{rule}{_RUNNER}</script></body>")
    return json.loads(told_by(page, folder))


def test_every_time_is_the_simulators(cases, told):
    assert len(told) == CASES
    for (_, replayed, _), steps in zip(cases, told, strict=True):
        events = replayed.tables["events"].select(TIMES).rows()
        assert [tuple(span) for step in steps for span in step["spans"]] == events
        assert [tuple(step["span"]) for step in steps] == replayed.tables["steps"].select("start_ns", "end_ns").rows()


def test_the_critical_path_is_the_analysis_own(cases, told):
    for (_, replayed, executors), steps in zip(cases, told, strict=True):
        path = critical_path(replayed.tables["steps"], replayed.tables["events"], executors).segments
        expected = path.select("part", "op", "lane", "start_ns", "end_ns").rows()
        assert [tuple(each) for step in steps for each in step["path"]] == expected


def test_the_drawn_cases_reach_what_they_are_drawn_for(cases):
    steps = pl.concat([replayed.tables["steps"] for _, replayed, _ in cases])
    decode = steps.filter(pl.col("kind") == "decode")
    assert min((decode["pruned"]).sum(), (~decode["pruned"]).sum()) > CASES
    assert set(decode["batch"]) == {1, 2, 3}
    names = {replayed.manifest.placement["name"] for _, replayed, _ in cases}
    assert len(names) >= 10
    orders = {tuple(replayed.manifest.placement["order"]) for _, replayed, _ in cases}
    assert len(orders) > CASES / 2
