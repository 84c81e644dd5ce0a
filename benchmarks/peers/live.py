"""The live runs that everybody is judged on, and what the calibration runs among them tell a simulator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

import simtool as st

ROOT = Path(__file__).parents[2]
WORK = ROOT / "traces" / "local" / "peers"
BASELINE, DECIDING = "static", "this-step"
#: Costs come from the runs of both at 8 sequences at once, and from static's of the judged concurrency.
_CALIBRATED_AT = 8


@dataclass(frozen=True)
class Said:
    """What a run was, or is said to be. steady: tokens/s of decode steps at a full batch. tokens_per_s: of the run.

    token_ms: mean time of a token after the first, over requests. step_ms: mean decode step. drafts: offered, a
    sequence and step. half: of the 95 % interval of steady over the simulator's own seeds. None: not told.
    """

    steady: float | None
    tokens_per_s: float
    token_ms: float | None = None
    step_ms: float | None = None
    drafts: float | None = None
    half: float | None = None


@dataclass(frozen=True)
class Setting:
    """One pair of block length and concurrency whose live runs ship, with the arms that do."""

    sl: int
    concurrency: int
    arms: tuple[str, ...]

    @property
    def name(self) -> str:
        """As in the names of its traces."""
        return f"sl{self.sl}" if self.concurrency == _CALIBRATED_AT else f"sl{self.sl}-c{self.concurrency}"

    def fits(self, arm: str) -> bool:
        """Whether costs are taken from this very run, so that what is said of it is no prediction."""
        return arm == BASELINE or (arm == DECIDING and self.concurrency == _CALIBRATED_AT)

    def trace(self, arm: str) -> st.Trace:
        """Return the live run of an arm."""
        return st.open_trace(ROOT / "traces" / f"{self.name}-{arm}")

    def live(self, arm: str) -> Said:
        """Return what the live run of an arm was."""
        return said_of(self.trace(arm))

    @cached_property
    def calibration(self) -> Calibration:
        """What the runs tell that costs are taken from."""
        few = Setting(self.sl, _CALIBRATED_AT, ())
        static = [few.trace(BASELINE)] + ([] if few.name == self.name else [self.trace(BASELINE)])
        return Calibration(static, few.trace(DECIDING), self.concurrency)


SETTINGS = (
    Setting(7, 8, ("static", "this-step", "lag", "lag-overlap")),
    Setting(16, 8, ("static", "this-step", "lag", "lag-overlap")),
    Setting(7, 32, ("static", "lag-overlap")),
    Setting(16, 32, ("static", "lag-overlap")),
)


def said_of(trace: st.Trace) -> Said:
    """Return a run's own figures."""
    summary = st.summarise(trace)
    if summary.tokens_per_s is None or summary.step.mean_ns is None or summary.steady_tokens_per_s is None:
        raise SystemExit(f"{trace.path}: no decode step of a full batch")
    asked = trace.table("requests").filter(pl.col("output_tokens") > 1)
    token_ns = (pl.col("finished_ns") - pl.col("first_token_ns")) / (pl.col("output_tokens") - 1)
    return Said(
        steady=summary.steady_tokens_per_s,
        tokens_per_s=summary.tokens_per_s,
        token_ms=asked.select(token_ns.mean()).item() / 1e6,
        step_ms=summary.step.mean_ns / 1e6,
        drafts=summary.offered / summary.sequence_steps,
    )


@dataclass(frozen=True)
class Line:
    """ms = constant_ms + row_ms x rows."""

    constant_ms: float
    row_ms: float


