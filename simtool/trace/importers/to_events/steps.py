"""Where the steps of a foreign profile begin, and what is known of each.

In order of preference: what the caller's pattern matches; the serving engine's own annotation of a step; the
profiler's marks (ProfilerStep#n); graph launches, one step from one to the next behind a wait of the host. A step
lasts until the next one begins. Nothing tells when the last one is over: it counts as long as the median of the
others, or as long as its own work if that is longer.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from simtool.errors import TraceError
from simtool.trace.importers.timeline import Timeline

DECODE, PREFILL = "decode", "prefill"
_VLLM = re.compile(r"^execute_context_(\d+)\((\d*)[^)]*\)_generation_(\d+)\((\d*)")
_VLLM_OLD = re.compile(r"^execute_new_(\d+)_cached_(\d+)")
_SGLANG = re.compile(r"^step\[(\w[\w-]*)(?:\s+bs=(\d+))?")
_ANNOTATED = r"^execute_(?:context|new)_\d+|^step\["
_GRAPH_LAUNCH = r"GraphLaunch|^(?:AscendCL@)?aclmdl(?:RI)?Execute"
_VERIFY = re.compile("target.?verify", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """One step that begins at start_ns. until_ns: it lasts at least so long. batch, rows: None where not said."""

    number: int
    start_ns: int
    until_ns: int
    kind: str = DECODE
    batch: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class ProfiledSteps:
    """The steps in order of time. source: where they come from. decoding: they are steps of a serving engine."""

    steps: Sequence[Step]
    source: str
    decoding: bool

    def numbers(self, start_ns: pl.Series) -> pl.Series:
        """Return the step of each time: the last that began before it, the first for what comes before all."""
        if not self.steps:
            return pl.Series([0], dtype=pl.Int32).new_from_index(0, len(start_ns))
        starts = pl.Series([step.start_ns for step in self.steps], dtype=pl.Int64)
        place = (starts.search_sorted(start_ns, side="right").cast(pl.Int64) - 1).clip(0)
        return pl.Series([step.number for step in self.steps], dtype=pl.Int32).gather(place)

    def tell(self, start_ns: pl.Series) -> dict[str, object]:
        """Return what a manifest's details keep; start_ns: of the events."""
        if not self.steps:
            return {"from": "none: every event is step 0"}
        starts = [step.start_ns for step in self.steps]
        ends = [step.until_ns for step in self.steps]
        outside = int((start_ns < starts[0]).sum()) if self.decoding else _outside(start_ns, starts, ends)
        return {"from": self.source, "marks": len(starts), "events_outside_a_mark": outside}


def _outside(start_ns: pl.Series, starts: Sequence[int], ends: Sequence[int]) -> int:
    places = [bisect_right(starts, time) - 1 for time in start_ns]
    return sum(place < 0 or time >= ends[place] for place, time in zip(places, start_ns, strict=True))


def find_steps(timeline: Timeline, calls: pl.DataFrame, marker: str | None) -> ProfiledSteps:
    """Find the steps. calls: those that are kept, in order of time. marker: the caller's pattern of a step's name.

    Raises TraceError when the pattern is none, or matches nothing.
    """
    if marker is not None:
        return _by_marker(timeline, calls, marker)
    if annotated := _annotated(timeline.ranges):
        return ProfiledSteps(annotated, "the engine's annotation of its steps", decoding=True)
    if timeline.marks:
        marks = sorted(timeline.marks, key=lambda mark: mark.span_ns)
        steps = [Step(mark.step, *mark.span_ns) for mark in marks]
        return ProfiledSteps(steps, "the profiler's step marks", decoding=False)
    launched = _graph_launches(calls)
    return (
        ProfiledSteps(launched, "graph launches", decoding=True)
        if len(launched) > 1
        else ProfiledSteps([], "", decoding=False)
    )


def _by_marker(timeline: Timeline, calls: pl.DataFrame, marker: str) -> ProfiledSteps:
    try:
        re.compile(marker)
        named = [
            table.filter(pl.col("name").cast(pl.String).str.contains(marker)).select(
                pl.col("name").cast(pl.String), "start_ns", "end_ns"
            )
            for table in (timeline.ranges, calls)
        ]
    except (re.error, pl.exceptions.ComputeError) as error:
        raise TraceError(f"--step-marker {marker!r} is no regular expression ({error})") from error
    found = next((table for table in named if not table.is_empty()), None)
    if found is None:
        names = timeline.ranges["name"].cast(pl.String).unique(maintain_order=True).head(5).to_list()
        raise TraceError(
            f"--step-marker {marker!r} matches no annotation and no host call; annotations are, for example, "
            f"{', '.join(names) or 'none at all'}"
        )
    return ProfiledSteps(_numbered(found), f"--step-marker {marker}", decoding=True)


