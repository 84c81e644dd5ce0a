"""A colour grid of who wins where, as SVG for a page that runs no script: a row a machine and SL, a column a load."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from xllm_2280.answers import TraceAnswers

#: As in the study's other figures; grey: a tie.
_COLOURS = {
    "static": "#0072B2",
    "this-step": "#E69F00",
    "lag": "#009E73",
    "lag-in-place": "#56B4E9",
    "lag-overlap": "#CC79A7",
    "lag-overlap-late": "#D55E00",
    "lag-overlap-index": "#5c6773",
}
_TIE = "#c3cad1"
_CELL, _HIGH, _LEFT, _TOP = 150, 34, 230, 30


def winner_grid(answers: Sequence[TraceAnswers]) -> str:
    """Return the SVG."""
    concurrencies = sorted({region.concurrency for each in answers for region in each.regions})
    rows = [(each, machine.profile.name) for each in answers for machine in each.machines]
    width, height = _LEFT + _CELL * len(concurrencies) + 10, _TOP + _HIGH * len(rows) + 10
    body = [
        f'<text x="{_LEFT + (place + 0.5) * _CELL}" y="20" text-anchor="middle">{concurrency} at once</text>'
        for place, concurrency in enumerate(concurrencies)
    ]
    for down, (each, profile) in enumerate(rows):
        y = _TOP + down * _HIGH
        body.append(f'<text x="8" y="{y + 21}">{escape(profile)}, SL {each.load}</text>')
        for region in each.regions:
            if region.profile != profile:
                continue
            x = _LEFT + concurrencies.index(region.concurrency) * _CELL
            colour = _TIE if region.tied else _COLOURS.get(region.winner, "#5c6773")
            lead = (region.lead.ratio - 1) * 100
            told = "tie" if region.tied else f"{region.winner} +{lead:.1f} %"
            ink = "#1f2933" if region.tied or region.winner in ("this-step", "lag-in-place") else "#ffffff"
            size = f'width="{_CELL - 4}" height="{_HIGH - 4}" rx="4"'
            body.append(f'<rect x="{x + 2}" y="{y + 2}" {size} fill="{colour}"/>')
            body.append(
                f'<text x="{x + _CELL / 2}" y="{y + 21}" text-anchor="middle" style="fill:{ink}">{escape(told)}</text>'
            )
    style = (
        "text{font:13px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#1f2933}"
        "@media(prefers-color-scheme:dark){text{fill:#e6eaee}}"
    )
    title = "Which placement is fastest, by machine, SL and requests at once; grey: a tie"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title><style>{style}</style>{''.join(body)}</svg>\n"
    )
