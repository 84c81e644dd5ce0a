"""simtool on the same calibration runs: one profile for each block length, and a replay for each arm."""

from __future__ import annotations

from functools import cache

import simtool as st
from benchmarks.peers.live import BASELINE, Said, Setting, said_of
from simtool.replay.scenario import Scenario, recorded_controller


def predict(setting: Setting, arm: str) -> Said:
    """Replay an arm on the requests of the setting's static run, at costs of the calibration runs alone.

    The controller is the judged run's own: what it is told of costs is a setting, not a measurement of that run.
    """
    source, manifest = setting.trace(BASELINE), setting.trace(arm).manifest
    scenario = Scenario(st.PLACEMENTS[arm], manifest.concurrency, recorded_controller(manifest))
    return said_of(st.replay(source, _profile(setting), scenario).trace())


@cache
def _profile(setting: Setting) -> st.Profile:
    return st.with_proxies(st.calibrate(setting.calibration.runs, name=f"sl{setting.sl}", created="", refits=0))
