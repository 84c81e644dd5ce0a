"""Figure: where the step's time goes: the mean critical path of every arm, by kind of work, host exposure hatched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
import polars as pl

from simtool.analysis.comparison.arms import Arm
from simtool.analysis.critical_path.backtrace import LATENCY
from simtool.analysis.critical_path.critical_path import Part
from simtool.analysis.critical_path.spans import typical_steps
from simtool.analysis.critical_path.totals import typical_totals
from simtool.report.figures.style import FAINT, WORK_COLOURS, dress, work_kind
from simtool.units import NS_PER_MS

_ROW_PX = 52


@dataclass(frozen=True)
class PathShare:
    """A kind of work's share of the path: mean ms per decode step. exposed: the device was idle meanwhile."""

    kind: str
    exposed: bool
    mean_ms: float


@dataclass(frozen=True)
class PathStack:
    """One arm's mean decode step; the shares sum to step_ms."""

    label: str
    step_ms: float
    shares: tuple[PathShare, ...]

    @property
    def exposed_ms(self) -> float:
        """Mean ms of a step in which the device was idle."""
        return sum(share.mean_ms for share in self.shares if share.exposed)


def path_stack(arm: Arm) -> PathStack | None:
    """Average the critical path over the arm's typical steps; None without events."""
    parts = []
    for trace in arm.traces:
        full = typical_steps(trace)
        if not trace.height("events") or full.is_empty():
            return None
        parts.append((_by_kind(typical_totals(trace).parts), full.height))
    steps_in_all = sum(count for _, count in parts)
    totals = pl.concat([frame for frame, _ in parts]).group_by("kind", "exposed").agg(pl.col("ns").sum())
    order = [*WORK_COLOURS, LATENCY]
    shares = [PathShare(kind, exposed, ns / steps_in_all / NS_PER_MS) for kind, exposed, ns in totals.rows() if ns]
    shares.sort(key=lambda share: (order.index(share.kind), share.exposed))
    return PathStack(arm.label, sum(share.mean_ms for share in shares), tuple(shares))


def draw_path_stacks(stacks: Sequence[PathStack]) -> go.Figure:
    """Draw one stacked bar an arm; exposed time is hatched."""
    figure = go.Figure()
    kinds = {share.kind for stack in stacks for share in stack.shares}
    for kind, colour in {**WORK_COLOURS, LATENCY: "#d5dae0"}.items():
        for exposed in (False, True):
            values = [_share_ms(stack, kind, exposed) for stack in stacks]
            if any(values):
                figure.add_bar(
                    name=kind,
                    legendgroup=kind,
                    showlegend=False,
                    orientation="h",
                    y=[_row(stack) for stack in stacks],
                    x=values,
                    marker={
                        "color": colour,
                        "line": {"width": 0.5, "color": "#ffffff"},
                        "pattern": {"shape": "/" if exposed else "", "fgcolor": "#ffffff", "size": 6},
                    },
                    hovertemplate=f"{kind}{', device idle' if exposed else ''}: %{{x:.3f}} ms<extra></extra>",
                )
        if kind in kinds:
            figure.add_bar(name=kind, legendgroup=kind, orientation="h", x=[None], y=[None], marker_color=colour)
    hatch = {"shape": "/", "fgcolor": "#ffffff", "size": 6}
    figure.add_bar(
        name="hatched: device idle", orientation="h", x=[None], y=[None], marker_color=FAINT, marker_pattern=hatch
    )
    dress(figure, height=130 + _ROW_PX * len(stacks), x_title="mean decode step, ms")
    figure.update_layout(barmode="stack", legend_traceorder="normal")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def _row(stack: PathStack) -> str:
    return f"{stack.label}<br>{stack.step_ms:.3g} ms, {stack.exposed_ms:.3g} idle"


def _by_kind(parts: pl.DataFrame) -> pl.DataFrame:
    """Columns kind, exposed, ns: a part counts apart for its exposed and its covered time."""
    latency = pl.col("part").is_in([Part.LAUNCH.value, Part.WAKE.value, Part.GAP.value])
    kind = pl.when(latency).then(pl.lit(LATENCY)).otherwise(pl.col("op").map_elements(work_kind, pl.String))
    named = parts.select(kind.alias("kind"), pl.col("ns").alias("length_ns"), "exposed_ns")
    idle = named.select("kind", pl.lit(True).alias("exposed"), pl.col("exposed_ns").alias("ns"))
    covered = named.select(
        "kind", pl.lit(False).alias("exposed"), (pl.col("length_ns") - pl.col("exposed_ns")).alias("ns")
    )
    return pl.concat([idle, covered])


def _share_ms(stack: PathStack, kind: str, exposed: bool) -> float:
    return sum(share.mean_ms for share in stack.shares if share.kind == kind and share.exposed == exposed)
