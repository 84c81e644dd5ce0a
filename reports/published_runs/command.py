"""`simtool validate --published`: every prediction beside what was published, and the page."""

from __future__ import annotations

from dataclasses import asdict
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
        told = [
            {
                **{key: value for key, value in asdict(each).items() if key != "spread"},
                "spread": None if each.spread is None else asdict(each.spread),
                "verdict": each.verdict.value,
                "sign_holds": each.sign_holds,
            }
            for each in study.predictions
        ]
        console.emit_json({"headline": headline(study), "predictions": told})
        return
    console.say(headline(study), style="bold")
    for source in dict.fromkeys(each.source for each in study.predictions):
        rows = [tuple(map(words.plain, words.row(each))) for each in study.of(source)]
        console.show(table(source, words.HEADS, rows, numbers_from=2))
    if out is not None:
        console.note(f"page written to {out}")
