"""Outcomes at every anchor: which requests lack them, how they are added, and whether they agree with the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

import polars as pl

from simtool.errors import TraceError
from simtool.trace.rounding_ties import Choice, judge_draft
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, replace_table

_ANCHOR = ["request_id", "anchor_position"]


class AnchorOutcomes(Protocol):
    """Outcomes at anchors `start`, start + 1, ... of one request; lists are per anchor, inner lists per draft."""

    @property
    def start(self) -> int: ...  # noqa: D102
    @property
    def confidence(self) -> Sequence[Sequence[float]]: ...  # noqa: D102
    @property
    def draft_prob(self) -> Sequence[Sequence[float]]: ...  # noqa: D102
    @property
    def match_run(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def draft_margin(self) -> Sequence[float]: ...  # noqa: D102


@dataclass(frozen=True)
class OutcomeCoverage:
    """Coverage of a trace's outcomes, and how often a visited and a filled outcome of one anchor differ.

    anchors: output tokens of finished requests, each an anchor. disagreeing: anchors seen both ways whose match
    runs differ. confidence_gap: largest difference of a confidence over anchors seen both ways.
    first_disagreement: the first of them, and whether a tie explains it; None where all agree.
    """

    anchors: int
    filled: int
    visited: int
    both: int
    disagreeing: int
    confidence_gap: float
    first_disagreement: str | None

    @classmethod
    def of(cls, trace: Trace) -> OutcomeCoverage:
        """Read a trace's coverage."""
        outcomes = trace.table("outcomes")
        visited, filled = (outcomes.filter(pl.col("source") == source) for source in ("visited", "filled"))
        both = visited.drop_nulls("match_run").join(filled, on=_ANCHOR, suffix="_filled")
        gap = both.select((pl.col("confidence").explode() - pl.col("confidence_filled").explode()).abs().max()).item()
        differing = both.filter(pl.col("match_run") != pl.col("match_run_filled"))
        return cls(
            anchors=int(_finished(trace)["output_tokens"].sum()),
            filled=len(filled),
            visited=len(visited),
            both=len(both),
            disagreeing=len(differing),
            confidence_gap=float(gap or 0.0),
            first_disagreement=_disagreement(trace, differing),
        )

    def to_dict(self) -> dict[str, int | float | str | None]:
        """Return plain JSON values."""
        return asdict(self)

    def __str__(self) -> str:
        share = self.filled / self.anchors if self.anchors else 1.0
        return (
            f"outcomes: {self.filled} of {self.anchors} positions filled ({share:.0%}); {self.both} seen both ways, "
            f"{self.disagreeing} of them disagree, confidence differs by at most {self.confidence_gap:.1e}"
            + (f"; first {self.first_disagreement}" if self.first_disagreement else "")
        )


def requests_without_outcomes(trace: Trace) -> list[tuple[str, list[int], list[int]]]:
    """Return (request id, prompt ids, output ids) of finished requests whose anchors are not all filled.

    Raises TraceError when the trace cannot be filled: not live, sampled, incomplete, or without its prompts.
    """
    manifest = trace.manifest
    if manifest.origin == "synthetic":
        raise TraceError(f"{trace.path}: synthetic, so every anchor has the outcome that was drawn; none can be filled")
    if manifest.origin != "live":
        raise TraceError(f"{trace.path}: {manifest.origin}, not live; fill the recording that it was made from")
    if not manifest.settled:
        raise TraceError(f"{trace.path}: rejection-sampled at temperature > 0, where an anchor has no one outcome")
    requests = _finished(trace)
    if requests["prompt_ids"].null_count() or requests["output_ids"].null_count():
        raise TraceError(f"{trace.path}: its prompts were withheld; record it with them to fill it")
    outcomes = trace.table("outcomes").filter(pl.col("source") == "filled")
    counts = dict(outcomes.group_by("request_id").len().iter_rows())
    return [
        (row["request_id"], row["prompt_ids"], row["output_ids"])
        for row in requests.select("request_id", "prompt_ids", "output_ids").iter_rows(named=True)
        if counts.get(row["request_id"], 0) < len(row["output_ids"])
    ]


def add_outcomes(trace: Trace, filled: Mapping[str, AnchorOutcomes]) -> Trace:
    """Write filled outcomes of whole requests into the trace, in one rename, and return it opened anew."""
    new = [
        pl.DataFrame(
            {
                "request_id": [name] * len(request.match_run),
                "anchor_position": range(request.start, request.start + len(request.match_run)),
                "confidence": request.confidence,
                "draft_prob": request.draft_prob,
                "match_run": request.match_run,
                "source": ["filled"] * len(request.match_run),
                "draft_margin": request.draft_margin,
            },
            schema=TABLES["outcomes"].polars_schema,
        )
        for name, request in filled.items()
    ]
    old = trace.table("outcomes").filter(~(pl.col("request_id").is_in(list(filled)) & (pl.col("source") == "filled")))
    return replace_table(trace, "outcomes", pl.concat([old, *new]))


def _disagreement(trace: Trace, differing: pl.DataFrame) -> str | None:
    if differing.is_empty():
        return None
    row = differing.sort(_ANCHOR).row(0, named=True)
    anchor, runs = row["anchor_position"], (row["match_run"], row["match_run_filled"])
    choice = Choice(row["request_id"], anchor + min(runs) + 1)
    verdict = judge_draft(trace, trace, choice, anchor)
    return f"{row['request_id']} at anchor {anchor}: visited {runs[0]}, filled {runs[1]} drafts matched; {verdict}"


def _finished(trace: Trace) -> pl.DataFrame:
    return trace.table("requests").drop_nulls("finished_ns")
