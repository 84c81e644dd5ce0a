"""`simtool replay`: a recorded trace under other placements, at calibrated costs; or other requests in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from simtool.analysis.comparison.headline import BASELINE
from simtool.cli.commands.replays.bounded import check_predictor
from simtool.cli.options import (
    ForceFlag,
    JsonFlag,
    OtherModelFlag,
    SimulatorOption,
    TimeUnitOption,
    VerboseFlag,
    check_controller,
)
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import costs_for, modeled_on, open_priced
from simtool.cli.shared.policies import ALL
from simtool.cli.shared.policies import placements as resolved
from simtool.cli.shared.replay_report import ReplayReport
from simtool.cli.shared.replaying import Outputs, Replays
from simtool.cli.shared.summary import arrived_over_time
from simtool.errors import UsageError
from simtool.step.placement import NAMED, Placement, with_lag
from simtool.units import TimeUnit

if TYPE_CHECKING:
    from simtool.analysis.comparison.against_run import AgainstRun
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.cli.shared.replaying import Replayed
    from simtool.profile.profile import Profile
    from simtool.replay.controller_options import ControllerOptions
    from simtool.replay.scenario import Arrivals, Scenario, SimulatorChoice
    from simtool.replay.workload import Workload
    from simtool.step.controller import ControllerSettings
    from simtool.trace.trace import Trace


def replay(
    trace: study.TraceArgument,
    policy: Annotated[list[str], typer.Option(help="A placement's name, a .toml file, or all (static, this-step, "
                                                   "lag, lag-overlap); may be repeated.")],
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    change: Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="What if: decide=0, "
                      "fill_varlen=x0.5, build_varlen=+200us, device.target=4ms, unsync=fill_varlen. May be "
                      "repeated.")] = None,
    concurrency: study.Concurrency = None,
    lag: Annotated[int | None, typer.Option(help="Age of the confidence in steps, for those of the placements that "
                         "have a lag.")] = None,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    min_gain: Annotated[float | None, typer.Option(help="Relative gain a longer prefix must bring; default: the "
                                                        "trace's.")] = None,
    requests: Annotated[Path | None, typer.Option(help="Serve the requests of this request trace (a file, or the "
                         "folder of an imported one), with outcomes bootstrapped by request from the trace.")] = None,
    time_unit: TimeUnitOption = None,
    num_requests: Annotated[int | None, typer.Option(help="The first so many of --requests; default: all.")] = None,
    arrivals: Annotated[str | None, typer.Option(help="closed, trace, trace:RATE (that spacing, at so many requests a "
                         "second), or poisson:RATE; default: closed, with --requests trace.")] = None,
    outcomes: Annotated[Literal["strict", "resample"], typer.Option(help="strict: refuse an anchor that the trace "
                         "lacks; resample: substitute a near one, and say how many.")] = "strict",
    noise: Annotated[Literal["none", "residual"], typer.Option(help="residual: resampled fit residuals, alike under "
                         "every placement; several --seeds draw the costs too, as in the studies.")] = "none",
    noise_only: study.NoiseOnly = False,
    seed: Annotated[int | None, typer.Option(help="Seed of noise, Poisson arrivals and bootstrapped outcomes; default "
                                                  "0.")] = None,
    seeds: Annotated[int, typer.Option(help="Replays of each placement, under so many seeds from --seed on: gives "
                                            "intervals; 1 by default, for one replay is one trace.")] = 1,
    kv_blocks: Annotated[int | None, typer.Option(help="KV cache blocks; default: the trace's, grown with the "
                                                       "concurrency.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the replayed traces, one each, named after trace, "
                                                  "placement and seed; default: nothing is written.")] = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Run the recorded requests again on the simulated machine, in another order, and print what it buys.

    Every placement is compared with static, which is replayed besides where it was not asked for.
    """
    placements, chosen = _placements(policy, lag), _seeds(seed, seeds)
    check_controller(placements, {"--predictor": predictor, "--draft-ms": draft_ms, "--min-gain": min_gain})
    outputs = Outputs(out, trace.name, chosen, force) if out else None
    if outputs:
        outputs.check(placements)
    from simtool.calibrate.bootstrap import REFITS
    from simtool.profile.whatif import check_effect, with_changes
    from simtool.replay.controller_options import ControllerOptions
    from simtool.replay.scenario import Scenario

    source = open_priced(trace, profile)
    draws = noise == "residual" and seeds > 1 and not noise_only
    refits = min(chosen[-1] + 1, REFITS) if draws else 0
    unchanged = costs_for(source, profile, [], refits, allow_other_model=allow_other_model)
    costs = with_changes(unchanged, change or [])
    check_effect(costs, change or [], placements)
    if noise_only and not (noise == "residual" and seeds > 1):
        raise UsageError("--noise-only has no effect without --noise residual and several --seeds; leave it out")
    if change and all(each.partition("=")[0] == "loop_gap" for each in change):
        console.after("--set loop_gap changes whole-run tok/s, TPOT and TTFT only: steady tok/s and step end before it")
    asked = ControllerOptions(predictor, draft_ms, min_gain)
    base = Scenario(
        placement=placements[0],
        concurrency=source.manifest.concurrency if concurrency is None else concurrency,
        controller=_controller(source, costs, placements, asked),
        arrivals=_arrivals(arrivals or ("closed" if requests is None else "trace")),
        outcomes=outcomes,
        noise=noise,
        seed=chosen[0],
        kv_blocks=kv_blocks,
    )
    seeded = seed is not None or seeds > 1
    if seeded:
        _check_seeds(source, base, requests)
    workload = _workload(source, base, _read(requests, num_requests, time_unit), redraw=seeded)
    if base.arrivals.kind == "trace":
        _check_spacing(arrivals, source, workload if requests is not None else None)
    replays = Replays(
        source=source,
        costs=costs,
        base=base,
        placements=placements,
        seeds=chosen,
        workload=workload,
        lenient=ALL in policy,
        refitted=_refitted(costs, chosen) if draws else False,
        simulator=_simulator(simulator, chosen),
        added=_baseline_besides(placements, source),
        asked=asked,
    )
    found = replays.run(outputs)
    report = ReplayReport(
        found=found,
        # where a change gives an op its first cost, there is nothing without it
        without=replace(replays, costs=unchanged, lenient=True).run(None) if change else None,
        changes=change or [],
        about=asked.told(source, costs) if any(placement.decides for placement in placements) else "",
        modeled=modeled_on(costs, source),
        live=_known_live(source, costs, base, placements, as_recorded=workload is None),
        asked=[placement.name for placement in placements],
        run=None if workload or change else _against_run(source, costs, found),
    )
    report.show(json=json, verbose=verbose)


