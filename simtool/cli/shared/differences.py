"""How the replays of one command differ, in the words and by the rules of `simtool compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from simtool.analysis.comparison.headline import baseline_of

if TYPE_CHECKING:
    from simtool.analysis.comparison.comparison import Comparison
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.analysis.comparison.runs import Run
    from simtool.cli.documents.parts import ComparisonRecord

Runs = Mapping[str, Sequence["Run"]]


def against_baseline(runs: Runs) -> dict[str, Comparison]:
    """Return every placement's comparison with the headline's baseline; empty where there is nothing to compare.

    runs: by placement, one a seed.
    """
    if len(runs) < 2:
        return {}
    baseline = baseline_of(list(runs))
    return paired({name: (baseline, runs[baseline], found) for name, found in runs.items() if name != baseline})


def paired(pairs: Mapping[str, tuple[str, Sequence[Run], Sequence[Run]]]) -> dict[str, Comparison]:
    """Compare the runs of each name with others. pairs: name -> (what it is compared with, its runs, the name's runs);
    those without a decode step are left out.
    """
    from simtool.analysis.comparison.arms import ORIGIN_WORDS, Arm
    from simtool.analysis.comparison.compare import compare

    def arm(name: str, found: Sequence[Run]) -> Arm:
        return Arm(label=name, placement=name, origin=ORIGIN_WORDS["replayed"], runs=tuple(found), traces=())

    return {
        name: compare(arm(base, before), arm(name, after))
        for name, (base, before, after) in pairs.items()
        if all(len(run.tokens) for run in (*before, *after))
    }


def as_records(known: KnownLive | None) -> list[ComparisonRecord]:
    """Return what live runs showed, for machines."""
    return [as_record(each) for each in known.comparisons] if known else []


def as_record(comparison: Comparison) -> ComparisonRecord:
    """Return a comparison for machines."""
    from simtool.cli.documents.parts import ComparisonRecord
    from simtool.cli.documents.record import record

    extrapolated = str(comparison.extrapolation or "")
    # an interval that leaves out 0 and is not believed: no number of repetitions like these would mend that
    needed = comparison.needed if comparison.spans or comparison.resolved else None
    load = comparison.load.to_dict()
    return record(ComparisonRecord, comparison, comparison.found, load, extrapolated=extrapolated, needed=needed)
