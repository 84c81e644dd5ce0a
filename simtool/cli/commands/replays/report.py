"""`simtool report`: one self-contained page about one trace or more."""

from __future__ import annotations

from pathlib import Path

from simtool.cli.commands.replays.compare import Baseline
from simtool.cli.options import ForceFlag, JsonFlag, OutPath, Traces, check_output, command_line
from simtool.cli.shared import console
from simtool.cli.shared.opening import open_all


def report(
    traces: Traces,
    out: OutPath = None,
    baseline: Baseline = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Write an HTML page that opens anywhere, offline: the answer, the figures, where every number comes from."""
    target = out if out is not None else Path("reports") / f"{traces[0].resolve().name}.html"
    check_output(target, force=force)
    opened = open_all(traces)

    from simtool.report.page.build import STAGES
    from simtool.report.page.report import report as write

    with console.progress("reporting", total=STAGES) as done:
        page = write(opened, target, baseline=baseline, force=force, command=command_line(), progress=done)
    if json:
        from simtool.cli.documents.of_replays import ReportDocument

        answer = [text for text, _ in page.headlines]
        console.emit(ReportDocument(report=str(target), answer=answer, caveats=list(page.caveats)))
    else:
        for headline, _ in page.headlines:
            console.line(headline)
        console.line(f"wrote {target}")