def _against_run(source: Trace, costs: Profile, found: Replayed) -> AgainstRun | None:
    """The order that the source ran in, replayed, held against it."""
    from simtool.analysis.comparison.against_run import against_run

    runs = {name: [line.run for line in lines] for name, lines in found.lines.items()}
    return against_run(source, costs.device_name, runs)


def _known_live(
    source: Trace, costs: Profile, base: Scenario, placements: Sequence[Placement], *, as_recorded: bool
) -> KnownLive | None:
    """What live runs showed of these placements under this load: the trace's own requests, in a closed loop."""
    from simtool.analysis.comparison.judged import known_live

    if not as_recorded or base.arrivals.kind != "closed":
        return None
    return known_live(source, costs, base.concurrency, base.controller, placements)


def _baseline_besides(placements: Sequence[Placement], source: Trace) -> Placement | None:
    """The baseline where it is not among the placements: of a run that kept its drafts, the order that it had."""
    from simtool.trace.importers.recorded_order import recorded_order

    own = recorded_order(source)
    baseline = own if own is not None and own.keeps_drafts else NAMED[BASELINE]
    return None if {baseline.name, BASELINE} & {placement.name for placement in placements} else baseline


def _refitted(costs: Profile, seeds: range) -> bool:
    """Whether the seeds draw costs; said where the profile has none to draw from."""
    if not costs.refits:
        console.after(f"{costs.name} holds no refits, so the interval leaves out the error of the fit")
        return False
    if seeds[-1] >= costs.refits:
        raise UsageError(
            f"seed {seeds[-1]}: profile {costs.name} holds {costs.refits} refits of its costs; ask for fewer seeds, or "
            "--noise-only"
        )
    return True


def _simulator(asked: SimulatorChoice | None, seeds: range) -> SimulatorChoice:
    from simtool.replay.compiled.kernel import default_simulator

    return asked or (default_simulator() if len(seeds) > 1 else "simpy")


