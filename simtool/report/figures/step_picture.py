"""A picture of one decode step of every placement, live beside replayed: plain SVG, for pages that run no script."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from simtool.report.figures.style import FAINT, INK, WORK_COLOURS
from simtool.report.figures.timeline import WAIT, StepTimeline
from simtool.step.ops import Lane
from simtool.units import NS_PER_MS, format_ns

_WIDTH, _LEFT, _RIGHT, _TOP = 1000, 120, 20, 56
_LANE_PX, _GAP_PX = 15, 30
_LANES = (Lane.HOST.value, Lane.PREPARE.value, Lane.COMPUTE.value, Lane.COPY.value)
_STYLE = (
    "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2933}.soft{fill:#52606d}"
    ".title{font-weight:600}@media(prefers-color-scheme:dark){text{fill:#e6eaee}.soft{fill:#a9b4bf}"
    ".path{stroke:#e6eaee}}"
)


def step_picture(steps: Sequence[StepTimeline], title: str) -> str:
    """Return an SVG of the steps below each other on one time axis, with the work on the critical path underlined."""
    longest_ms = max(each.length_ns for each in steps) / NS_PER_MS
    block = len(_LANES) * _LANE_PX + _GAP_PX
    height = _TOP + block * len(steps) + 34
    scale = (_WIDTH - _LEFT - _RIGHT) / longest_ms
    body = [_legend()]
    for place, step in enumerate(steps):
        body += _step(step, _TOP + place * block, scale)
    body += _axis(longest_ms, height - 26, scale)
    size = f'viewBox="0 0 {_WIDTH} {height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
        '<defs><pattern id="wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<line x1="0" y1="0" x2="0" y2="6" stroke="{FAINT}" stroke-width="1.5"/></pattern></defs>'
        f"{''.join(body)}</svg>\n"
    )


def _step(step: StepTimeline, top: float, scale: float) -> list[str]:
    """One step: its name, its lanes, its bars, and the line under what bounds it."""
    row = {lane: top + 16 + place * _LANE_PX for place, lane in enumerate(_LANES)}
    title = f"{step.label}: {format_ns(step.length_ns)}"
    parts = [f'<text class="title" x="{_LEFT}" y="{top + 10:.0f}">{escape(title)}</text>']
    parts += [f'<text class="soft" x="8" y="{y + 10:.0f}">{lane}</text>' for lane, y in row.items()]
    for bar in step.bars:
        fill = "url(#wait)" if bar.kind == WAIT else WORK_COLOURS[bar.kind]
        box = (_LEFT + bar.start_ms * scale, row[bar.lane], max(bar.length_ms * scale, 0.7), _LANE_PX - 4)
        x, y, width, high = (f"{each:.1f}" for each in box)
        told = f"{bar.op}, {bar.start_ms:.3f} to {bar.start_ms + bar.length_ms:.3f} ms"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{high}" fill="{fill}"><title>{told}</title></rect>'
        )
    for lane, begin, end in step.path:
        under = row[lane] + _LANE_PX - 3
        ends = f'x1="{_LEFT + begin * scale:.1f}" x2="{_LEFT + end * scale:.1f}"'
        parts.append(f'<line class="path" {ends} y1="{under:.1f}" y2="{under:.1f}" stroke="{INK}" stroke-width="2"/>')
    return parts


def _legend() -> str:
    parts, x = [], float(_LEFT)
    for kind, colour in {**WORK_COLOURS, WAIT: "url(#wait)"}.items():
        if kind == "other":
            continue
        parts.append(f'<rect x="{x:.0f}" y="8" width="12" height="11" fill="{colour}"/>')
        parts.append(f'<text class="soft" x="{x + 16:.0f}" y="18">{kind}</text>')
        x += 26 + 5.8 * len(kind)
    parts.append(f'<line class="path" x1="{_LEFT}" x2="{_LEFT + 12}" y1="34" y2="34" stroke="{INK}" stroke-width="2"/>')
    parts.append(f'<text class="soft" x="{_LEFT + 16}" y="38">bounds the step (critical path)</text>')
    return "".join(parts)


def _axis(longest_ms: float, y: float, scale: float) -> list[str]:
    every = next(each for each in (0.5, 1, 2, 5, 10, 20, 50, 100, 500) if longest_ms / each <= 12)
    parts = []
    for count in range(int(longest_ms / every) + 1):
        x = _LEFT + count * every * scale
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 5}" stroke="{FAINT}"/>')
        parts.append(f'<text class="soft" x="{x:.1f}" y="{y + 18}" text-anchor="middle">{count * every:g}</text>')
    parts.append(f'<text class="soft" x="{_WIDTH - _RIGHT}" y="{y - 4}" text-anchor="end">ms</text>')
    return parts
