"""Where a replay's costs come from: a profile's file, or the trace itself, with what-if changes on top."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from simtool.cli.options import command_name
from simtool.cli.shared import console
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.profile.profile import Profile
    from simtool.replay.caveats import Caveats
    from simtool.trace.trace import Trace


def open_priced(path: Path, profile: Path | None) -> Trace:
    """Open a sound trace to replay; one that would need costs of its own and cannot give them is refused unread."""
    from simtool.calibrate.fit import refuse_replays
    from simtool.trace.checks.sound import open_sound
    from simtool.trace.trace import open_trace

    if profile is None:
        refuse_replays([open_trace(path)])
    return open_sound(path)


def costs_for(
    source: Trace, path: Path | None, changes: Sequence[str], refits: int = 0, *, allow_other_model: bool = False
) -> Profile:
    """Load the profile, or calibrate one from the trace and say so; then apply the changes (NAME=VALUE) in order.

    Ops that the recordings never ran borrow the cost of a similar op; whatever replays such an op says so.
    refits: of a calibrated profile. Raises ProfileError when the profile is of other models than the trace, unless they
    are allowed.
    """
    from simtool.analysis.comparison.noise import foreign_load
    from simtool.profile.proxies import with_proxies
    from simtool.profile.storage import load_profile
    from simtool.profile.whatif import with_changes

    if path is not None:
        profile = _of_same_models(load_profile(path), path, source, allow_other=allow_other_model)
    elif allow_other_model:
        raise UsageError("--allow-other-model has no effect without --profile; leave it out")
    else:
        from simtool.replay.as_recorded import own_costs  # the regression, which a given profile does without

        profile = own_costs(source, command=command_name(), refits=refits)
        console.after(f"costs: calibrated from {source.path.name} itself; --profile takes others")
        if warning := foreign_load([source]).warning:
            console.after(f"warning: {warning}, which its costs hold")
        for warning in profile.provenance.warnings:
            console.after(f"warning: {warning}")
    return with_changes(with_proxies(profile), changes)


def modeled_on(profile: Profile, source: Trace, caveats: Caveats | None = None) -> str:
    """Return what a verdict of replays opens with: "modeled", and on whose machine where that is not the trace's.

    caveats: of an answer that no comparison makes, which would say itself how far costs were extrapolated.
    """
    from simtool.analysis.comparison.extrapolation import extrapolation

    same = profile.device_name == source.manifest.device_name
    whose = "modeled" if same else f"modeled at the costs of another machine, {profile.name}"
    far = extrapolation(caveats.beyond) if caveats is not None else None
    return f"{whose}, {far.opening}" if far is not None else whose


def _of_same_models(profile: Profile, path: Path, source: Trace, *, allow_other: bool) -> Profile:
    """Return the profile, with what is to be said of its models among its warnings."""
    from simtool.profile.models import check_models

    models = (path.name, profile.models), (source.path.name, source.manifest.models)
    warning = check_models(*models, allow_other=allow_other)
    if warning is None:
        return profile
    console.after(f"warning: {warning}")
    return replace(profile, provenance=profile.provenance.warned(warning))
