"""`simtool lags`: what an older confidence costs in acceptance, and how long a confidence stays worth reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import JsonFlag, OtherModelFlag
from simtool.cli.shared import console, study

if TYPE_CHECKING:
    from simtool.analysis.staleness import Persistence, Staleness

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
    json: JsonFlag = False,
) -> None:
    """Print the acceptance lost against the lag, by prompt kind and by draft position, and the autocorrelation."""
    from simtool.study.staleness import placement_at, staleness_study

    source, costs = study.open_trace(trace, profile, (), predictor, allow_other_model=allow_other_model)
    lags = study.numbers(lag, 1)
    study.check_priced(costs, placement_at(0), ["decide"])
    found = staleness_study(source, costs, lags, predictor)
    basis = _BASIS.format(controller=study.controller(source, costs, predictor))
    if json:
        effects_json = [_as_json(effect) for effect in found.effects]
        told = {"basis": basis, "warnings": found.caveats.lines()}
        console.emit_json(
            {**told, "effects": effects_json, "persistence": [asdict(each) for each in found.persistence]}
        )
    else:
        _print(found.effects, found.persistence)
        console.note(f"modeled, {basis}")
    study.warn(found.caveats)


def _as_json(effect: Staleness) -> dict[str, object]:
    loss = {"loss": effect.loss.mean, "low": effect.loss.low, "high": effect.loss.high}
    return {"origin": "replayed", **asdict(effect), **loss}


def _print(effects: Sequence[Staleness], persistent: Sequence[Persistence]) -> None:
    from simtool.report.terminal.tables import table

    rows = [
        (
            effect.kind,
            str(effect.lag),
            f"{effect.acceptance_length:.3f}",
            "-" if effect.acceptance_rate is None else f"{effect.acceptance_rate:.3f}",
            f"{effect.unfresh / effect.sequence_steps:.0%}",
            f"{effect.loss.mean:+.2%}",
            effect.loss.text("{:+.2%}".format),
            " ".join(f"{count / effect.sequence_steps:.2f}" for count in effect.accepted_at),
        )
        for effect in effects
    ]
    heads = (
        "prompts",
        "lag",
        "acceptance length",
        "acceptance rate",
        "not fresh",
        "lost",
        "95 % interval",
        "accept draft 1, 2, ...",
    )
    console.show(table("modeled: acceptance against the lag", heads, rows, numbers_from=2))
    alike = [
        (str(each.distance), str(each.pairs), _number(each.correlation), " ".join(map(_number, each.auc)))
        for each in persistent
    ]
    columns = ("steps apart", "pairs", "correlation", "AUC of the older forecast, by position")
    console.show(table("confidence between steps of a request", columns, alike))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
