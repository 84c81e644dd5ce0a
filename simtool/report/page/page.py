"""The page: one HTML file that needs nothing from outside. The answer first, then figures, then where it comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from simtool.report.page.provenance import FigureSource
from simtool.version import __version__

_TEMPLATE = Template((Path(__file__).parent / "page.html").read_text())
_CONFIG = {"displayModeBar": False, "responsive": True}


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

    folded: titled tables that open at a touch.
    """

    title: str
    text: str
    figure: go.Figure | None = None
    table: PageTable | None = None
    folded: Sequence[tuple[str, PageTable]] = ()


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
    """Return the page as HTML, plotly.js inlined once; the browser makes no request for it."""
    return _TEMPLATE.substitute(
        title=escape(page.title),
        plotly=get_plotlyjs(),
        headlines="".join(_headline(*each) for each in page.headlines),
        details=_list(page.details, "details"),
        caveats=_list(page.caveats, "caveats"),
        sections="".join(_sections(page.sections)),
        sources=_source_table(page.sources),
        command=escape(page.command),
        version=escape(__version__),
    )


def _headline(text: str, method: str) -> str:
    small = f'<p class="method">{escape(_sentence(method))}</p>' if method else ""
    return f'<p class="answer">{escape(_sentence(text))}</p>{small}'


def _sections(sections: Sequence[Section]) -> Iterator[str]:
    for index, section in enumerate(sections):
        figure = ""
        if section.figure is not None:
            figure = section.figure.to_html(
                full_html=False,
                include_plotlyjs=False,
                config=_CONFIG,
                default_height=f"{section.figure.layout.height}px",
                div_id=f"figure-{index}",
            )
        table = _table(section.table) if section.table is not None else ""
        table += "".join(
            f"<details><summary>{escape(title)}</summary>{_table(folded)}</details>" for title, folded in section.folded
        )
        yield f"<section><h2>{escape(section.title)}</h2><p>{escape(section.text)}</p>{figure}{table}</section>"


def _list(items: Sequence[str], name: str) -> str:
    if not items:
        return ""
    return f'<ul class="{name}">' + "".join(f"<li>{escape(_sentence(item))}</li>" for item in items) + "</ul>"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _source_table(sources: Sequence[FigureSource]) -> str:
    heads = ("Arm", "Tokens/s", "95 % interval", "Trace", "Command", "Hardware", "Models", "Notes")
    rows = [(s.label, s.tokens_per_s, s.error, s.trace, s.command, s.hardware, s.models, s.notes) for s in sources]
    return _table(PageTable(heads, rows, [source.origin for source in sources]))


def _table(table: PageTable) -> str:
    rows = []
    for cells, origin in zip(table.rows, table.origins, strict=True):
        pairs = zip(table.heads, cells, strict=True)
        data = "".join(f'<td data-head="{escape(head)}">{escape(cell)}</td>' for head, cell in pairs)
        rows.append(f'<tr class="{escape(origin)}">{data}</tr>')
    head = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
    kind = "wide" if table.wide else "long"
    return f'<div class="{kind}"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
