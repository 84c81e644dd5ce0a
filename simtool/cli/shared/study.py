"""What the commands that take many replays share: their options, how they open a trace and its costs, and what their
figures rest on.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simtool.cli.numbers import whole_number
from simtool.cli.shared import console
from simtool.cli.shared.costs import costs_for, open_priced
from simtool.cli.shared.policies import placements as policies_named
from simtool.errors import UsageError
from simtool.files.reading import quoted
from simtool.step.ops import CATALOGUE, priced_name
from simtool.step.placement import Placement

if TYPE_CHECKING:
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.profile.profile import Profile
    from simtool.replay.caveats import Caveats
    from simtool.replay.controller_options import ControllerOptions, PredictorChoice
    from simtool.study.runner import Setting
    from simtool.trace.trace import Trace

TraceOfEachSl = Annotated[list[Path], typer.Argument(metavar="TRACE...", help="Traces to replay, one for each SL.")]
TraceArgument = Annotated[Path, typer.Argument(help="The trace whose requests and outcomes are replayed.")]
ProfileOption = Annotated[Path | None, typer.Option(help="Costs; default: calibrated from the trace itself.")]
Concurrency = Annotated[int | None, typer.Option(help="Requests at once; default: the trace's.")]
Concurrencies = Annotated[
    str | None, typer.Option("--concurrency", help="Requests at once, one or several: 1,4,16; default: the trace's.")
]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Change a cost first, as in replay. May be repeated."),
]
Waves = Annotated[
    int | None,
    typer.Option(help="How many requests each slot serves, the trace's cut or queued again; default: the trace once."),
]
Seeds = Annotated[
    int, typer.Option(help="Replays of each placement with noise and refitted costs, for the intervals; 0: no noise.")
]
GridSeeds = Annotated[
    int,
    typer.Option(
        help="Replays of each placement with noise and refitted costs, for the intervals; 0 by default, for a grid is "
        "many replays: 8 gives the intervals of advise and why."
    ),
]
NoiseOnly = Annotated[
    bool,
    typer.Option("--noise-only", help="Intervals of the noise alone, at the fitted costs: not of the fit's error."),
]
Jobs = Annotated[int | None, typer.Option(help="Processes; default: one a core.")]
Predictor = Annotated[
    Literal["trace", "profile", "none"] | None,
    typer.Option(help="Whose validate-time predictor the controller uses; default: the profile's, or the trace's when "
                      "it has none."),
]  # fmt: skip
DraftMs = Annotated[
    float | None,
    typer.Option(help="Draft time the controller assumes; default: the trace's (0 as in xLLM, unless recorded "
                      "otherwise)."),
]  # fmt: skip
FigureOption = Annotated[Path | None, typer.Option(help="Also draw it, into this HTML file.")]

_MOST_IN_LIST, _LONGEST_LIST = 10_000_000, 100
_STEPS = (
    "averaged over decode steps at the full batch, as replay's steady tok/s (its step: over all decode steps), without "
    "the time between steps"
)


def numbers(text: str | None, default: int) -> list[int]:
    """Parse "1,4,16"; raises UsageError on anything else."""
    if text is None:
        return [default]
    try:
        found = [whole_number(part, "a part") for part in text.split(",")]
    except UsageError as error:
        raise UsageError(f"{quoted(text)} is not a list of whole numbers; expected something like 1,4,16") from error
    if max(map(abs, found)) > _MOST_IN_LIST or len(found) > _LONGEST_LIST:
        limits = f"{_LONGEST_LIST} numbers up to {_MOST_IN_LIST:,}"
        raise UsageError(f"{quoted(text)} is beyond reason; expected at most {limits}")
    return list(dict.fromkeys(found))


def shares(text: str) -> list[float]:
    """Parse "0,0.1,0.2"; raises UsageError on anything but shares."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(f"{text!r} is not a list of shares; expected something like 0,0.1,0.2") from error
    if not all(0 <= share <= 1 for share in found):
        raise UsageError(f"{text!r}: expected shares from 0 to 1")
    return list(dict.fromkeys(found))


def processes(jobs: int | None) -> int:
    """Return how many processes to use; None: one a core. Raises UsageError for fewer than one."""
    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs {jobs}: expected 1 or more")
    return jobs or os.cpu_count() or 1


def placements(policies: Sequence[str]) -> list[Placement]:
    """Resolve what --policy names; see `policies.placements`."""
    return policies_named(policies)


def open_trace(
    path: Path,
    profile: Path | None,
    changes: Sequence[str] = (),
    predictor: PredictorChoice | None = None,
    *,
    refits: int = 0,
    allow_other_model: bool = False,
) -> tuple[Trace, Profile]:
    """Open a trace and its costs; see `costs_of`."""
    trace = open_priced(path, profile)
    return trace, costs_of(trace, profile, changes, predictor, refits=refits, allow_other_model=allow_other_model)


