"""The page: one HTML file that needs nothing from outside. The answer first, then figures, then where it comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import plotly.graph_objects as go

from simtool.report.page.packing import ALPHABET, LITERAL_BITS, figures_json, packed, packed_plotly
from simtool.report.page.provenance import FigureSource, grouped
from simtool.version import __version__

_TEMPLATE = Template((Path(__file__).parent / "page.html").read_text())
_UNPACK = Template((Path(__file__).parent / "unpack.js").read_text())
_SCRIPT = (Path(__file__).parent / "page.js").read_text()


@dataclass(frozen=True)
class PageTable:
    """Cells as text; the first column names the row. origins: one a row, for its colour.

    wide: many short numbers, which a phone scrolls sideways; else a phone shows a row as a list.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    origins: Sequence[str]
    wide: bool = False


@dataclass(frozen=True)
class Section:
    """A figure or a table and the words that make sense of it; with neither, the words say why there is none.

    folded: titled tables that open at a touch. views: other figures that a slider puts in the place of the first, which
    is among them, each with its name. alt: what the figure shows, for those who cannot see it.
    """

    title: str
    text: str
    figure: go.Figure | None = None
    table: PageTable | None = None
    folded: Sequence[tuple[str, PageTable]] = ()
    views: Sequence[tuple[str, go.Figure]] = ()
    alt: str = ""


@dataclass(frozen=True)
class Page:
    """Everything on the page. headlines: the answer, a sentence and its method a group; caveats: what weakens it."""

    title: str
    headlines: Sequence[tuple[str, str]]
    details: Sequence[str]
    caveats: Sequence[str]
    sections: Sequence[Section]
    sources: Sequence[FigureSource]
    command: str


def render(page: Page) -> str:
    """Return the page as HTML, plotly.js and the figures packed into it; the browser makes no request for them."""
    figures: dict[str, str] = {}
    sections = "".join(_sections(page.sections, figures))
    plotly, drawn = packed_plotly(), packed(figures_json(figures))
    return _TEMPLATE.substitute(
        title=escape(page.title),
        headlines="".join(_headline(*each) for each in page.headlines),
        details=_list(page.details, "details"),
        caveats=_list(page.caveats, "caveats"),
        nav="".join(f'<a href="#{_slug(each.title)}">{escape(each.title)}</a>' for each in page.sections),
        sections=sections,
        sources=_provenance(page.sources),
        command=escape(page.command),
        version=escape(__version__),
        plotly=plotly.letters,
        plotly_bytes=plotly.size,
        figures=drawn.letters,
        figures_bytes=drawn.size,
        script=_UNPACK.substitute(alphabet=ALPHABET, literal_bits=LITERAL_BITS) + _SCRIPT,
    )


def _headline(text: str, method: str) -> str:
    small = f'<p class="method">{escape(_sentence(method))}</p>' if method else ""
    return f'<p class="answer">{escape(_sentence(text))}</p>{small}'


def _sections(sections: Sequence[Section], figures: dict[str, str]) -> Iterator[str]:
    """Yield each section's HTML; its figures go into `figures`, as JSON by the name of their place."""
    for index, section in enumerate(sections):
        figure = ""
        if section.figure is not None:
            place = f"figure-{index}"
            figures[place] = str(section.figure.to_json())
            figures.update({f"{place}-{i}": str(view.to_json()) for i, (_, view) in enumerate(section.views)})
            alt = escape(section.alt or f"{section.title}. {section.text}", quote=True)
            style = f"min-height:{section.figure.layout.height}px"
            drawn = f'<div class="figure" id="{place}" role="img" aria-label="{alt}" style="{style}"></div>'
            figure = _browser(section, place) + drawn
        table = _table(section.table) if section.table is not None else ""
        table += "".join(
            f"<details><summary>{escape(title)}</summary>{_table(folded)}</details>" for title, folded in section.folded
        )
        slug = _slug(section.title)
        title = f'<h2 id="{slug}"><a href="#{slug}">{escape(section.title)}</a></h2>'
        yield f"<section>{title}<p>{escape(section.text)}</p>{figure}{table}</section>"


def _browser(section: Section, place: str) -> str:
    """A slider over the views of a figure; empty where there is one only."""
    if len(section.views) < 2:
        return ""
    names = [name for name, _ in section.views]
    first = next(i for i, (_, view) in enumerate(section.views) if view is section.figure)
    told = escape(json.dumps(names), quote=True)
    ends = f'min="0" max="{len(names) - 1}" value="{first}"'
    slider = f'<input type="range" {ends} data-for="{place}" data-names="{told}">'
    return f'<label class="browse">Show {slider}<output>{escape(names[first])}</output></label>'


def _slug(title: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def _list(items: Sequence[str], name: str) -> str:
    if not items:
        return ""
    return f'<ul class="{name}">' + "".join(f"<li>{escape(_sentence(item))}</li>" for item in items) + "</ul>"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _provenance(sources: Sequence[FigureSource]) -> str:
    """Where the numbers come from: folded, each command once with all of its runs."""
    if not sources:
        return ""
    groups = grouped(sources)
    heads = ("Arms", "Command", "Hardware", "Models", "Notes", "Runs")
    rows = [(g.arms, g.command, g.hardware, g.models, g.notes, g.runs) for g in groups]
    table = _table(PageTable(heads, rows, [group.origin for group in groups]))
    runs, commands = f"{len(sources)} runs" if len(sources) != 1 else "1 run", len({group.command for group in groups})
    told = f"{runs} by {commands} command{'s' if commands != 1 else ''}"
    text = (
        "Live: measured on the hardware named. Modeled: replayed from a recorded trace at measured costs. The interval "
        "of a single run comes from its own steps and cannot see drift between runs."
    )
    return (
        '<section><h2 id="where-the-numbers-come-from">Where the numbers come from</h2>'
        f"<p>{text}</p><details><summary>{told}</summary>{table}</details></section>"
    )


def _table(table: PageTable) -> str:
    rows = []
    for cells, origin in zip(table.rows, table.origins, strict=True):
        pairs = zip(table.heads, cells, strict=True)
        data = "".join(f'<td data-head="{escape(head)}">{escape(cell)}</td>' for head, cell in pairs)
        rows.append(f'<tr class="{escape(origin)}">{data}</tr>')
    head = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
    kind = "wide" if table.wide else "long"
    return f'<div class="{kind}"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