@dataclass(frozen=True)
class Calibration:
    """Runs that costs are taken from: what a simulator that knows no ops may measure of their steps.

    static: runs that cut nothing. deciding: one that decides in line. most_batch: sequences that are asked about.
    """

    static: list[st.Trace]
    deciding: st.Trace
    most_batch: int

    @property
    def runs(self) -> list[st.Trace]:
        """All of them."""
        return [*self.static, self.deciding]

    def steps(self, runs: list[st.Trace]) -> pl.DataFrame:
        """Return batch, rows and seconds of every decode step of the runs."""
        return pl.concat(
            run.table("steps")
            .filter(pl.col("kind") == "decode")
            .select("batch", rows="validate_rows", seconds=(pl.col("end_ns") - pl.col("start_ns")) / 1e9)
            for run in runs
        )

    def full_grid(self, widths: int) -> dict[tuple[int, int], float]:
        """Return seconds by batch and verify width, of a server that never waits for a confidence.

        Full width as static took it; narrower by what a row costs the target. Batches between: in a line.
        """
        static = self.steps(self.static).group_by("batch").agg(pl.col("seconds").mean()).sort("batch")
        row_s = self.device_line("target").row_ms / 1e3
        batches = range(1, self.most_batch + 1)
        whole = np.interp(list(batches), static["batch"].to_numpy(), static["seconds"].to_numpy()).tolist()
        return {
            (batch, width): seconds - row_s * batch * (widths - width)
            for batch, seconds in zip(batches, whole, strict=True)
            for width in range(1, widths + 1)
        }

    def deciding_grid(self, widths: int) -> dict[tuple[int, int], float]:
        """Return the same of a server that decides in line: the plane nearest to that run's steps, by batch and rows.

        Its widths are ragged, so that no cell was run by itself. Past its batches the plane goes on.
        """
        steps = self.steps([self.deciding])
        batch, rows = (steps[name].to_numpy().astype(np.float64) for name in ("batch", "rows"))
        terms = np.stack([np.ones_like(batch), batch, rows], axis=1)
        plane = np.linalg.lstsq(terms, steps["seconds"].to_numpy(), rcond=None)[0]
        return {
            (each, width): float(plane @ np.array([1.0, each, each * width]))
            for each in range(1, self.most_batch + 1)
            for width in range(1, widths + 1)
        }

    def prefill_token_s(self) -> float:
        """Return seconds of a prompt token: all prefill steps over all their rows."""
        prefills = pl.concat(run.table("steps").filter(pl.col("kind") == "prefill") for run in self.runs)
        seconds = (prefills["end_ns"] - prefills["start_ns"]).sum() / 1e9
        return float(seconds / prefills["validate_rows"].sum())

    def device_line(self, work: str) -> Line:
        """Return the straight line nearest to the times of a device work of decode steps, by its steps' rows."""
        found = self._times(work).join(self._rows(), on=("run", "step"))
        return _line(found["rows"].to_numpy(), found["ms"].to_numpy())

    def beside_ms(self, work: str) -> pl.DataFrame:
        """Return by batch how long a full-width step took beside one device work: mean ms of the static runs."""
        static = self._rows().filter(pl.col("run") < len(self.static)).join(self._times(work), on=("run", "step"))
        return static.group_by("batch").agg((pl.col("step_ms") - pl.col("ms")).mean().alias("ms")).sort("batch")

    def _rows(self) -> pl.DataFrame:
        return pl.concat(
            run.table("steps")
            .filter(pl.col("kind") == "decode")
            .select(
                "step",
                "batch",
                rows="validate_rows",
                run=pl.lit(index),
                step_ms=(pl.col("end_ns") - pl.col("start_ns")) / 1e6,
            )
            for index, run in enumerate(self.runs)
        )

    def _times(self, work: str) -> pl.DataFrame:
        return pl.concat(
            run.table("events")
            .filter((pl.col("op") == work) & (pl.col("lane") != "host"))
            .group_by("step")
            .agg(((pl.col("end_ns") - pl.col("start_ns")).sum() / 1e6).alias("ms"))
            .with_columns(run=pl.lit(index))
            for index, run in enumerate(self.runs)
        )


def _line(x: np.ndarray, y: np.ndarray) -> Line:
    slope, constant = np.polyfit(x.astype(np.float64), y.astype(np.float64), 1).tolist()
    return Line(float(constant), float(slope))
