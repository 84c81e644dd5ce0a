"""Figure: one decode step of every placement, lane by lane: the work, the waits, the launches, the critical path."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import polars as pl
from plotly.subplots import make_subplots

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.critical_path.critical_path import Part, critical_path
from simtool.analysis.critical_path.spans import typical_steps
from simtool.analysis.critical_path.totals import executors_of
from simtool.report.figures.style import FAINT, INK, WORK_COLOURS, dress, work_kind
from simtool.step.ops import Lane
from simtool.units import NS_PER_MS, format_ns

WAIT = "host waits"
_LANES = tuple(lane.value for lane in Lane)
_ROW = {lane: len(_LANES) - 1 - place for place, lane in enumerate(_LANES)}
_HALF = 0.36  # of a bar's height, of 1 a lane
_ARM_PX = 170
#: What the close look is at: deciding, and building the batch that is verified.
_CLOSE = ("decide", "build the validate batch")


@dataclass(frozen=True)
class Bar:
    """One stretch of one lane; times in ms from the step's start. kind: a kind of work, or WAIT."""

    lane: str
    op: str
    kind: str
    start_ms: float
    length_ms: float


@dataclass(frozen=True)
class LaunchLine:
    """Device work and when the host let go of it, in ms from the step's start."""

    work: str
    lane: str
    launched_ms: float
    started_ms: float


@dataclass(frozen=True)
class StepTimeline:
    """The step shown for an arm. path: (lane, start, end) in ms of the work on the critical path."""

    label: str
    step: int
    length_ns: int
    bars: tuple[Bar, ...]
    launches: tuple[LaunchLine, ...] = ()
    path: tuple[tuple[str, float, float], ...] = ()


def step_timeline(arm: Arm, step: int) -> StepTimeline | None:
    """Lay out the events of one step of an arm's first run; None when it has none."""
    trace = arm.traces[0]
    span = typical_steps(trace).filter(pl.col("step") == step)
    events = trace.of_steps("events", [step])
    if span.is_empty() or events.is_empty():
        return None
    start_ns, end_ns = span.select("start_ns", "end_ns").row(0)
    rows = list(events.iter_rows(named=True))
    segments = critical_path(span, events, executors_of(trace)).segments
    worked = segments.filter(pl.col("part").is_in([Part.HOST.value, Part.DEVICE.value]))
    return StepTimeline(
        label=arm.label,
        step=step,
        length_ns=end_ns - start_ns,
        bars=tuple(bar for event in rows for bar in _bars(event, start_ns)),
        launches=tuple(_launches(rows, start_ns)),
        path=tuple(
            (lane, (begin - start_ns) / NS_PER_MS, (end - start_ns) / NS_PER_MS)
            for lane, begin, end in worked.select("lane", "start_ns", "end_ns").iter_rows()
        ),
    )


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
                figure.add_trace(_work(kind, bars, legend=kind not in shown), row=row, col=1)
                shown.add(kind)
        figure.add_trace(_path(timeline, legend=row == 1), row=row, col=1)
        figure.add_trace(_arrows(timeline, legend=row == 1), row=row, col=1)
        figure.add_vline(x=timeline.length_ns / NS_PER_MS, line_color=FAINT, line_dash="dot", row=row, col=1)
    dress(figure, height=130 + _ARM_PX * count)
    figure.update_layout(barmode="overlay", bargap=0, margin={"t": 64}, dragmode="zoom", legend_y=1.06)
    figure.update_annotations(font_size=13, x=0, xanchor="left")
    figure.update_yaxes(tickvals=list(_ROW.values()), ticktext=list(_ROW), range=[-0.6, len(_LANES) - 0.4])
    figure.update_yaxes(fixedrange=True, showgrid=False)
    figure.update_xaxes(title="ms from the step's start", row=count, col=1)
    figure.update_layout(updatemenus=[_zoom(timelines)])
    return figure


def _zoom(timelines: Sequence[StepTimeline]) -> dict[str, object]:
    """Buttons: the whole step, or where any of them decides and builds the batch to verify."""
    whole = (0.0, max(each.length_ns for each in timelines) / NS_PER_MS)
    near = [bar for each in timelines for bar in each.bars if bar.kind in _CLOSE and bar.start_ms < _verified_ms(each)]
    ends = (min(b.start_ms for b in near), max(b.start_ms + b.length_ms for b in near)) if near else whole
    views = {"whole step": whole, "decide and build": ends}
    axes = [f"xaxis{place or ''}" for place in (None, *range(2, len(timelines) + 1))]
    buttons = [
        {"label": label, "method": "relayout", "args": [{f"{axis}.range": list(view) for axis in axes}]}
        for label, view in views.items()
    ]
    return {"type": "buttons", "direction": "right", "buttons": buttons, "x": 1, "xanchor": "right", "y": 1.07}


