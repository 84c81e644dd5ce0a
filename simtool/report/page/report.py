"""The report: traces -> one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from simtool.errors import UsageError
from simtool.files.writing import write_text
from simtool.report.page.build import build_page
from simtool.report.page.page import Page, render
from simtool.trace.trace import Trace


def report(
    traces: Sequence[Trace],
    out: Path | str,
    *,
    baseline: str | None = None,
    force: bool = False,
    command: str = "simtool.report",
    progress: Callable[[int], None] = lambda _done: None,
) -> Page:
    """Write a page about one trace or more that opens anywhere, offline, and return what it says.

    baseline: a placement's name; None takes static, else this-step, else the first. command: what made the page, for
    its foot. progress: hears how many of `build.STAGES` stages are done. Raises UsageError when `out` is there already
    and force is not given, or the baseline is not among the traces.

    >>> print(report([open_trace("a"), open_trace("b")], "page.html").headlines)  # doctest: +SKIP
    """
    target = Path(out)
    if (target.is_file() or target.is_dir()) and not force:  # a device or a pipe is written through
        raise UsageError(f"{target} is already there; force replaces it, or choose another name")
    page = build_page(traces, command, baseline, progress)
    write_text(target, render(page))
    return page
