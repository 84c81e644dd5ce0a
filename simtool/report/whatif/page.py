"""The what-if page: one HTML file that asks for nothing, with what was replayed in it and the step rule as a script."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path
from string import Template

from simtool.analysis.comparison.comparison import Comparison
from simtool.analysis.comparison.headline import BASELINE
from simtool.files.writing import write_text
from simtool.report.page.packing import ALPHABET, LITERAL_BITS, packed
from simtool.report.whatif.grid import WhatIfGrid, grid_json
from simtool.report.whatif.model import Json, step_model
from simtool.version import __version__

TITLE = "What would a step be worth at other costs, or in another order?"
#: The page's scripts in the order in which they stand; the first four know nothing of a page.
SCRIPTS = (
    "step.js",
    "prices.js",
    "order.js",
    "path.js",
    "timeline.js",
    "words.js",
    "dragging.js",
    "reckon.js",
    "show.js",
    "controls.js",
    "page.js",
)
_HERE = Path(__file__).parent
_UNPACK = Template((Path(__file__).parents[1] / "page" / "unpack.js").read_text())


@dataclass(frozen=True)
class WhatIfPage:
    """answer: the first line of the page as it opens; html: the file."""

    answer: str
    html: str

    def write(self, path: Path) -> None:
        """Write the file whole, over one that is there."""
        write_text(path, self.html)


def script(name: str) -> str:
    """Return one of SCRIPTS."""
    return (_HERE / name).read_text()


def what_if_page(
    grids: Sequence[WhatIfGrid],
    opens_with: str,
    *,
    command: str,
    progress: Callable[[int], None] = lambda _done: None,
) -> WhatIfPage:
    """Make the page of grids, one an SL, each with the baseline among its placements.

    opens_with: the placement that it shows first, at the first grid's last concurrency. command: what made the page,
    for its foot. progress: hears how many of the grids' settings are done. Raises as a replay does.
    """
    first = grids[0]
    setting = first.settings[-1]
    counted = count(1)
    made = [grid_json(grid, lambda: progress(next(counted))) for grid in grids]
    comparison = first.against_baseline(setting, opens_with)
    answer = answer_text(opens_with, setting.concurrency, setting.source.manifest.sl, comparison)
    model = {
        **step_model([placement for grid in grids for placement in grid.placements]),
        "baseline": BASELINE,
        "start": {"sl": 0, "concurrency": len(first.settings) - 1, "placement": opens_with},
        "grids": made,
    }
    return WhatIfPage(answer, _html(model, answer, comparison, command))


def _html(model: Json, answer: str, comparison: Comparison | None, command: str) -> str:
    data = packed(json.dumps(model, allow_nan=False, separators=(",", ":")))
    return Template((_HERE / "page.html").read_text()).substitute(
        title=escape(TITLE),
        style=(_HERE / "page.css").read_text(),
        answer=escape(answer),
        method=escape(_method(comparison)),
        version=escape(__version__),
        command=escape(command),
        model=data.letters,
        model_bytes=data.size,
        unpack=_UNPACK.substitute(alphabet=ALPHABET, literal_bits=LITERAL_BITS),
        script="".join(map(script, SCRIPTS)),
    )


def _method(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    if comparison.found.bounds is None:
        return f"No interval: {comparison.method}."
    moved = "" if comparison.repetitions > 1 else "; of the placement as it stands, and moved along with your changes"
    return f"95 % interval: {comparison.method}{moved}."


def answer_text(name: str, concurrency: int, sl: int, comparison: Comparison | None) -> str:
    """Return the first line, in the words of words.js."""
    far = f", {comparison.extrapolation.opening}" if comparison and comparison.extrapolation else ""
    where = f"modeled{far}: {name} at concurrency {concurrency} and SL {sl}"
    if comparison is None:
        return f"{where} is what the others are compared with"
    ratio, bounds = comparison.ratio, comparison.found.bounds
    size = f"{_percent(ratio)} % {'more' if ratio >= 1 else 'fewer'} tokens/s"
    if bounds is None:
        return f"{where}: {size} than {comparison.baseline} (no interval)"
    if comparison.spans:
        low, high = (f"{'-' if end < 1 else '+'}{_percent(end)} %" for end in bounds)
        return f"{where}: cannot be told from {comparison.baseline}: {size} ({low} to {high})"
    ends = sorted(map(_percent, bounds), key=float)
    return f"{where}: {size} than {comparison.baseline} ({' to '.join(ends)})"


def _percent(ratio: float) -> str:
    return f"{abs(ratio - 1) * 100:.1f}"