def costs_of(
    trace: Trace,
    profile: Path | None,
    changes: Sequence[str] = (),
    predictor: PredictorChoice | None = None,
    *,
    refits: int = 0,
    allow_other_model: bool = False,
) -> Profile:
    """Return a trace's costs, and warn where the controller has no predictor or a change has no say.

    refits: how many draws of the costs are needed, where they are calibrated from the trace; see `refits_for`.
    """
    from simtool.study.runner import controller_of

    costs = costs_for(trace, profile, changes, max(refits, 0), allow_other_model=allow_other_model)
    if predictor != "none" and controller_of(trace, costs, predictor).predictor is None:
        whose = f"the {predictor} has no predictor" if predictor else "no predictor"
        console.after(f"warning: {whose}, so every verify counts 1 ms and pruning gains nothing")
    if any(change.partition("=")[0] == "loop_gap" for change in changes):
        console.after(
            "warning: loop_gap lies between steps, which no figure here counts; replay's whole-run tok/s does"
        )
    return costs


def refits_for(seeds: int, *, noise_only: bool = False) -> int:
    """Return how many refits of a trace's own costs a study prices so many seeds at: no more are fitted."""
    from simtool.calibrate.bootstrap import REFITS

    return 0 if noise_only else max(min(seeds, REFITS), 0)


def draws_of(costs: Profile, seeds: int) -> int:
    """Return how many draws of noise to replay: none where the costs have no noise, for all would be one."""
    return seeds if any(cost.pre.residuals_ns for cost in costs.decode.host.values()) else 0


def check_priced(costs: Profile, placement: Placement, names: Iterable[str] | None = None) -> None:
    """Refuse costs that lack one of these ops of a placement (None: any), before they are varied or replayed.

    What a replay lends to an op from its like is no lack.
    """
    from simtool.profile.ahead_costs import with_ahead_costs

    priced = {priced_name(key) for key in with_ahead_costs(costs).decode.host}
    missing = sorted({op.name for op in placement.ever_runs()}.intersection(names or CATALOGUE) - priced)
    if not missing:
        return
    if "decide" in missing:
        raise UsageError(
            f"profile {costs.name} has no cost of a decision, for static never decides and nothing else was recorded "
            f"for it; to price {placement.name}, record a placement that decides (simtool record --policy this-step), "
            "give a --profile calibrated with one, or say what a decision would cost (--set decide=50us)"
        )
    raise UsageError(
        f"profile {costs.name} has no cost of {', '.join(missing)}, which {placement.name} runs: its recordings never "
        "did; give a --profile calibrated with one that does, or say what it would cost (--set "
        f"{missing[0]}=20us)"
    )


def is_priced(costs: Profile, placement: Placement) -> bool:
    """Whether costs have every op of a placement."""
    try:
        check_priced(costs, placement)
    except UsageError:
        return False
    return True


def basis(settings: Sequence[Setting]) -> str:
    """Say which steps are averaged, whose predictor decides, and what the intervals cover."""
    from simtool.study.full_batch import one_wave

    controllers = dict.fromkeys(each.controller.told(each.source, each.profile) for each in settings)
    notes = filter(None, (one_wave(each.source, each.concurrency) for each in settings))
    return "; ".join([_STEPS, " or ".join(controllers), covered(settings[0]), *dict.fromkeys(notes)])


def controller(predictor: PredictorChoice | None, draft_ms: float | None) -> ControllerOptions:
    """Return what is asked of the controller."""
    from simtool.replay.controller_options import ControllerOptions

    return ControllerOptions(predictor, draft_ms)


def known_live(setting: Setting, placements: Sequence[Placement]) -> KnownLive | None:
    """Return what live runs showed of these placements in this very setting; None: nothing."""
    from simtool.analysis.comparison.judged import known_live as known

    if setting.stale_loss:
        return None
    told = setting.controller.settings(setting.source, setting.profile)
    return known(setting.source, setting.profile, setting.concurrency, told, placements)


def ranges_over(setting: Setting) -> str:
    """Return the word for what an interval of this setting ranges over; see `Over`."""
    from simtool.analysis.comparison.comparison import Over

    if len(setting.seeds) < 2:
        return Over.STEPS
    return Over.DRAWS if setting.refitted else Over.SEEDS


def covered(setting: Setting) -> str:
    """Say what an interval of this setting covers."""
    count = len(setting.seeds)
    if not count:
        return "no noise, at the fitted costs: an interval, where there is one, covers the run's own steps only"
    if count == 1:
        return "one draw of noise" + (" and of refitted costs" if setting.refitted else "") + ": no interval"
    if setting.refitted:
        return (
            f"95 % intervals cover noise and the error of the fit ({count} draws, each with costs refitted to "
            "resampled steps); not other prompts, not what the cost model leaves out"
        )
    why = "--noise-only" if not setting.fit_error else f"{setting.profile.name} holds no refits; calibrate it anew"
    return f"95 % intervals cover noise only ({count} seeds), not the error of the fit: {why}"


def warn(caveats: Caveats, label: str = "", *, verbose: bool = False) -> None:
    """Print what replays warn of, in the words of `simtool replay`. verbose: each cost that was extrapolated."""
    for line in caveats.lines() if verbose else caveats.short():
        console.after(f"warning: {label}{': ' if label else ''}{line}")
