"""`simtool search`: the best legal host orders of a trace, how sure that is, and why they win."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, OtherModelFlag, SimulatorOption, VerboseFlag, check_output
from simtool.cli.shared import console, study
from simtool.errors import UsageError
from simtool.files.writing import write_text

if TYPE_CHECKING:
    from simtool.study.search import OrderCandidates, SearchResult

_CHOSEN = "the best of many is flattered by having been chosen, which no interval here covers"
_PRUNING = (
    "orders that differ only behind read_tokens count as one: the device has nothing left there, each op runs alone"
)


def search(
    trace: study.TraceArgument,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
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
    """Enumerate the legal host orders, replay each, and print the best few with their gain over lag-overlap."""
    if top < 1:
        raise UsageError(f"--top {top}: expected 1 or more")
    if save is not None:
        check_output(save, force=force)
    lags = _lags(lag)
    source, costs = study.open_trace(trace, profile, (), predictor, allow_other_model=allow_other_model)
    concurrencies = study.numbers(concurrency, source.manifest.concurrency)
    from simtool.study.settings import settings_of

    asked = settings_of(source, costs, concurrencies, waves, seeds=seeds, noise_only=noise_only, predictor=predictor)
    settings = [replace(setting, simulator=simulator) for setting in asked]
    from simtool.study.search import order_candidates
    from simtool.study.search import search as find

    tried = order_candidates(settings[0], lags, sync or ())
    results = []
    with console.progress("searching", total=len(tried.placements) * len(settings)) as done:
        for index, setting in enumerate(settings):
            progress = _after(index * len(tried.placements), done)
            results.append(find(setting, tried, top=top, processes=study.processes(jobs), progress=progress))
    if save is not None:  # files first: whoever reads what is printed may stop reading
        _save(results, save)
    _print(tried, results, study.basis(settings), json=json)
    for result in results:
        study.warn(result.caveats, f"concurrency {result.concurrency}", verbose=verbose)


def _after(before: int, done: Callable[[int], None]) -> Callable[[int], None]:
    return lambda count: done(before + count)


def _lags(text: str) -> list[int | None]:
    parts = text.split(",")
    lags = [None if part == "none" else study.numbers(part, 0)[0] for part in parts]
    if not all(lag is None or 0 <= lag <= 8 for lag in lags):
        raise UsageError(f"--lag {text}: expected none or numbers from 0 to 8")
    return list(dict.fromkeys(lags))


def _print(tried: OrderCandidates, results: list[SearchResult], basis: str, *, json: bool) -> None:
    if json:
        console.emit_json([_as_json(tried, result, basis) for result in results])
        return
    from simtool.report.terminal.tables import table
    from simtool.units import format_ns

    for line in tried.unpriced:
        console.note(f"warning: {line}")
    for result in results:
        rows = [
            (
                each.placement.name,
                f"{each.tokens_per_s:.0f}",
                format_ns(each.step_ns),
                _percent(each.gain.ratio),
                each.gain.interval,
                each.why,
            )
            for each in result.best
        ]
        title = f"modeled, concurrency {result.concurrency}; lag-overlap: {result.baseline_tokens_per_s:.0f} tok/s"
        heads = ("order", "steady tok/s", "full-batch step", "over lag-overlap", "95 % interval", "why")
        console.show(table(title, heads, rows))
    for name, order in {each.placement.name: each.placement.order for r in results for each in r.best}.items():
        console.say(f"{name}: {' '.join(map(str, order))}")
    console.note(f"{tried.enumerated} legal orders, {len(tried.placements)} replayed; {_PRUNING}")
    console.note(f"modeled, {basis}; {_CHOSEN}")


def _as_json(tried: OrderCandidates, result: SearchResult, basis: str) -> dict[str, object]:
    best = [
        {**asdict(each), "gain": each.gain.to_dict(), "placement": each.placement.to_dict()} for each in result.best
    ]
    return {
        "origin": "replayed",
        "basis": f"{basis}; {_CHOSEN}",
        "warnings": result.caveats.lines(),
        "concurrency": result.concurrency,
        "enumerated": tried.enumerated,
        "replayed": result.screened,
        "not_tried": list(tried.unpriced),
        "lag_overlap_tokens_per_s": result.baseline_tokens_per_s,
        "best": best,
    }


def _save(results: list[SearchResult], folder: Path) -> None:
    from simtool.step.order_search import to_toml

    for placement in {each.placement.name: each.placement for result in results for each in result.best}.values():
        path = folder / f"{placement.file_stem}.toml"
        write_text(path, to_toml(placement))
        console.note(f"placement written to {path}; run it live: simtool record --policy {path}")


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"