def _seeds(first: int | None, count: int) -> range:
    if count < 1:
        raise UsageError(f"--seeds is {count}; expected 1 or more")
    return range(first or 0, (first or 0) + count)


def _check_seeds(source: Trace, base: Scenario, requests: Path | None) -> None:
    if requests is None and base.noise == "none" and base.arrivals.kind != "poisson" and not _sampled(source):
        raise UsageError(
            "--seed and --seeds have no effect where nothing is random; leave them out, or add --requests, --noise "
            "residual or --arrivals poisson:RATE"
        )


def _check_spacing(arrivals: str | None, source: Trace, asked: Workload | None) -> None:
    """Refuse a trace's arrivals where there are none to tell of, and the replay would be the closed loop's.

    asked: what is served instead of the trace's own requests. arrivals: as asked for; nobody asked: then it is told.
    """
    if asked is not None:
        spaced = len({request.arrival_ns for request in asked.requests}) > 1
        why = f"the requests of {asked.source} come all at once, as in a closed loop"
    else:
        spaced = arrived_over_time(source)
        why = f"{source.path.name} is a closed loop, all its requests were queued before its first step"
    if not spaced and arrivals is None:
        console.after(f"{why}; poisson:RATE would spread them")
    elif not spaced:
        raise UsageError(f"--arrivals {arrivals}: {why}; leave it out, or give poisson:RATE")


def _sampled(source: Trace) -> bool:
    return not source.manifest.settled


def _read(requests: Path | None, limit: int | None, unit: TimeUnit | None) -> Workload | None:
    from simtool.replay.workload import read_workload

    if requests is not None:
        return read_workload(requests, limit, unit)
    for option, value in (("--num-requests", limit), ("--time-unit", unit)):
        if value is not None:
            raise UsageError(f"{option} has no effect without --requests; leave it out")
    return None


def _workload(source: Trace, base: Scenario, asked: Workload | None, *, redraw: bool) -> Workload | None:
    """What is served instead of the trace's requests as recorded. redraw: sampled outcomes, one draw, are redrawn."""
    from simtool.replay.workload import recorded_workload

    if asked is not None:
        return asked.fitted(source, base)
    return recorded_workload(source) if redraw and _sampled(source) else None


def _placements(policies: list[str], lag: int | None) -> list[Placement]:
    placements = resolved(policies)
    if lag is None:
        return placements
    lagged = _at_lag(placements, lag)
    if len({placement.name for placement in lagged}) < len(lagged):
        raise UsageError(f"--lag {lag} makes two of the placements one; give one of them")
    return lagged


def _at_lag(placements: list[Placement], lag: int) -> list[Placement]:
    """Give the lag placements another lag; say which others keep theirs."""
    others = [placement.name for placement in placements if not placement.lag_steps]
    if len(others) == len(placements):
        raise UsageError(f"--lag has no effect on {', '.join(others)}; leave it out, or add a lag placement")
    if lag < 1:
        raise UsageError(f"--lag is {lag}; expected 1 or more (the confidence of age 0 is --policy this-step)")
    if others:
        console.after(f"--lag {lag} does not touch {', '.join(others)}: no older confidence is read there")
    return [with_lag(placement, lag) if placement.lag_steps else placement for placement in placements]


def _controller(
    source: Trace, profile: Profile, placements: list[Placement], options: ControllerOptions
) -> ControllerSettings:
    """What the controller knows; without a predictor that is warned of, where something decides, or for a run of
    another engine refused.
    """
    if source.manifest.origin == "imported":
        check_predictor(source, profile, options.predictor, placements)
    settings = options.settings(source, profile)
    if settings.predictor is None and options.predictor != "none" and any(each.decides for each in placements):
        whose = options.choice(profile)
        console.after(f"warning: the {whose} has no predictor, so every verify counts 1 ms and pruning gains nothing")
    return settings


def _arrivals(text: str) -> Arrivals:
    from simtool.replay.scenario import ArrivalKind, Arrivals

    kind, colon, rate = text.partition(":")
    expected = UsageError(f"--arrivals is {text!r}; expected closed, trace, trace:RATE or poisson:RATE")
    if kind not in get_args(ArrivalKind):
        raise expected
    try:
        return Arrivals(kind, float(rate) if colon else None)  # type: ignore[arg-type]  # checked above
    except ValueError as error:
        raise expected from error
