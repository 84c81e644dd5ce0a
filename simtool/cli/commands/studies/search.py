"""`simtool search`: the best legal host orders of a trace, how sure that is, and why they win."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.analysis.comparison.headline import BASELINE
from simtool.cli.options import (
    FINDING,
    ForceFlag,
    JsonFlag,
    OtherModelFlag,
    SimulatorOption,
    VerboseFlag,
    check_controller,
    check_output,
)
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import modeled_on
from simtool.cli.shared.differences import as_record, as_records
from simtool.errors import UsageError
from simtool.files.writing import write_text
from simtool.step.placement import NAMED, PULL_REQUEST_ARMS

if TYPE_CHECKING:
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.cli.documents.of_studies import SearchedRecord
    from simtool.study.search import OrderCandidates, RankedOrder, SearchResult

_NOTHING = 0.0005
_CHOSEN = "the best of many is flattered by having been chosen, which no interval here covers"
_PRUNING = (
    "orders that differ only behind read_tokens count as one: the device has nothing left there, each op runs alone"
)


def search(
    trace: study.TraceArgument,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    concurrency: study.Concurrencies = None,
    lag: Annotated[str, typer.Option(help="Ages of the confidence to search: none (static), 0 (this-step), 1 to 8.")]
    = "none,0,1",
    sync: Annotated[list[str] | None, typer.Option(help="An op that blocks wherever an order runs it, such as "
                                                        "fill_varlen, or 'launch_verify|-' for pruned steps only; may "
                                                        "be repeated.")] = None,
    top: Annotated[int, typer.Option(help="How many orders to keep.")] = 3,
    seeds: study.Seeds = 8,
    noise_only: study.NoiseOnly = False,
    waves: study.Waves = None,
    save: Annotated[Path | None, typer.Option(help="Folder for the best orders as placement files, which record and "
                                                   "replay take as --policy.")] = None,
    jobs: study.Jobs = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Enumerate the legal host orders, replay each, and print the best few with their gain over static.

    Exit 1 when some orders could not be tried, for the costs lack an op.
    """
    if top < 1:
        raise UsageError(f"--top {top}: expected 1 or more")
    if save is not None:
        check_output(save, force=force)
    lags = _lags(lag)
    refits = study.refits_for(seeds, noise_only=noise_only)
    source, costs = study.open_trace(trace, profile, (), predictor, refits=refits, allow_other_model=allow_other_model)
    concurrencies = study.numbers(concurrency, source.manifest.concurrency)
    from simtool.study.settings import settings_of

    asked = settings_of(
        source,
        costs,
        concurrencies,
        waves,
        seeds=seeds,
        noise_only=noise_only,
        controller=study.controller(predictor, draft_ms),
    )
    settings = [replace(setting, simulator=simulator) for setting in asked]
    from simtool.report.terminal.live_first import live_first
    from simtool.study.search import order_candidates
    from simtool.study.search import search as find

    tried = order_candidates(settings[0], lags, sync or (), baseline=NAMED[BASELINE])
    check_controller(tried.placements, {"--predictor": predictor, "--draft-ms": draft_ms})
    results = []
    from simtool.study.settings import expect

    screens = [(replace(setting, seeds=()), len(tried.placements)) for setting in settings]
    known = expect([*screens, *((setting, top + 1) for setting in settings)], study.processes(jobs))
    with console.progress("searching", total=len(tried.placements) * len(settings), expected=known) as done:
        for index, setting in enumerate(settings):
            progress = _after(index * len(tried.placements), done)
            results.append(find(setting, tried, top=top, processes=study.processes(jobs), progress=progress))
    if save is not None:  # files first: whoever reads what is printed may stop reading
        _save(results, save)
    basis = f"{study.basis(settings)}; {_CHOSEN}"
    named = [NAMED[name] for name in PULL_REQUEST_ARMS]
    lives = [study.known_live(setting, named) for setting in settings]
    if json:
        from simtool.cli.documents.of_studies import SearchDocument

        searched = [_as_record(tried, result, live) for result, live in zip(results, lives, strict=True)]
        console.emit(SearchDocument(origin="replayed", basis=basis, searched=searched))
    else:
        modeled = modeled_on(costs, source)
        opening = [
            f"{live_first(live, _as_named(result.best[0]))}{modeled}"
            for result, live in zip(results, lives, strict=True)
        ]
        _print(tried, results, opening, verbose=verbose)
        console.after(f"modeled, {basis}")
    for result in results:
        study.warn(result.caveats, f"concurrency {result.concurrency}", verbose=verbose)
    for line in tried.unpriced:
        console.after(line)
    if tried.unpriced:
        raise typer.Exit(FINDING)


