"""The most that pruning could give a run, in words: for a run that decides nothing and logs no confidence."""

from __future__ import annotations

from simtool.study.bounds.bound import Bound, RowCost
from simtool.trace.trace import Trace
from simtool.units import format_ns

#: Less than this is not worth a controller.
WORTH = 0.01
_MORE_ROWS = (
    "profile steps of other batch sizes too (a second load at another concurrency): they tell what a verified row costs"
)


def headline(found: Bound, modeled: str) -> str:
    """Return the one sentence that a person acts on."""
    most = f"{found.gain * 100:.1f} % more tokens/s than {found.baseline}"
    if found.rows is RowCost.UNKNOWN:
        return (
            "Cannot tell: every profiled step verified as many rows, so nothing tells what a row costs. Were all of "
            f"the target's time its rows', a placement that prunes would give {most} at the most ({modeled})."
        )
    if found.gain < WORTH:
        return f"Leave it off: no placement that prunes could give more than {most} ({modeled})."
    return (
        f"At most {most} from any placement that prunes ({modeled}): one that knew what will be accepted, and decided "
        f"for nothing, would make a step of {format_ns(found.step_ns)} {format_ns(found.saved_ns)} shorter."
    )


def told(found: Bound) -> bool:
    """Whether that settles it: pruning is not worth its while."""
    return found.rows is not RowCost.UNKNOWN and found.gain < WORTH


def what_it_takes(found: Bound) -> list[str]:
    """Return what a controller must get of that, and what it may cost; nothing where that is too little."""
    if found.gain < WORTH:
        return []
    return [
        f"to be worth {WORTH:.0%}, a controller must get {WORTH / found.gain:.0%} of that",
        f"one that gets half of it gains nothing once deciding takes the host {format_ns(found.saved_ns / 2)} a step",
    ]


def fixed_budgets(found: Bound) -> list[tuple[str, str, str]]:
    """Return (drafts verified of each sequence, change, interval) where every step verifies so many."""
    return [(str(length), f"{(each.ratio - 1) * 100:+.1f} %", each.ends) for length, each in found.fixed]


def about_fixed(found: Bound, drafts: int) -> str:
    """Say which fixed budget is best, and what that leaves out."""
    best = found.best_fixed
    if best is None:
        return (
            f"none is told to beat verifying all {drafts}; near anchors stand in for those that the run did not visit"
        )
    return (
        f"best: {best[0]} of {drafts}; drafting still counts as {drafts}, so where drafts are made one after another a "
        "smaller num_speculative_tokens gains more"
    )


def rests_on(found: Bound, source: Trace, costs: str) -> list[str]:
    """Say what the figures are made of. costs: whose costs, in words."""
    manifest = source.manifest
    drafter = manifest.details.get("algorithm", manifest.algorithm)
    at = f"concurrency {manifest.concurrency}, {drafter}, SL {manifest.sl}"
    rows = {
        RowCost.FITTED: "what a verified row costs: fitted to steps that verified fewer",
        RowCost.OF_SEQUENCES: "what a verified row costs: from other batches, so at most that: a sequence's own "
        "share counts as its rows'",
        RowCost.UNKNOWN: "what a verified row costs: not known; the most that it can be",
    }[found.rows]
    requests = source.table("requests").height
    return [
        f"replays of {source.path.name} ({manifest.origin}): {requests} prompts at {at}",
        costs,
        rows,
        "one replay each, without noise; deciding, and building a pruned batch, count nothing",
    ]


def to_know_more(found: Bound, source: Trace, command: str, deciding: str) -> list[str]:
    """Say what would have to be recorded, or assumed. command: this one, as far as its costs. deciding: its options."""
    lines = [_MORE_ROWS] if found.rows is RowCost.UNKNOWN else []
    if source.columns("rows", "confidence")["confidence"].null_count() == source.height("rows"):
        lines.append(
            "log each draft's confidence (docs/step-log.md): without it a controller cannot tell sequences apart, only "
            "positions"
        )
    lines.append(f"a controller at costs that you assume: {command} {deciding}")
    return lines
