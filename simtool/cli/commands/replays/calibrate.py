"""`simtool calibrate`: recorded traces -> a cost profile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, OtherModelFlag, OutPath, Traces, check_distinct, check_output
from simtool.cli.shared import console
from simtool.errors import UsageError
from simtool.step.ops import CATALOGUE
from simtool.units import NS_PER_US, format_ns

if TYPE_CHECKING:
    from pathlib import Path

    from simtool.analysis.judged_confidence import JudgedConfidence, PositionReport
    from simtool.cli.documents.of_replays import CalibrateDocument, ConfidenceRecord, PositionQualityRecord
    from simtool.profile.cost import Cost
    from simtool.profile.profile import Profile

#: Kind of step ("" between steps), lane, what, its cost.
_Priced = tuple[str, str, str, "Cost"]

#: Device work -> the stream that runs it, as every other table names it.
_STREAMS = {work.name: work.lane.value for op in CATALOGUE.values() for work in op.works}
_HEADS = (
    "of a decode step, the dearest first; off: mean error on steps kept out of the fit, of the mean (--verbose: "
    "prefill steps, what each cost grows by, R2)"
)


def calibrate(
    traces: Traces,
    out: OutPath = None,
    allow_other_model: OtherModelFlag = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="Also prefill steps, what each cost grows by, and how well that explains.")
    ] = False,
    confidence: Annotated[
        bool,
        typer.Option(
            "--confidence",
            help="Also fit a temperature to the drafter's confidence at each draft position; replays and recordings "
            "that take the profile decide by it.",
        ),
    ] = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Fit what every op costs, pooled over the traces, and write a profile that `simtool replay` takes."""
    path = out or traces[0].with_name(f"{traces[0].name}.profile.json")
    check_output(path, force=force)
    if allow_other_model and len(traces) == 1:
        raise UsageError("--allow-other-model has no effect on one trace; leave it out")
    check_distinct(traces)
    from simtool.analysis.judged_confidence import judge_confidence
    from simtool.calibrate.bootstrap import REFITS
    from simtool.calibrate.fit import calibrate as fit
    from simtool.calibrate.fit import refuse_replays
    from simtool.profile.storage import save_profile
    from simtool.trace.checks.sound import open_sound
    from simtool.trace.trace import open_trace

    command = " ".join(["simtool calibrate", *(trace.name for trace in traces), *["--confidence"] * confidence])
    refuse_replays([open_trace(trace) for trace in traces])
    opened = [open_sound(trace) for trace in traces]
    today = date.today().isoformat()
    name = path.name.split(".")[0]
    profile = fit(opened, name=name, command=command, created=today, refits=REFITS, other_models=allow_other_model)
    judged = judge_confidence(opened) if confidence else None
    if judged is not None:
        profile = replace(profile, temperatures=judged.fit.temperatures)
    save_profile(profile, path)
    if json:
        console.emit(_document(profile, path, judged))
        return
    _print(profile, path, verbose=verbose)
    if judged is not None:
        _print_confidence(judged, verbose=verbose)
    console.after(f"next: simtool advise TRACE --profile {path}")


def _print(profile: Profile, path: Path, *, verbose: bool) -> None:
    from simtool.report.terminal.tables import table

    priced = list(_costs(profile))
    error = held_out_error(profile)
    off = "" if error is None else f"; on steps kept out of the fit each is off by {error * 100:.0f} % in the mean"
    console.say(f"{path} prices {len(priced)} kinds of work on {profile.device_name}{off}", style="bold")
    shown = [each for each in priced if verbose or each[0] != "prefill"]
    shown.sort(key=lambda each: (each[0] == "prefill", -(each[3].quality.mean_ns if each[3].quality else 0.0)))
    rows = [row for each in shown if (row := _row(*each, verbose=verbose))]
    measured = ("n", "mean", "p99", "off")
    columns = ("work", "step", "lane", *measured, "R2", "grows by") if verbose else ("work", "lane", *measured)
    console.show(table("", columns, rows, numbers_from=3 if verbose else 2))
    if not verbose:
        console.after(_HEADS)
    _print_rest(profile)


def _print_rest(profile: Profile) -> None:
    latencies = "; ".join(_latency(*each) for each in _latencies(profile))
    console.after(f"latencies of a decode step, mean us: {latencies}")
    if profile.predictor is not None:
        fitted = profile.predictor
        console.after(
            f"predictor: validate ms = {fitted.intercept_ms:.3f} + {fitted.query_token_ms:.4f} x rows + "
            f"{fitted.query_prefix_ms:.2e} x sum of kv lengths over the rows"
        )
    for warning in profile.provenance.warnings:
        console.after(f"warning: {warning}")


