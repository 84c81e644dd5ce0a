"""`simtool validate --published`: every prediction beside what was published, and the page."""

from __future__ import annotations

from pathlib import Path

from simtool.cli.shared import console
from simtool.files.writing import write_text

_PROFILES = Path(__file__).parents[2] / "models" / "profiles"


def published(out: Path | None, *, json: bool) -> None:
    """Print predicted, published and whether the published spread covers it; out: the page, in Markdown."""
    from published_runs import words
    from published_runs.document import document, headline
    from published_runs.study import run_study
    from published_runs.tables import PUBLISHED
    from simtool.report.terminal.tables import table

    study = run_study(PUBLISHED, _PROFILES, console.note)
    if out is not None:
        write_text(out, document(study))
    if json:
        from simtool.cli.documents.of_replays import PredictionRecord, PublishedDocument
        from simtool.cli.documents.record import record

        told = [
            record(PredictionRecord, each, verdict=each.verdict, sign_holds=each.sign_holds)
            for each in study.predictions
        ]
        console.emit(PublishedDocument(headline=headline(study), predictions=told))
        return
    console.say(headline(study), style="bold")
    for source in dict.fromkeys(each.source for each in study.predictions):
        rows = [words.short_row(each) for each in study.of(source)]
        console.show(table(source, words.SHORT_HEADS, rows, numbers_from=2))
    if out is not None:
        console.after(f"page written to {out}")
