"""A replay like the recording: its own costs, its own concurrency and controller, until something is asked for."""

from __future__ import annotations

from dataclasses import replace

from simtool.calibrate.fit import calibrate
from simtool.profile.profile import Profile
from simtool.profile.proxies import with_proxies
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.profiling.step_table import with_step_table
from simtool.replay.scenario import Scenario, recorded_controller
from simtool.step.placement import Placement, resolve_placement
from simtool.trace.trace import Trace

_AS_RECORDED = ControllerOptions()


def own_costs(source: Trace, *, command: str = "simtool.own_costs", refits: int = 0) -> Profile:
    """Calibrate a profile from the trace itself, with its controller's predictor where it ran with one.

    Ops that it never ran borrow the cost of a similar op, which the profile's provenance names. command, refits: see
    `calibrate`. Raises ProfileError for a replay, TraceError for a trace without steps to fit.
    """
    profile = calibrate([source], command=command, refits=refits)
    recorded = recorded_controller(source.manifest).predictor
    return with_proxies(replace(profile, predictor=recorded or profile.predictor))


def scenario(
    source: Trace,
    profile: Profile,
    placement: Placement | str,
    *,
    concurrency: int | None = None,
    controller: ControllerOptions = _AS_RECORDED,
) -> Scenario:
    """Return the scenario that replays a trace under a placement, all else as recorded.

    placement: one, its name, or a TOML file of it. concurrency: default: the trace's. controller: what it knows besides
    what was recorded; its predictor is the profile's where that has one. `dataclasses.replace` changes the rest:
    arrivals, noise, seed, the size of the KV cache.
    """
    plain = Scenario(
        placement=resolve_placement(placement) if isinstance(placement, str) else placement,
        concurrency=source.manifest.concurrency if concurrency is None else concurrency,
        controller=controller.settings(source, profile),
    )
    return with_step_table(source, profile, plain, controller)
