"""The figures of studies: what they show, and that they draw."""

import numpy as np
import polars as pl
from xllm_2280.figures.loss_map import draw_loss_map, loss_contours, loss_marks
from xllm_2280.figures.region_map import draw_region_map
from xllm_2280.load import Load
from xllm_2280.losses import LossAxis, LossPoint
from xllm_2280.regions import Region

from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.runs import Run
from simtool.analysis.staleness import Persistence, Staleness
from simtool.report.figures.break_even import affordable_loss, draw_break_even
from simtool.report.figures.heat_map import draw_heat_map, heat_maps
from simtool.report.figures.sensitivity import draw_sensitivity, shown_bars
from simtool.report.figures.staleness import draw_by_position, draw_loss, draw_persistence
from simtool.stats.interval import Interval
from simtool.study.break_even import BreakEven
from simtool.study.runner import Cell, arm_of
from simtool.study.sensitivity import OpSensitivity, Sensitivity


def test_heat_map_leaves_out_the_baseline_and_keeps_holes():
    rows = [
        ("t", "p", 7, 1, 0.0, "this-step", 0.0),
        ("t", "p", 7, 1, 0.0, "lag", 0.05),
        ("t", "p", 7, 8, 0.0, "this-step", 0.0),
    ]
    columns = ["trace", "profile", "sl", "concurrency", "stale_loss", "placement", "gain"]
    gains = pl.DataFrame(rows, schema=columns, orient="row")
    (panel,) = heat_maps(gains, "this-step")
    assert (panel.placements, panel.concurrencies, panel.gains) == (("lag",), (1, 8), ((5.0, None),))
    assert draw_heat_map([panel]).data[0].x == ("1", "8")


def test_tornado_shows_what_moves_the_step():
    bars = (
        OpSensitivity("target", "device", 0.0, 500.0, 250.0),
        OpSensitivity("decide", "host", 0.0, 0.0, 0.0, 40.0),
        OpSensitivity("idle", "host", 0.0, 0.5, 0.2),
    )
    found = Sensitivity("lag", 8, 1_000.0, bars)
    assert [bar.name for bar in shown_bars(found)] == ["target", "decide"]
    figure = draw_sensitivity(found)
    assert [(trace.name, trace.y) for trace in figure.data[::3]] == [("free", ("decide",)), ("free", ("target",))]
    assert [trace.x for trace in figure.data[2::3]] == [(0.04,), (None,)]
    assert [note.text for note in figure.layout.annotations] == ["host ops", "device work"]


def test_affordable_loss_is_drawn_as_the_grid_that_was_replayed():
    points = [
        BreakEven(concurrency, cost, Interval(0.01 * concurrency + cost / 1e6), Interval(0.002))
        for concurrency in (8, 1)
        for cost in (1_000, 0)
    ]
    grid = affordable_loss(points)
    assert (grid.concurrencies, grid.decisions_us) == ((1, 8), (0.0, 1.0))
    np.testing.assert_allclose(grid.affordable, [[1.0, 1.1], [8.0, 8.1]])
    assert grid.lost == (0.2, 0.2)
    (cells,) = draw_break_even(points).data
    assert cells.type == "heatmap"
    np.testing.assert_allclose(cells.z, [[0.8, 0.9], [7.8, 7.9]])
    assert cells.y == ("1 (loses 0.2 %)", "8 (loses 0.2 %)")


def cell(name, step_ns):
    run = Run(name, np.full(60, 4), np.full(60, step_ns), "w")
    return Cell(name, 8, None, run, 8, 320, 100, 60, 0, 1.0)


def test_region_map_marks_ties():
    fast, same, slow = cell("lag", 900), cell("lag-overlap", 900), cell("this-step", 1_000)
    arms = [arm_of([each]) for each in (fast, same, slow)]
    gain, tie = compare(arms[2], arms[0]), compare(arms[1], arms[0])
    region = Region(
        Load(7),
        "p",
        8,
        "lag",
        gain,
        "lag-overlap",
        tie,
        "lag",
        Interval(0.1),
        Interval(0.0),
        ((fast,), (same,), (slow,)),
    )
    assert region.tied
    assert region.cells_of("this-step") == (slow,)
    (trace,) = draw_region_map([region], ["this-step", "lag"]).data
    assert (trace.name, trace.text) == ("lag", ("+11.1 % ≈",))


def test_loss_map_marks_who_wins_and_what_is_told():
    slow, lagged, late = cell("this-step", 1_000), cell("lag", 900), cell("lag", 1_200)
    arms = {"fresh": arm_of([slow]), "lag": arm_of([lagged]), "late": arm_of([late])}
    gain, none = compare(arms["fresh"], arms["lag"]), compare(arms["fresh"], arms["fresh"])
    region = Region(
        Load(7),
        "p",
        8,
        "lag",
        gain,
        "this-step",
        gain,
        "lag",
        Interval(0.1, 0.08, 0.12),
        Interval(0.0),
        ((slow,), (lagged,)),
    )
    points = (
        LossPoint(0.0, Interval(0.0), "this-step", gain),
        LossPoint(0.1, Interval(0.05), "this-step", none),
        LossPoint(0.4, Interval(0.2), "this-step", compare(arms["fresh"], arms["late"])),
    )
    axes = [LossAxis(region, points)]
    told = [(mark.winner, mark.told, mark.lost) for mark in loss_marks(axes)]
    assert told == [("a lag placement", True, 0.0), ("this-step", False, 5.0), ("this-step", True, 20.0)]
    (contour,) = loss_contours(axes)
    assert (contour.concurrencies, contour.affordable, contour.low, contour.high) == ((8,), (10.0,), (8.0,), (12.0,))
    assert [trace.name for trace in draw_loss_map(axes).data] == [
        "a lag placement",
        "this-step",
        "static",
        "can afford",
    ]


def test_lag_figures():
    effects = [
        Staleness(lag, kind, 4, 100, 4 * lag, 2.0, 0.8, Interval(0.01 * lag, 0.0, 0.02), (90, 50), (80, 20))
        for lag in (0, 1)
        for kind in ("all", "code")
    ]
    loss = draw_loss(effects)
    assert [(trace.name, trace.y) for trace in loss.data] == [("all", (0.0, 0.01)), ("code", (0.0, 0.01))]
    assert [trace.y for trace in draw_by_position(effects).data] == [(0.8, 0.2), (0.8, 0.2)]
    found = [Persistence(1, 10, 0.5, (0.4, None), (0.6, None)), Persistence(2, 9, None, (0.1, 0.2), (None, None))]
    assert draw_persistence(found).data[-1].y == (0.5, None)
