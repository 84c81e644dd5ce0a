"""`simtool answers`: the questions of the pull request, answered from live traces."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, Traces, check_output
from simtool.cli.shared import console, study
from simtool.cli.shared.opening import open_all
from simtool.errors import UsageError
from simtool.files.writing import check_place, write_text

if TYPE_CHECKING:
    from xllm_2280.answers import TraceAnswers


def answers(
    traces: Traces,
    out: Annotated[Path, typer.Option(help="The document (Markdown).")] = Path("docs/answers.md"),
    page: Annotated[Path | None, typer.Option(help="Also write the figures as an HTML page.")] = None,
    profiles: Annotated[Path, typer.Option(help="Folder for the profiles that the answers use.")]
    = Path("models/profiles"),
    figures: Annotated[Path | None, typer.Option(help="TOML of published figures, for one more machine.")] = None,
    concurrency: Annotated[str, typer.Option(help="Requests at once.")] = "1,8,32,64",
    waves: Annotated[int, typer.Option(help="Requests that each slot serves.")] = 2,
    seeds: Annotated[int, typer.Option(help="Replays of each setting, each with its own noise and refitted costs; 2 or "
                                            "more, for the intervals.")] = 8,
    noise_only: study.NoiseOnly = False,
    stale_loss: Annotated[str, typer.Option(help="Shares of accepted drafts that stale decisions are made to lose, for "
                                                 "the axis of acceptance loss.")] = "0.05,0.1,0.2,0.4",
    jobs: study.Jobs = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Replay live traces on several machines and write what the pull request's claims come to, with intervals.

    Traces of one algorithm, SL and temperature are calibrated together; the one with most outcomes is replayed.
    """
    if seeds < 2:
        raise UsageError(f"--seeds {seeds}: an interval needs 2 or more")
    for path in (*_beside(out), page):
        if path is not None:
            check_output(path, force=force)
    check_place(profiles / "measured.json")
    from xllm_2280.answers import AnswersPlan, answer_traces, group_traces
    from xllm_2280.load import Load
    from xllm_2280.machines import profile_names

    concurrencies = tuple(sorted(study.numbers(concurrency, 1)))
    plan = AnswersPlan(
        concurrencies,
        _ends(concurrencies),
        waves=waves,
        seeds=seeds,
        fit_error=not noise_only,
        losses=_losses(stale_loss),
        processes=study.processes(jobs),
    )
    groups = group_traces(open_all(traces))
    if not groups:
        raise UsageError("none of the traces is a live recording; record some first")
    today = date.today().isoformat()
    names = (name for group in groups for name in profile_names(Load.of(group[0]), figures, today))
    for name in dict.fromkeys(names):  # the figures' machine is one for all groups
        check_output(profiles / f"{name}.json", force=force)
    found = [answer_traces(group, figures, today, plan, console.note, console.progress) for group in groups]
    written = _write(found, out, page, profiles)
    from xllm_2280.page.short import sentence

    if json:
        from simtool.cli.documents.of_studies import AnswersDocument

        console.emit(AnswersDocument(answer=sentence(found), written=[str(path) for path in written]))
    else:
        console.say(sentence(found), style="bold")
        console.line(f"wrote {', '.join(map(str, written))}")


def _beside(out: Path) -> tuple[Path, Path, Path]:
    """The short page, its tables and its picture."""
    return out, out.with_name(f"{out.stem}-tables.md"), out.with_name(f"{out.stem}-grid.svg")


def _losses(text: str) -> tuple[float, ...]:
    losses = tuple(sorted(study.shares(text)))
    if not losses[0]:
        raise UsageError(f"--stale-loss {text}: no loss is always among them; expected shares above 0")
    return losses


def _ends(concurrencies: Sequence[int]) -> tuple[int, ...]:
    """The smallest concurrency and, as the pull request measured at 32, the largest that is not above it."""
    moderate = [c for c in concurrencies if c <= 32] or list(concurrencies)
    return tuple(dict.fromkeys((moderate[0], moderate[-1])))


def _write(found: Sequence[TraceAnswers], out: Path, page: Path | None, profiles: Path) -> list[Path]:
    from simtool import save_profile
    from xllm_2280.figures.winner_grid import winner_grid
    from xllm_2280.page.document import document
    from xllm_2280.page.short import short_page

    written = []
    for machine in {m.profile.name: m for each in found for m in each.machines}.values():
        path = profiles / f"{machine.profile.name}.json"
        save_profile(machine.profile, path)
        written.append(path)
    rebuilt_by = shlex.join(["simtool", *sys.argv[1:]])
    _, tables, picture = _beside(out)
    pages = {
        out: short_page(found, rebuilt_by, tables.name, picture.name),
        tables: document(found, rebuilt_by),
        picture: winner_grid(found),
    }
    for path, text in pages.items():
        write_text(path, text)
        written.append(path)
    if page is not None:
        from simtool.report.page.page import render
        from xllm_2280.page.page import answers_page

        write_text(page, render(answers_page(found, rebuilt_by)))
        written.append(page)
    return written
