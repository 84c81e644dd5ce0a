"""Figure: one representative decode step of every placement, lane by lane, with the host's waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.critical_path.spans import typical_steps
from simtool.report.figures.style import FAINT, WORK_COLOURS, dress, work_kind
from simtool.step.ops import Lane
from simtool.trace.trace import Trace
from simtool.units import NS_PER_MS, format_ns

WAIT = "host waits"
_LANES = tuple(lane.value for lane in Lane)
_ARM_PX = 150


@dataclass(frozen=True)
class Bar:
    """One stretch of one lane; times in ms from the step's start. kind: a kind of work, or WAIT."""

    lane: str
    op: str
    kind: str
    start_ms: float
    length_ms: float


@dataclass(frozen=True)
class StepTimeline:
    """The step shown for an arm: the one of median length among its usual kind at full occupancy."""

    label: str
    step: int
    length_ns: int
    bars: tuple[Bar, ...]


def step_timeline(arm: Arm) -> StepTimeline | None:
    """Pick the arm's step and lay its events out; None when the run holds no event."""
    trace = arm.traces[0]
    step = representative_step(trace)
    if step is None:
        return None
    events = trace.table("events").filter(pl.col("step") == step)
    if events.is_empty():
        return None
    start_ns, end_ns = typical_steps(trace).row(by_predicate=pl.col("step") == step)[1:3]
    bars = [bar for event in events.iter_rows(named=True) for bar in _bars(event, start_ns)]
    return StepTimeline(arm.label, step, end_ns - start_ns, tuple(bars))


def representative_step(trace: Trace) -> int | None:
    """Return the typical step of median length, among those that prune if most do, else among those that do not."""
    full = typical_steps(trace)
    if full.is_empty():
        return None
    prunes = 2 * int(full["pruned"].sum()) >= full.height
    usual = full.filter(pl.col("pruned") == prunes)
    ordered = usual.sort(pl.col("end_ns") - pl.col("start_ns"), "step")
    return int(ordered["step"][ordered.height // 2])


def draw_timelines(timelines: Sequence[StepTimeline]) -> go.Figure:
    """Draw the steps under each other on one time axis."""
    titles = [f"{each.label}: step {each.step}, {format_ns(each.length_ns)}" for each in timelines]
    count = len(timelines)
    figure = make_subplots(
        rows=count, cols=1, shared_xaxes=True, vertical_spacing=0.3 / max(count, 2), subplot_titles=titles
    )
    shown: set[str] = set()
    for row, timeline in enumerate(timelines, start=1):
        for kind in (*WORK_COLOURS, WAIT):
            bars = [bar for bar in timeline.bars if bar.kind == kind]
            if bars:
                figure.add_trace(_trace(kind, bars, legend=kind not in shown), row=row, col=1)
                shown.add(kind)
        figure.add_vline(x=timeline.length_ns / NS_PER_MS, line_color=FAINT, line_dash="dot", row=row, col=1)
    dress(figure, height=110 + _ARM_PX * count)
    figure.update_layout(barmode="overlay", bargap=0.12, margin={"t": 40}, dragmode="zoom", legend_y=1.05)
    figure.update_annotations(font_size=13, x=0, xanchor="left")
    figure.update_yaxes(
        categoryorder="array", categoryarray=_LANES[::-1], range=[-0.5, len(_LANES) - 0.5], fixedrange=True
    )
    figure.update_xaxes(title="ms from the step's start", row=count, col=1)
    return figure


def _bars(event: dict[str, object], start_ns: int) -> list[Bar]:
    begin, end = _whole(event["start_ns"]), _whole(event["end_ns"])
    lane, op = str(event["lane"]), str(event["op"])
    spans = [(work_kind(op), begin, end)]
    if event["wait_start_ns"] is not None and event["wait_end_ns"] is not None:
        asleep, awake = _whole(event["wait_start_ns"]), _whole(event["wait_end_ns"])
        spans = [(work_kind(op), begin, asleep), (WAIT, asleep, awake), (work_kind(op), awake, end)]
    return [
        Bar(lane, op, kind, (first - start_ns) / NS_PER_MS, (last - first) / NS_PER_MS)
        for kind, first, last in spans
        if last > first
    ]


def _trace(kind: str, bars: Sequence[Bar], *, legend: bool) -> go.Bar:
    waiting = kind == WAIT
    pattern = {"shape": "/", "fgcolor": FAINT, "bgcolor": "#ffffff", "size": 5} if waiting else {}
    return go.Bar(
        name=kind,
        legendgroup=kind,
        showlegend=legend,
        orientation="h",
        y=[bar.lane for bar in bars],
        base=[bar.start_ms for bar in bars],
        x=[bar.length_ms for bar in bars],
        marker={
            "color": "#ffffff" if waiting else WORK_COLOURS[kind],
            "pattern": pattern,
            "line": {"width": 0.5, "color": FAINT if waiting else "#ffffff"},
        },
        customdata=[(bar.op, kind) for bar in bars],
        hovertemplate="<b>%{customdata[0]}</b> (%{customdata[1]})<br>from %{base:.3f} ms, %{x:.3f} ms<extra></extra>",
    )


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a time in whole ns, got {value!r}")
    return value
