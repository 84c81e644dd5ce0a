"""`simtool calibrate`: recorded traces -> a cost profile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from simtool.cli.options import ForceFlag, JsonFlag, OtherModelFlag, OutPath, Traces, check_distinct, check_output
from simtool.cli.shared import console
from simtool.errors import UsageError
from simtool.units import NS_PER_US, format_ns

if TYPE_CHECKING:
    from simtool.profile.cost import Cost
    from simtool.profile.profile import Profile


def calibrate(
    traces: Traces,
    out: OutPath = None,
    allow_other_model: OtherModelFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:
    """Fit what every op costs, pooled over the traces, and write a profile that `simtool replay` takes."""
    path = out or traces[0].with_name(f"{traces[0].name}.profile.json")
    check_output(path, force=force)
    if allow_other_model and len(traces) == 1:
        raise UsageError("--allow-other-model has no effect on one trace; leave it out")
    check_distinct(traces)
    from simtool.calibrate.fit import REFITS
    from simtool.calibrate.fit import calibrate as fit
    from simtool.profile.storage import save_profile
    from simtool.trace.checks.sound import open_sound

    command = " ".join(["simtool calibrate", *(trace.name for trace in traces)])
    opened = [open_sound(trace) for trace in traces]
    today = date.today().isoformat()
    name = path.name.split(".")[0]
    profile = fit(opened, name=name, command=command, created=today, refits=REFITS, other_models=allow_other_model)
    save_profile(profile, path)
    if json:
        console.emit_json(_as_json(profile, path))
    else:
        _print(profile)
        console.note(f"profile written to {path}")


def _print(profile: Profile) -> None:
    from simtool.report.terminal.tables import table

    rows = [row for each in _costs(profile) if (row := _row(*each))]
    columns = ("step", "lane", "what", "grows by", "n", "mean us", "p99 us", "R2", "held-out error")
    console.show(table(f"{profile.name}: {profile.device_name}", columns, rows, numbers_from=4))
    console.say("latencies of a decode step, mean us: " + "; ".join(_latency(*each) for each in _latencies(profile)))
    if profile.predictor is not None:
        fitted = profile.predictor
        console.say(
            f"predictor: validate ms = {fitted.intercept_ms:.3f} + {fitted.query_token_ms:.4f} x rows + "
            f"{fitted.query_prefix_ms:.2e} x sum of kv lengths over the rows"
        )
    for warning in profile.provenance.warnings:
        console.note(f"warning: {warning}")


def _costs(profile: Profile) -> Iterator[tuple[str, str, str, Cost]]:
    """Yield host times and device durations as (kind of step, lane, name, cost)."""
    for kind in ("prefill", "decode"):
        steps = profile.steps(kind)
        for name, host in steps.host.items():
            yield kind, "host", name, host.pre
            if host.post is not None:
                yield kind, "host", f"{name}, after its wait", host.post
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


def _row(kind: str, lane: str, name: str, cost: Cost) -> tuple[str, ...] | None:
    quality = cost.quality
    if quality is None:
        return None
    r2 = "-" if quality.r2 is None else f"{quality.r2:.2f}"
    held_out = "-" if quality.held_out_error is None else f"{quality.held_out_error:.1%}"
    grows = ", ".join(f"{format_ns(slope)}/{feature}" for feature, slope in cost.per_feature_ns.items())
    times = (f"{quality.mean_ns / NS_PER_US:.1f}", f"{quality.p99_ns / NS_PER_US:.1f}")
    return kind, lane, name, grows, str(quality.n), *times, r2, held_out


def _as_json(profile: Profile, path: Path) -> dict[str, object]:
    whole = profile.to_dict()
    costs = []
    for kind, lane, name, cost in _costs(profile):
        line = {key: value for key, value in cost.to_dict().items() if key not in ("residuals_ns", "refits")}
        costs.append({"step": kind, "lane": lane, "what": name, **line})
    return {"profile": str(path), "predictor": whole["predictor"], "provenance": whole["provenance"], "costs": costs}
