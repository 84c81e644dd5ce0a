"""Host time against device time of a step, and a machine whose balance is another."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from simtool import PLACEMENTS, Profile, replay
from simtool.profile.scaling import scaled
from simtool.step.ops import Lane
from simtool.study.runner import Setting, simulator_of

_LATENCY = 0.1  # of the CPU device's pipe between two processes, which no accelerator has


def host_over_device(setting: Setting) -> float:
    """Return busy host time over busy device time in the decode steps of lag-overlap, waits left out."""
    placement = PLACEMENTS["lag-overlap"]
    scenario = replace(setting, seeds=()).scenarios(placement)[0]
    trace = replay(setting.source, setting.profile, scenario, simulator=simulator_of(setting, placement))
    decode = trace.tables["steps"].filter(pl.col("kind") == "decode")["step"]
    events = trace.tables["events"].filter(pl.col("step").is_in(decode.implode()))
    waited = (pl.col("wait_end_ns") - pl.col("wait_start_ns")).fill_null(0)
    busy = events.group_by(pl.col("lane") == Lane.HOST.value).agg(
        ns=(pl.col("end_ns") - pl.col("start_ns") - waited).sum()
    )
    by_side = dict(busy.iter_rows())
    return float(by_side[True] / by_side[False])


def balanced(setting: Setting, ratio: float, name: str) -> Profile:
    """Return the setting's profile with device work scaled until the host is busy `ratio` times as long as it.

    Host costs stay as measured. Latencies shrink to a tenth: those of the CPU device are the price of a pipe.
    """
    factor = host_over_device(setting) / ratio
    return scaled(setting.profile, name, device=factor, latency=_LATENCY)
