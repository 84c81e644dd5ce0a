"""The controller's validate-time predictor of a live run: timed now, taken from a profile, or none."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from simtool.calibrate.regression import fit_nonnegative
from simtool.engine.serving.probe import probe_grid, probe_validate
from simtool.engine.serving.session import Session
from simtool.errors import UsageError
from simtool.profile.storage import load_profile
from simtool.progress import Say, unsaid
from simtool.step.controller import ControllerSettings, LinearPredictor


def live_predictor(session: Session) -> LinearPredictor:
    """Time validates on the session's device and fit the controller's predictor to them."""
    spec, info = session.spec, session.info
    longest = min(info.max_tokens - info.drafts - 1, spec.kv_blocks * spec.block_size - info.drafts - 1)
    samples = probe_validate(session.device, probe_grid(info.drafts, longest), spec.kv_blocks, spec.block_size)
    columns = np.array([[sample.rows, sample.row_prefixes] for sample in samples], dtype=np.float64)
    line = fit_nonnegative(columns, np.array([sample.validate_ms for sample in samples]))
    return LinearPredictor(*(float(value) for value in line))


def read_predictor(path: Path) -> LinearPredictor:
    """Return the predictor of a calibrated profile; raises ProfileError, UsageError where it has none."""
    predictor = load_profile(path).predictor
    if predictor is None:
        raise UsageError(f"{path}: has no predictor (its validates never varied); calibrate on a run that prunes")
    return predictor


def controller_settings(
    session: Session, predictor: str, draft_ms: float, min_gain: float, say: Say = unsaid
) -> ControllerSettings:
    """Return what the controller knows. predictor: "live" (timed now), "none" or a profile's path.

    draft_ms, min_gain: see `ControllerSettings`. Raises as `read_predictor`, and UsageError for a profile of another
    block length.
    """
    settings = ControllerSettings(None, draft_ms, min_gain)
    if predictor == "none":
        return settings
    if predictor != "live":
        temperatures = load_profile(Path(predictor)).temperatures
        if len(temperatures) not in (0, session.info.drafts):
            raise UsageError(
                f"{predictor}: temperatures of {len(temperatures)} drafts, and a block here has {session.info.drafts}; "
                "calibrate --confidence on a trace of that block length"
            )
        return replace(settings, predictor=read_predictor(Path(predictor)), temperatures=temperatures)
    started = time.perf_counter()
    fitted = live_predictor(session)
    say(
        f"predictor, timed live in {time.perf_counter() - started:.1f} s: validate ms = {fitted.intercept_ms:.3f} + "
        f"{fitted.query_token_ms:.4f} x rows + {fitted.query_prefix_ms:.2e} x row prefixes"
    )
    return replace(settings, predictor=fitted)
