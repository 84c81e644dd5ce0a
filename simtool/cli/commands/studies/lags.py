"""`simtool lags`: what an older confidence costs in acceptance, and how long a confidence stays worth reading."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import JsonFlag, OtherModelFlag, check_controller
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import modeled_on
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.analysis.staleness import Persistence, Staleness
    from simtool.cli.documents.of_studies import LagsDocument
    from simtool.study.staleness import StalenessStudy

#: The kind that is every request.
ALL = "all"
_MOST_KINDS = 5  # kinds of prompt that have room beside the lags

_BASIS = (
    "over all decode steps; tokens only: no op's cost enters, but the predictor by which the controller prunes does; "
    "{controller}; intervals: over requests"
)


def lags(
    trace: study.TraceArgument,
    lag: Annotated[str, typer.Option(help="Lags to compare with lag 0.")] = "1,2,3",
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also by draft position, and how alike confidences of a request are.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Print the acceptance lost against the lag, by prompt kind and by draft position, and the autocorrelation."""
    from simtool.study.staleness import placement_at, staleness_study

    check_controller([placement_at(0)], {"--predictor": predictor, "--draft-ms": draft_ms})
    source, costs = study.open_trace(trace, profile, (), predictor, allow_other_model=allow_other_model)
    lags = study.numbers(lag, 1)
    if source.manifest.origin == "imported" and not source.columns("rows", "confidence")["confidence"].count():
        raise UsageError(
            f"{trace}: {source.manifest.engine} logged no confidence, so none of any age can be compared; log each "
            "draft's (docs/step-log.md)"
        )
    study.check_priced(costs, placement_at(0), ["decide"])
    controller = study.controller(predictor, draft_ms)
    found = staleness_study(source, costs, lags, controller)
    basis = _BASIS.format(controller=controller.told(source, costs))
    if json:
        console.emit(_document(found, basis))
    else:
        _print(found.effects, found.persistence, modeled_on(costs, source), verbose=verbose)
        console.after(f"modeled, {basis}")
    study.warn(found.caveats)


def _document(found: StalenessStudy, basis: str) -> LagsDocument:
    from simtool.cli.documents.of_studies import LagRecord, LagsDocument, PersistenceRecord
    from simtool.cli.documents.record import record

    return LagsDocument(
        origin="replayed",
        basis=basis,
        effects=[record(LagRecord, effect) for effect in found.effects],
        persistence=[record(PersistenceRecord, each) for each in found.persistence],
        warnings=found.caveats.lines(),
    )


def _print(effects: Sequence[Staleness], persistent: Sequence[Persistence], modeled: str, *, verbose: bool) -> None:
    from simtool.report.terminal.tables import table

    lags = list(dict.fromkeys(effect.lag for effect in effects))
    kinds = list(dict.fromkeys(effect.kind for effect in effects))
    of = {(effect.lag, effect.kind): effect for effect in effects}
    console.say(f"{modeled}: {_answer([of[lag, ALL] for lag in lags if lag])}", style="bold")
    columns = [kind for kind in kinds if kind != ALL] if len(kinds) <= _MOST_KINDS or verbose else []
    rows = []
    for lag in lags:
        whole = of[lag, ALL]
        cells = (str(lag), f"{whole.acceptance_length:.2f}", _rate(whole), f"{whole.loss.mean:.1%}")
        ends = whole.loss.text("{:.1%}".format) if lag else "-"
        rows.append((*cells, ends, *(f"{of[lag, kind].loss.mean:.1%}" for kind in columns)))
    heads = ("lag", "accept", "rate", "lost", "95 % over requests", *columns)
    console.show(table("", heads, rows))
    console.after("accept: acceptance length; rate: drafts accepted of those verified; lost: of the tokens of a step")
    if verbose:
        _print_details(effects, persistent)


def _answer(effects: Sequence[Staleness]) -> str:
    """What each lag costs, in one sentence."""
    if not effects:
        return "no lag was asked for but 0, which costs nothing"
    told = [
        f"{'gains' if each.loss.mean < 0 else 'costs'} {abs(each.loss.mean):.1%} at lag {each.lag} "
        f"(lost: {each.loss.text('{:.1%}'.format)})"
        for each in effects
    ]
    sure = [each for each in effects if each.loss.side()]
    doubt = "" if len(sure) == len(effects) else "; where the interval holds 0 it cannot be told"
    return f"of the tokens of a step an older confidence {', '.join(told)}{doubt}"


def _print_details(effects: Sequence[Staleness], persistent: Sequence[Persistence]) -> None:
    from simtool.report.terminal.tables import table

    rows = [
        (
            *(effect.kind, str(effect.lag), _rate(effect), f"{effect.unfresh / effect.sequence_steps:.0%}"),
            " ".join(f"{count / effect.sequence_steps:.2f}" for count in effect.accepted_at),
        )
        for effect in effects
    ]
    heads = ("prompts", "lag", "rate", "not fresh", "accept draft 1, 2, ...")
    console.show(table("by kind of prompt and draft position", heads, rows, numbers_from=1))
    alike = [
        (str(each.distance), str(each.pairs), _number(each.correlation), " ".join(map(_number, each.auc)))
        for each in persistent
    ]
    columns = ("steps apart", "pairs", "correlation", "AUC of the older forecast, by position")
    console.show(table("confidence between steps of a request", columns, alike))


def _rate(effect: Staleness) -> str:
    return "-" if effect.acceptance_rate is None else f"{effect.acceptance_rate:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