def _print_confidence(judged: JudgedConfidence, *, verbose: bool) -> None:
    from simtool.report.terminal.confidence import confidence_answer, confidence_table, reliability_table

    console.say(confidence_answer(judged), style="bold")
    console.show(confidence_table(judged, whole=verbose))
    if verbose:
        console.show(reliability_table(judged))
    console.after(
        "of the confidence: forecast that the first k drafts are accepted, as it is -> at the temperatures; ECE: "
        "expected calibration error (--verbose: every position, and what came true of forecasts alike)"
    )


def held_out_error(profile: Profile) -> float | None:
    """Return the mean |error| of a decode step's work on blocks kept out of the fit, weighted by its time."""
    known = [
        (quality.mean_ns * quality.n, quality.held_out_error)
        for kind, _, _, cost in _costs(profile)
        if kind == "decode" and (quality := cost.quality) and quality.held_out_error is not None
    ]
    whole = sum(weight for weight, _ in known)
    return sum(weight * error for weight, error in known) / whole if whole else None


def _costs(profile: Profile) -> Iterator[_Priced]:
    """Yield host times and device durations as (kind of step, lane, name, cost)."""
    for kind in ("prefill", "decode"):
        steps = profile.steps(kind)
        for name, host in steps.host.items():
            yield kind, "host", name, host.pre
            if host.post is not None:
                yield kind, "host", f"{name}, waited", host.post
        for name, work in steps.device.items():
            yield kind, "device", name, work.duration
    yield "", "host", "loop_gap", profile.loop_gap


def _latencies(profile: Profile) -> Iterator[tuple[str, list[Cost]]]:
    steps = profile.decode
    yield "host learns of done work", [host.wake for host in steps.host.values() if host.wake]
    yield (
        "idle device starts after the host op",
        [cost for host in steps.host.values() for cost in host.launches.values()],
    )
    yield "busy device takes the next work, after short work", [work.queue for work in steps.device.values()]


def _latency(what: str, costs: list[Cost]) -> str:
    means = [cost.intercept_ns / NS_PER_US for cost in costs]
    return f"{what} {min(means):.1f} to {max(means):.1f}" if means else f"{what}: not seen"


def _row(kind: str, lane: str, name: str, cost: Cost, *, verbose: bool) -> tuple[str, ...] | None:
    quality = cost.quality
    if quality is None:
        return None
    off = "-" if quality.held_out_error is None else f"{quality.held_out_error:.0%}"
    times = format_ns(round(quality.mean_ns)), format_ns(round(quality.p99_ns))
    lane = _STREAMS.get(name, lane) if lane == "device" else lane
    if not verbose:
        return name, lane, str(quality.n), *times, off
    r2 = "-" if quality.r2 is None else f"{quality.r2:.2f}"
    grows = ", ".join(f"{format_ns(slope)}/{feature}" for feature, slope in cost.per_feature_ns.items())
    return name, kind, lane, str(quality.n), *times, off, r2, grows


def _document(profile: Profile, path: Path, judged: JudgedConfidence | None) -> CalibrateDocument:
    from simtool.cli.documents.of_replays import CalibrateDocument, CostRecord
    from simtool.cli.documents.record import document, record

    costs = []
    for kind, lane, name, cost in _costs(profile):
        line = {key: value for key, value in cost.to_dict().items() if key not in ("residuals_ns", "refits")}
        costs.append(record(CostRecord, line, step=kind, lane=lane, what=name))
    told = {"predictor": profile.to_dict()["predictor"], "provenance": profile.provenance}
    known = None if judged is None else _confidence(judged)
    error = held_out_error(profile)
    return document(CalibrateDocument, told, profile=str(path), costs=costs, held_out_error=error, confidence=known)


def _confidence(judged: JudgedConfidence) -> ConfidenceRecord:
    from simtool.cli.documents.of_replays import ConfidenceRecord
    from simtool.cli.documents.record import record

    before, after = ([_position(each) for each in told] for told in (judged.before, judged.after))
    return record(ConfidenceRecord, judged, judged.fit, before=before, after=after)


def _position(told: PositionReport) -> PositionQualityRecord:
    from simtool.cli.documents.of_replays import PositionQualityRecord, ReliabilityRecord
    from simtool.cli.documents.record import record

    quality = told.quality
    return record(
        PositionQualityRecord,
        quality,
        accepted=quality.accepted / quality.blocks,
        forecast=quality.mean_forecast,
        ece=told.ece,
        reliability=[
            ReliabilityRecord(count=each.count, forecast=each.mean_forecast, accepted=each.accepted / each.count)
            for each in told.reliability
        ],
    )