def _annotated(ranges: pl.DataFrame) -> list[Step]:
    """The steps that vLLM or SGLang annotate. Where SGLang verifies drafts, each verification is a step."""
    named = ranges.select(pl.col("name").cast(pl.String), "start_ns", "end_ns", "thread")
    named = named.filter(pl.col("name").str.contains(_ANNOTATED))
    if named.is_empty():
        return []
    busiest = named["thread"].value_counts().sort("count", descending=True)["thread"][0]
    named = named.filter((pl.col("thread") == busiest) & ~pl.col("name").str.contains(r"^step\[(?i:idle)"))
    verify = named.filter(pl.col("name").str.contains(f"(?i){_VERIFY.pattern}"))
    return _numbered(named if verify.is_empty() else verify)


def _graph_launches(calls: pl.DataFrame) -> list[Step]:
    """Steps of graph launches: the first one, and each that follows a wait of the host."""
    waits = pl.col("wait_end_ns").is_not_null()
    launch = pl.col("name").cast(pl.String).str.contains(_GRAPH_LAUNCH)
    some = calls.filter(waits | launch).select("name", "start_ns", "end_ns", launch=launch, wait=waits)
    launches = some.with_columns(group=pl.col("wait").cum_sum()).filter("launch")
    return _numbered(launches.unique("group", keep="first", maintain_order=True) if some["wait"].any() else launches)


def _numbered(found: pl.DataFrame) -> list[Step]:
    ordered = found.sort("start_ns", "end_ns").select(pl.col("name").cast(pl.String), "start_ns", "end_ns")
    return [_step(number, *row) for number, row in enumerate(ordered.iter_rows())]


def _step(number: int, name: str, start_ns: int, until_ns: int) -> Step:
    kind, batch, rows = _said(name)
    return Step(number=number, start_ns=start_ns, until_ns=until_ns, kind=kind, batch=batch, rows=rows)


def _said(name: str) -> tuple[str, int | None, int | None]:
    """Kind, sequences and rows of a step, as far as its name says."""
    if match := _VLLM.match(name):
        contexts, context_rows, sequences, rows = (int(text) if text else None for text in match.groups())
        batch = (contexts or 0) + (sequences or 0)
        total = None if context_rows is None or rows is None else context_rows + rows
        return (PREFILL if contexts else DECODE), batch, total
    if match := _VLLM_OLD.match(name):
        new, cached = map(int, match.groups())
        return (PREFILL if new else DECODE), new + cached, None
    if match := _SGLANG.match(name):
        mode, batch_text = match.groups()
        prefills = mode.lower() in ("prefill", "extend", "mixed", "split_prefill")
        return (PREFILL if prefills else DECODE), int(batch_text) if batch_text else None, None
    return DECODE, None, None


def steps_table(steps: ProfiledSteps, events: pl.DataFrame) -> dict[str, list[object]] | None:
    """Return the columns of the `steps` table, or None where the steps are none of a serving engine."""
    if not steps.decoding:
        return None
    starts = [step.start_ns for step in steps.steps]
    last_work_ns = events.filter(pl.col("step") == steps.steps[-1].number)["end_ns"].max()
    last_ns = max(steps.steps[-1].until_ns, last_work_ns if isinstance(last_work_ns, int) else 0)
    lengths = sorted(later - earlier for earlier, later in pairwise(starts))
    usual_ns = lengths[len(lengths) // 2] if lengths else 0
    ends = [*starts[1:], max(last_ns, starts[-1] + usual_ns)]
    columns: dict[str, list[object]] = {
        "step": [step.number for step in steps.steps],
        "kind": [step.kind for step in steps.steps],
        "start_ns": list(starts),
        "end_ns": list(ends),
        "batch": [step.batch for step in steps.steps],
        "validate_rows": [step.rows for step in steps.steps],
        "pruned": [False for _ in starts],
        "placement": ["not said" for _ in starts],
    }
    return columns
