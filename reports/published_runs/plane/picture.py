"""The plane as SVG: a panel a machine, a cell a text, coloured by who wins, with what theory says and known pairs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from published_runs.plane.grid import AUTOCORRELATIONS, DECISIONS, LENGTHS, ROWS, Cell
from published_runs.plane.pairs import CostRatio, Pair

#: Between those of the pairs that ship; of published pairs nobody tells it.
ASSUMED_AUTOCORRELATION = 0.87
_COLOURS = {"static": "#0072B2", "this-step": "#E69F00", "lag": "#009E73", None: "#c3cad1"}
_CELL, _GAP, _LEFT, _TOP = 34, 60, 96, 114
_WIDE, _HIGH = _CELL * len(AUTOCORRELATIONS), _CELL * len(LENGTHS)
_TITLE = "Who is fastest by acceptance, autocorrelation and costs; squares: replayed, dots in them: theory"


def picture(cells: Sequence[Cell], shipped: Sequence[Pair], published: Sequence[Pair]) -> str:
    """Return the SVG."""
    width = _LEFT + len(ROWS) * (_WIDE + _GAP)
    height = _TOP + len(DECISIONS) * (_HIGH + _GAP)
    body = [_legend()]
    for down, decision in enumerate(DECISIONS):
        for across, rows in enumerate(ROWS):
            x, y = _LEFT + across * (_WIDE + _GAP), _TOP + down * (_HIGH + _GAP)
            mine = [cell for cell in cells if (cell.costs.rows, cell.costs.decision) == (rows, decision)]
            title = f"rows {rows:.0%} of a step, decision {decision:.0%}".replace("%", " %")
            body.append(f'<text x="{x}" y="{y - 8}">{escape(title)}</text>')
            body += [_square(cell, x, y) for cell in mine]
            body += _axes(x, y)
            body += [_pair(pair, x, y) for pair in shipped if pair.autocorrelation is not None]
            body += [_tick(pair, x, y) for pair in published if pair.costs is None]
            here = [each for each in published if each.costs is not None and panel_of(each.costs, decision) == rows]
            body += [_span(pair, x, y) for pair in here]
    style = (
        "text{font:12px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2933}"
        "@media(prefers-color-scheme:dark){text{fill:#e6eaee}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{_TITLE}">'
        f"<title>{_TITLE}</title><style>{style}</style>{''.join(body)}</svg>\n"
    )


def _square(cell: Cell, x: float, y: float) -> str:
    left = x + AUTOCORRELATIONS.index(cell.text.autocorrelation) * _CELL
    top = y + _HIGH - (LENGTHS.index(cell.text.accept_length) + 1) * _CELL
    middle = f'cx="{left + _CELL / 2:g}" cy="{top + _CELL / 2:g}"'
    return (
        f'<rect x="{left + 1:g}" y="{top + 1:g}" width="{_CELL - 2}" height="{_CELL - 2}" rx="3" '
        f'fill="{_COLOURS[cell.winner]}"/>'
        f'<circle {middle} r="4" fill="{_COLOURS[cell.theory.winner]}" stroke="#ffffff" stroke-width="1"/>'
    )


def _axes(x: float, y: float) -> list[str]:
    below = [
        f'<text x="{x + (place + 0.5) * _CELL:g}" y="{y + _HIGH + 14:g}" text-anchor="middle">{value:g}</text>'
        for place, value in enumerate(AUTOCORRELATIONS)
    ]
    beside = [
        f'<text x="{x - 8:g}" y="{y + _HIGH - (place + 0.5) * _CELL + 4:g}" text-anchor="end">{value:g}</text>'
        for place, value in enumerate(LENGTHS)
    ]
    return below + beside


def _pair(pair: Pair, x: float, y: float) -> str:
    assert pair.autocorrelation is not None
    place = f'cx="{_across(pair.autocorrelation, x):.1f}" cy="{_down(pair.accept_length, y):.1f}"'
    told = f"{pair.name}: accept length {pair.accept_length:.2f}, autocorrelation {pair.autocorrelation:.2f}"
    return f'<circle {place} r="6" fill="none" stroke="#111111" stroke-width="2"><title>{escape(told)}</title></circle>'


def panel_of(
    costs: CostRatio, decision: float, rows: Sequence[float] = ROWS, decisions: Sequence[float] = DECISIONS
) -> float | None:
    """Return the share of rows of the panel, in the row of panels of a decision, that is nearest; None: not in it.

    A pair whose decision nobody tells is in every one.
    """
    told = costs.decision
    if told is not None and min(decisions, key=lambda each: abs(each - told)) != decision:
        return None
    return min(rows, key=lambda each: abs(each - costs.rows))


def _span(pair: Pair, x: float, y: float) -> str:
    """A published pair in the panel of its costs: a line, for its autocorrelation may be any, and a diamond on it."""
    assert pair.costs is not None
    down = _down(pair.accept_length, y)
    across = (
        x + (float(np.interp(ASSUMED_AUTOCORRELATION, AUTOCORRELATIONS, range(len(AUTOCORRELATIONS)))) + 0.5) * _CELL
    )
    told = (
        f"{pair.name}: accept length {pair.accept_length:.2f}, rows {pair.costs.rows:.0%} of a step (published); "
        f"autocorrelation {ASSUMED_AUTOCORRELATION:g} (assumed)"
    )
    points = " ".join(f"{across + dx:.1f},{down + dy:.1f}" for dx, dy in ((0, -6), (6, 0), (0, 6), (-6, 0)))
    return (
        f'<line x1="{x:g}" x2="{x + _WIDE:g}" y1="{down:.1f}" y2="{down:.1f}" stroke="#CC79A7" stroke-width="1.5" '
        f'stroke-dasharray="4 3"/><polygon points="{points}" fill="#CC79A7" stroke="#111111" stroke-width="1.5">'
        f"<title>{escape(told)}</title></polygon>"
    )


def _tick(pair: Pair, x: float, y: float) -> str:
    right, down = x + _WIDE + 2, _down(pair.accept_length, y)
    told = f"{pair.name}: accept length {pair.accept_length:.2f}, autocorrelation not published"
    return (
        f'<line x1="{right:g}" x2="{right + 10:g}" y1="{down:.1f}" y2="{down:.1f}" stroke="#CC79A7" stroke-width="2">'
        f"<title>{escape(told)}</title></line>"
    )


def _across(autocorrelation: float, x: float) -> float:
    return x + (float(np.interp(autocorrelation, AUTOCORRELATIONS, range(len(AUTOCORRELATIONS)))) + 0.5) * _CELL


def _down(length: float, y: float) -> float:
    return y + _HIGH - (float(np.interp(length, LENGTHS, range(len(LENGTHS)))) + 0.5) * _CELL


def _legend() -> str:
    parts = []
    for place, (name, colour) in enumerate(_COLOURS.items()):
        x = _LEFT + place * 110
        parts.append(f'<rect x="{x}" y="12" width="16" height="16" rx="3" fill="{colour}"/>')
        parts.append(f'<text x="{x + 22}" y="25">{name or "tie"}</text>')
    told = (
        "squares: replayed; dots in them: theory; rings: shipped pairs; ticks at the right: published without costs",
        "diamonds: published accept length and share of rows, autocorrelation assumed (it may be any: dashes)",
        "across: autocorrelation of the confidence; up: accept length of a full-width step",
    )
    lines = "".join(f'<text x="{_LEFT}" y="{48 + 18 * line}">{text}</text>' for line, text in enumerate(told))
    return "".join(parts) + lines
