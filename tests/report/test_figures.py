"""Each figure's info says what the traces say, and its drawing holds every piece of the info."""

import dataclasses

import polars as pl
import pytest

from simtool.analysis.comparison.arms import gather_arms
from simtool.analysis.comparison.verdict import verdicts
from simtool.analysis.critical_path.backtrace import LATENCY
from simtool.analysis.metrics import summarise_trace
from simtool.report.figures.acceptance import acceptance, draw_acceptance, draw_ranking, draw_reliability
from simtool.report.figures.comparison import comparison_points, draw_comparison
from simtool.report.figures.like_steps import like_steps, representative_step
from simtool.report.figures.path_stack import draw_path_stacks, path_stack
from simtool.report.figures.prediction import draw_predictions, predictions
from simtool.report.figures.style import WORK_COLOURS, work_kind
from simtool.report.figures.timeline import WAIT, draw_timelines, step_timeline
from simtool.report.terminal.numbers import NUMBERS
from simtool.step.ops import CATALOGUE
from simtool.trace.trace import replace_table
from simtool.units import NS_PER_MS, format_ns
from tests.synthetic import SL, make_trace


@pytest.fixture(scope="module")
def arms(traces):
    return gather_arms(traces)


def _named(items, label):
    return next(item for item in items if item.label == label)


def test_every_step_op_has_a_kind_of_its_own():
    prefill = {"build_prefill", "launch_prefill"}
    for op in CATALOGUE.values():
        for name in (op.name, *(work.name for work in op.works)):
            assert (work_kind(name) == "other") == (op.name in prefill)
    assert work_kind("aclnnMatMul") == "other"


def test_comparison_keeps_live_and_modeled_apart(arms):
    points = comparison_points(verdicts(arms), arms)
    assert {(point.row, point.origin) for point in points} == {
        (name, origin) for name in ("lag", "this-step", "static") for origin in ("live", "modeled")
    }
    base = _named(points, "static (live)")
    assert (base.change, base.low, base.high, base.note) == (0, 0, 0, "the baseline")
    fresh = _named(points, "this-step (live)")
    assert fresh.low < fresh.change < fresh.high
    assert "paired t on 2" in fresh.note
    figure = draw_comparison(points)
    assert [trace.name for trace in figure.data] == ["live", "modeled"]
    assert figure.data[0].marker.symbol != figure.data[1].marker.symbol


def test_the_timeline_shows_a_step_in_full(arms):
    arm = _named(arms, "this-step (live)")
    step = representative_step(arm.traces[0])
    assert step is not None
    timeline = step_timeline(arm, step)
    assert timeline is not None
    host = [bar for bar in timeline.bars if bar.lane == "host"]
    assert sum(bar.length_ms for bar in host) == pytest.approx(timeline.length_ns / NS_PER_MS)
    assert {bar.op for bar in host if bar.kind == WAIT} == {"read_confidence", "read_tokens", "write_context"}
    figure = draw_timelines([timeline])
    assert sum(len(trace.x) for trace in figure.data if trace.type == "bar") == len(timeline.bars)
    bar = next(trace for trace in figure.data if trace.type == "bar")
    _, _, end_ms, length_ms = bar.customdata[0]
    assert end_ms == pytest.approx(bar.base[0] + length_ms)
    assert "to %{customdata[2]:.3f} ms (%{customdata[3]:.3f} ms)" in bar.hovertemplate


def test_the_timeline_draws_the_critical_path_and_the_launches(arms):
    arm = _named(arms, "this-step (live)")
    timeline = step_timeline(arm, representative_step(arm.traces[0]) or 0)
    assert timeline is not None
    length_ms = timeline.length_ns / NS_PER_MS
    assert 0.5 * length_ms < sum(end - start for _, start, end in timeline.path) <= length_ms + 1e-9
    launched = {each.work for each in timeline.launches}
    assert {"draft", "target", "verify"} <= launched
    assert all(each.launched_ms <= each.started_ms for each in timeline.launches)
    names = [trace.name for trace in draw_timelines([timeline]).data]
    assert names[-2:] == ["critical path", "launch"]


def test_like_steps_have_one_number_in_every_arm(arms):
    live = [arm for arm in arms if arm.origin == "live"]
    choices = like_steps(live, 5)
    assert len(choices) > 1
    assert all(set(choice) == {arm.label for arm in live} for choice in choices)
    assert all(len(set(choice.values())) == 1 for choice in choices)


def test_without_decode_steps_there_is_none_to_show(tmp_path):
    recorded = make_trace(tmp_path / "prefill", "static", requests=1)
    prefill = recorded.table("steps").filter(pl.col("kind") == "prefill")
    assert representative_step(replace_table(recorded, "steps", prefill)) is None


def test_the_path_stack_sums_to_the_mean_step(arms):
    arm = _named(arms, "this-step (live)")
    stack = path_stack(arm)
    lengths = pl.concat(
        recorded.table("steps").filter((pl.col("kind") == "decode") & (pl.col("batch") == 3)) for recorded in arm.traces
    ).select(pl.col("end_ns") - pl.col("start_ns"))
    assert stack.step_ms == pytest.approx(lengths.to_series().mean() / NS_PER_MS)
    assert {share.kind for share in stack.shares} <= {*WORK_COLOURS, LATENCY}
    decide = next(share for share in stack.shares if share.kind == "decide" and share.exposed)
    assert decide.mean_ms > 0.14  # the toy machine's decision takes 0.15 ms and nothing hides it
    figure = draw_path_stacks([stack])
    assert sum(trace.x[0] or 0 for trace in figure.data) == pytest.approx(stack.step_ms)


def test_predictions_pair_live_with_modeled(arms):
    pairs = predictions(arms)
    assert {pair.row for pair in pairs} == {"lag", "this-step", "static"}
    this_step = next(pair for pair in pairs if pair.row == "this-step")
    assert this_step.runs == 2
    assert 0 < this_step.error < 0.1  # a host 10 % too quick makes it too hopeful
    assert len(draw_predictions(pairs).data) == 2


def test_acceptance_comes_from_the_run_that_verified_most(arms):
    info = acceptance(arms)
    assert info is not None
    assert info.label == "static (live)"
    assert len(info.positions) == SL
    shares = [each.accepted / each.blocks for each in info.positions]
    assert shares == sorted(shares, reverse=True)
    assert list(draw_acceptance(info).data[0].y) == shares
    assert len(draw_ranking(info).data) == 2
    assert len(draw_reliability(info).data[1].x) == len(info.bins)


def test_numbers_are_means_over_runs_and_a_dash_where_there_is_none(arms):
    runs = [summarise_trace(recorded) for recorded in _named(arms, "static (live)").traces]
    by_key = {number.key: number for number in NUMBERS}
    steps = [run.step.mean_ns or 0.0 for run in runs]
    assert by_key["step_ns"].text(*runs) == format_ns(sum(steps) / 2)
    assert by_key["steady_tokens_per_s"].text(runs[0]) == f"{runs[0].steady_tokens_per_s:,.0f}"
    nothing = dataclasses.replace(runs[0], offered=0)
    assert by_key["acceptance_rate"].text(runs[0], nothing) == "-"


def test_no_confidence_no_acceptance_figure():
    assert acceptance([]) is None