def _after(before: int, done: Callable[[int], None]) -> Callable[[int], None]:
    return lambda count: done(before + count)


def _lags(text: str) -> list[int | None]:
    parts = text.split(",")
    lags = [None if part == "none" else study.numbers(part, 0)[0] for part in parts]
    if not all(lag is None or 0 <= lag <= 8 for lag in lags):
        raise UsageError(f"--lag {text}: expected none or numbers from 0 to 8")
    return list(dict.fromkeys(lags))


def _as_named(best: RankedOrder) -> dict[str, float]:
    """What the best order gives over static, under the names of those that were run live and decide on the same age."""
    named = (NAMED[name] for name in PULL_REQUEST_ARMS)
    return {each.name: best.gain.ratio for each in named if each.lag_steps == best.placement.lag_steps}


def _print(tried: OrderCandidates, results: list[SearchResult], opening: Sequence[str], *, verbose: bool) -> None:
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    for result, opened in zip(results, opening, strict=True):
        best = result.best[0]
        console.say(f"{opened}, concurrency {result.concurrency}: {_answer(tried, best)}", style="bold")
        if not _is_baseline(tried, best):
            console.say(f"  because {best.why}")
    rows = [
        (
            each.placement.name,
            str(result.concurrency),
            f"{each.tokens_per_s:,.0f}",
            format_ns(each.step_ns),
            f"{(each.gain.ratio - 1) * 100:+.1f} %",
            each.gain.ends,
        )
        for result in results
        for each in result.best
    ]
    over = results[0].best[0].gain.over
    heads = ("order", "conc", "tok/s", "step (full)", "gain", f"95 % over {over}")
    console.show(table("", heads, rows))
    named = {each.placement.name: each for result in results for each in result.best}
    for index, (name, each) in enumerate(named.items()):
        if verbose or not index:
            console.say(f"the host's order in {name}: {' '.join(map(str, each.placement.order))}")
        if verbose:
            console.say(f"  {each.why}")
    console.after(
        f"{tried.enumerated} legal orders, {len(tried.placements)} replayed; {_PRUNING}; --verbose shows "
        "every order kept"
    )


def _is_baseline(tried: OrderCandidates, best: RankedOrder) -> bool:
    return best.placement.order == tried.baseline.order and best.placement.lag_steps == tried.baseline.lag_steps


def _answer(tried: OrderCandidates, best: RankedOrder) -> str:
    """The best order against the baseline, as a sentence."""
    if _is_baseline(tried, best):
        return f"keep {tried.baseline.name}, none of {tried.enumerated} legal host orders gives more tokens/s"
    if abs(best.gain.ratio - 1) < _NOTHING:
        return f"{best.placement.name} leads, and gains nothing over {tried.baseline.name}"
    return f"{best.gain.verdict}; {best.placement.name} is the best of {tried.enumerated} legal host orders"


def _as_record(tried: OrderCandidates, result: SearchResult, live: KnownLive | None) -> SearchedRecord:
    from simtool.cli.documents.of_studies import RankedRecord, SearchedRecord
    from simtool.cli.documents.record import record

    best = [
        record(RankedRecord, each, placement=each.placement.to_dict(), gain=as_record(each.gain))
        for each in result.best
    ]
    return record(
        SearchedRecord,
        tried,
        result,
        replayed=result.screened,
        not_tried=tried.unpriced,
        baseline=tried.baseline.name,
        best=best,
        live=as_records(live),
        warnings=result.caveats.lines(),
    )


def _save(results: list[SearchResult], folder: Path) -> None:
    from simtool.step.order_search import to_toml

    for placement in {each.placement.name: each.placement for result in results for each in result.best}.values():
        path = folder / f"{placement.file_stem}.toml"
        write_text(path, to_toml(placement))
        console.after(f"placement written to {path}; run it live: simtool record --policy {path}")