def _verified_ms(timeline: StepTimeline) -> float:
    """When the device begins to verify: what is kept for a later decision comes after that."""
    began = (bar.start_ms for bar in timeline.bars if bar.kind == "target and verify" and bar.lane != Lane.HOST.value)
    return min(began, default=math.inf)


def _bars(event: dict[str, object], start_ns: int) -> list[Bar]:
    begin, end = _whole(event["start_ns"]), _whole(event["end_ns"])
    lane, op = str(event["lane"]), str(event["op"])
    spans = [(work_kind(op), begin, end)]
    if event["wait_start_ns"] is not None and event["wait_end_ns"] is not None:
        asleep, awake = _whole(event["wait_start_ns"]), _whole(event["wait_end_ns"])
        spans = [(work_kind(op), begin, asleep), (WAIT, asleep, awake), (work_kind(op), awake, end)]
    return [
        Bar(lane=lane, op=op, kind=kind, start_ms=(first - start_ns) / NS_PER_MS, length_ms=(last - first) / NS_PER_MS)
        for kind, first, last in spans
        if last > first
    ]


def _launches(rows: Sequence[dict[str, object]], start_ns: int) -> Iterable[LaunchLine]:
    """Yield each piece of device work that a host op of the step launched: when it let go, when the work began."""
    host = {row["flow"]: row for row in rows if row["lane"] == Lane.HOST.value}
    for row in rows:
        origin = host.get(row["flow"])
        if row["lane"] == Lane.HOST.value or origin is None:
            continue
        let_go = origin["wait_start_ns"] if origin["wait_start_ns"] is not None else origin["end_ns"]
        started = _whole(row["start_ns"])
        launched = min(_whole(let_go), started)
        times = [(time - start_ns) / NS_PER_MS for time in (launched, started)]
        yield LaunchLine(str(row["op"]), str(row["lane"]), *times)


def _work(kind: str, bars: Sequence[Bar], *, legend: bool) -> go.Bar:
    waiting = kind == WAIT
    pattern = {"shape": "/", "fgcolor": FAINT, "bgcolor": "#ffffff", "size": 5} if waiting else {}
    return go.Bar(
        name=kind,
        legendgroup=kind,
        showlegend=legend,
        orientation="h",
        y=[_ROW[bar.lane] for bar in bars],
        width=2 * _HALF,
        base=[bar.start_ms for bar in bars],
        x=[bar.length_ms for bar in bars],
        marker={
            "color": "#ffffff" if waiting else WORK_COLOURS[kind],
            "pattern": pattern,
            "line": {"width": 0.5, "color": FAINT if waiting else "#ffffff"},
        },
        customdata=[(bar.op, kind, bar.start_ms + bar.length_ms, bar.length_ms) for bar in bars],
        hovertemplate="<b>%{customdata[0]}</b> (%{customdata[1]})<br>%{base:.3f} to %{customdata[2]:.3f} ms "
        "(%{customdata[3]:.3f} ms)<extra></extra>",
    )


def _path(timeline: StepTimeline, *, legend: bool) -> go.Scatter:
    """A line under the work that bounds the step."""
    marks = [(time, _ROW[lane] - _HALF - 0.06) for lane, *ends in timeline.path for time in (*ends, None)]
    return go.Scatter(
        name="critical path",
        legendgroup="critical path",
        showlegend=legend,
        mode="lines",
        x=[time for time, _ in marks],
        y=[None if time is None else place for time, place in marks],
        line={"color": INK, "width": 4},
        hoverinfo="skip",
    )


def _arrows(timeline: StepTimeline, *, legend: bool) -> go.Scatter:
    """From where the host let go of a piece of device work to where that began."""
    x: list[float | None] = []
    y: list[float | None] = []
    for each in timeline.launches:
        x += [each.launched_ms, each.started_ms, None]
        y += [_ROW[Lane.HOST.value] - _HALF, _ROW[each.lane] + _HALF, None]
    return go.Scatter(
        name="launch",
        legendgroup="launch",
        showlegend=legend,
        mode="lines+markers",
        x=x,
        y=y,
        line={"color": FAINT, "width": 1},
        marker={"color": FAINT, "size": 7, "symbol": "arrow", "angleref": "previous"},
        hoverinfo="skip",
    )


def _whole(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"expected a time in whole ns, got {value!r}")
    return value
