"""A drafter's confidence as it is and at the temperatures fitted to it, judged by position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simtool.analysis.confidence import PositionQuality, ReliabilityBin, quality_by_position, reliability
from simtool.calibrate.confidence import ConfidenceFit, fit_temperatures
from simtool.calibrate.drafted import DraftedBlocks, blocks_of
from simtool.errors import UsageError
from simtool.step.temperatures import calibrated
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class PositionReport:
    """One draft position. ece: over the bins of the fit. reliability: the bins of its forecasts, a tenth wide."""

    quality: PositionQuality
    ece: float
    reliability: list[ReliabilityBin]


@dataclass(frozen=True)
class JudgedConfidence:
    """trace: the name of the one that was fitted on. before, after: by position, as it is and at the temperatures."""

    trace: str
    fit: ConfidenceFit
    before: list[PositionReport]
    after: list[PositionReport]


def judge_confidence(traces: Sequence[Trace]) -> JudgedConfidence:
    """Fit temperatures on the trace that knows most outcomes, and judge the confidence with and without.

    Raises UsageError for traces of several block lengths or without any confidence, TraceError for too few blocks.
    """
    lengths = sorted({trace.manifest.sl for trace in traces})
    if len(lengths) > 1:
        raise UsageError(f"--confidence on blocks of {lengths} drafts: give traces of one block length")
    known = [(trace.path.name, blocks) for trace in traces if (blocks := blocks_of(trace)) is not None]
    if not known:
        raise UsageError("--confidence: no trace here holds a confidence; give one of a drafter that has it")
    name, blocks = max(known, key=lambda each: int(each[1].offered.sum()))
    fit = fit_temperatures(blocks)
    return JudgedConfidence(
        name, fit, _reports(blocks, fit.error_before), _reports(at_temperatures(blocks, fit), fit.error_after)
    )


def at_temperatures(blocks: DraftedBlocks, fit: ConfidenceFit) -> DraftedBlocks:
    """Return the blocks with the confidence that decisions read."""
    return replace(blocks, confidence=calibrated(blocks.confidence, fit.temperatures))


def _reports(blocks: DraftedBlocks, errors: Sequence[float]) -> list[PositionReport]:
    return [
        PositionReport(quality, error, reliability(said[judged], blocks.match_run[judged] >= k))
        for k, (quality, error, said) in enumerate(
            zip(quality_by_position(blocks), errors, blocks.forecasts(), strict=True), start=1
        )
        for judged in [blocks.offered >= k]
    ]
