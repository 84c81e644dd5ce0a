"""The controller's validate-time predictor, fitted to recorded steps (xLLM's form, system page section 5)."""

from __future__ import annotations

import numpy as np
import polars as pl

from simtool.calibrate.regression import fit_line
from simtool.step.controller import LinearPredictor
from simtool.trace.trace import Trace
from simtool.units import NS_PER_MS

#: A validate is the target forward and the verify behind it: both grow with what the controller decides.
_VALIDATE = ("target", "verify")
_NO_SIZES = pl.DataFrame(schema={"step": pl.Int32, "rows": pl.Int64, "row_kv": pl.Int64})
_NO_DURATIONS = pl.DataFrame(schema={"step": pl.Int32, "duration_ns": pl.Int64})


def fit_predictor(traces: list[Trace]) -> LinearPredictor | None:
    """Fit validate ms = intercept + sum over rows of (query_token + query_prefix x kv length), none below zero.

    None when the number of validate rows never varied: then nothing tells the cost of a row from the intercept.
    """
    table = pl.concat([_validates(trace) for trace in traces])
    if table["rows"].n_unique() < 2:
        return None
    columns = table.select("rows", "row_kv").to_numpy().astype(np.float64)
    intercept, token, prefix = fit_line(columns, table["duration_ns"].to_numpy() / NS_PER_MS)
    return LinearPredictor(float(intercept), float(token), float(prefix))


def _validates(trace: Trace) -> pl.DataFrame:
    """One line a decode step: validate rows, the kv lengths summed over them, device ns."""
    width = pl.col("prefix_len").cast(pl.Int64) + 1
    sizes = [
        rows.group_by("step").agg(rows=width.sum(), row_kv=(width * pl.col("kv_len")).sum())
        for rows in trace.stretches("rows", "step", "prefix_len", "kv_len")
    ]
    durations = [
        events.filter(pl.col("op").is_in(_VALIDATE) & (pl.col("lane") == "compute"))
        .group_by("step")
        .agg(duration_ns=(pl.col("end_ns") - pl.col("start_ns")).sum())
        for events in trace.stretches("events", "step", "op", "lane", "start_ns", "end_ns")
    ]
    of_steps = pl.concat([_NO_SIZES, *sizes]).join(pl.concat([_NO_DURATIONS, *durations]), on="step")
    return of_steps.sort("step").select("rows", "row_kv", "duration_ns")
