"""simtool: where in the decode step should the verify-length decision sit, and what does that placement really buy?

Four nouns. A *Trace* is what a run did: requests, steps, rows, events and draft outcomes, in a folder. A *Profile* is
what every op of a step costs on one machine. A *Placement* is the order of the host's work in a step, and how old the
confidence is that the decision reads. A *Scenario* is everything else about a replay: concurrency, arrivals, noise.

    record -> Trace -> calibrate -> Profile;  replay(Trace, Profile, Scenario) -> Trace;  compare, sweep, report

A recording, the same requests under another placement, and what that buys::

    import simtool as st

    trace = st.record("traces/mine", "this-step", st.RecordSettings(every_anchor=True))
    profile = st.own_costs(trace)
    replays = [st.replay(trace, profile, st.scenario(trace, profile, name)) for name in ("static", "lag-overlap")]
    print(st.compare([found.trace() for found in replays]))

In a checkout `st.open_trace("traces/sl7-lag")` opens a recording that ships. `examples/` holds a longer walk, and
`simtool --help` the same on the command line. Names load what they need when they are first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from simtool.version import __version__ as __version__

if TYPE_CHECKING:
    from simtool.analysis.comparison.traces import compare_traces as compare
    from simtool.analysis.metrics import Summary
    from simtool.analysis.metrics import summarise_trace as summarise
    from simtool.calibrate.fit import calibrate as calibrate
    from simtool.engine.models.shipped import choose_models
    from simtool.engine.prompts.source import PromptSource
    from simtool.engine.serving.record import RecordSettings, record
    from simtool.errors import SimtoolError
    from simtool.profile.profile import Profile
    from simtool.profile.proxies import with_proxies
    from simtool.profile.storage import load_profile, save_profile
    from simtool.profile.whatif import with_changes
    from simtool.replay.as_recorded import own_costs, scenario
    from simtool.replay.controller_options import ControllerOptions
    from simtool.replay.replay import Replay
    from simtool.replay.replay import replay as replay
    from simtool.replay.scenario import Arrivals, Scenario
    from simtool.report.page.report import report as report
    from simtool.step.placement import BUILT_IN as PLACEMENTS
    from simtool.step.placement import Placement, load_placement
    from simtool.study.sweep_traces import sweep_traces as sweep
    from simtool.trace.trace import Trace, open_trace

__all__ = [
    "PLACEMENTS",
    "Arrivals",
    "ControllerOptions",
    "Placement",
    "Profile",
    "PromptSource",
    "RecordSettings",
    "Replay",
    "Scenario",
    "SimtoolError",
    "Summary",
    "Trace",
    "calibrate",
    "choose_models",
    "compare",
    "load_placement",
    "load_profile",
    "open_trace",
    "own_costs",
    "record",
    "replay",
    "report",
    "save_profile",
    "scenario",
    "summarise",
    "sweep",
    "with_changes",
    "with_proxies",
]

#: Public name -> its module, and its name there where that differs.
_HOMES = {
    "PLACEMENTS": "simtool.step.placement:BUILT_IN",
    "Arrivals": "simtool.replay.scenario",
    "ControllerOptions": "simtool.replay.controller_options",
    "Placement": "simtool.step.placement",
    "Profile": "simtool.profile.profile",
    "PromptSource": "simtool.engine.prompts.source",
    "RecordSettings": "simtool.engine.serving.record",
    "Replay": "simtool.replay.replay",
    "Scenario": "simtool.replay.scenario",
    "SimtoolError": "simtool.errors",
    "Summary": "simtool.analysis.metrics",
    "Trace": "simtool.trace.trace",
    "calibrate": "simtool.calibrate.fit",
    "choose_models": "simtool.engine.models.shipped",
    "compare": "simtool.analysis.comparison.traces:compare_traces",
    "load_placement": "simtool.step.placement",
    "load_profile": "simtool.profile.storage",
    "open_trace": "simtool.trace.trace",
    "own_costs": "simtool.replay.as_recorded",
    "record": "simtool.engine.serving.record",
    "replay": "simtool.replay.replay",
    "report": "simtool.report.page.report",
    "save_profile": "simtool.profile.storage",
    "scenario": "simtool.replay.as_recorded",
    "summarise": "simtool.analysis.metrics:summarise_trace",
    "sweep": "simtool.study.sweep_traces:sweep_traces",
    "with_changes": "simtool.profile.whatif",
    "with_proxies": "simtool.profile.proxies",
}


class _Api(ModuleType):
    """The package: public names are loaded at first use.

    Three of them (calibrate, replay, report) are also names of rooms. Importing a room would put the module in the
    place of the function; it is found by its full name in any import statement, so here the function stays.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, _, original = _HOMES[name].partition(":")
        value: object = getattr(import_module(module), original or name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *__all__})


sys.modules[__name__].__class__ = _Api
