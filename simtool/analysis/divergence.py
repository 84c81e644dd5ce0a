"""Where two runs diverge that should make the same steps and tokens, and whether a tie explains it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from simtool.trace.rounding_ties import Choice, Judgement, judge_decision, judge_draft, judge_target
from simtool.trace.trace import Trace

_ROW = ("step", "request_id", "anchor_position", "prefix_len", "accepted", "emitted")


def mismatches(live: Trace, replayed: Trace) -> tuple[int, int]:
    """Return (rows compared, rows that only one of the two holds): step structure, anchors and acceptance."""
    columns = list(_ROW)
    first, second = (trace.table("rows").select(columns) for trace in (live, replayed))
    matching = len(first.join(second, on=columns, how="semi"))
    return max(len(first), len(second)), max(len(first), len(second)) - matching


def different_rows(live: Trace, replayed: Trace) -> pl.DataFrame:
    """Return the rows that only one of the two holds, live ones first, for a reader who wants to know which."""
    columns = list(_ROW)
    first, second = (trace.table("rows").select(columns) for trace in (live, replayed))
    only = [
        frame.join(other, on=columns, how="anti").with_columns(origin=pl.lit(origin))
        for frame, other, origin in ((first, second, "live"), (second, first, "replayed"))
    ]
    return pl.concat(only).sort("step", "request_id", "origin")


@dataclass(frozen=True)
class Divergence:
    """Where a live run first differs from its replay. found: what either holds there, and why; tie: see Judgement."""

    run: str
    step: int
    found: str
    tie: bool

    def __str__(self) -> str:
        return f"{self.run} diverges from its replay in step {self.step}: {self.found}"


def first_divergence(live: Trace, replayed: Trace) -> Divergence | None:
    """Say where a run and its replay first diverge, and what either holds there; None where all is alike.

    Rows differ in what they count, outputs in their tokens; whichever is first may explain the rest. A replay's tokens
    are those of the recording that it was made from.
    """
    rows, apart = different_rows(live, replayed), diverging_tokens(live, replayed)
    step = None if rows.is_empty() else int(rows["step"].to_list()[0])
    tokens = first_of(live, apart)
    if tokens is not None and (step is None or tokens[0] < step):
        why = judge_target(live, replayed, tokens[1])
        found = f"{tokens[1].request_id} goes on with another token: {why}"
        return Divergence(live.path.name, tokens[0], found, why.tie)
    if step is None:
        return None
    shown, why = _explain(live, replayed, rows.filter(pl.col("step") == step), apart)
    sides = [
        f"{row['origin']} {row['request_id']} at anchor {row['anchor_position']}: {row['accepted']} of "
        f"{row['prefix_len']} offered accepted"
        for row in shown.head(2).iter_rows(named=True)
    ]
    return Divergence(live.path.name, step, f"{'; '.join(sides)}; {why}", why.tie)


def diverging_tokens(one: Trace, other: Trace) -> list[Choice]:
    """Return, of each request that both runs served, the first token that they chose differently, if any."""
    columns = ["request_id", "prompt_ids", "prompt_tokens", "output_ids"]
    outputs = [trace.table("requests").select(columns) for trace in (one, other)]
    both = outputs[0].join(outputs[1], on=columns[:3], nulls_equal=True, suffix="_other")
    known = both.drop_nulls(["output_ids", "output_ids_other"]).sort("request_id").drop("prompt_ids")
    found = []
    for request_id, prompt_tokens, ours, theirs in known.iter_rows():
        places = (k for k, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
        if (place := next(places, None)) is not None:
            found.append(Choice(request_id, prompt_tokens + place))
    return found


def describe_divergence(one: Trace, other: Trace) -> str:
    """Say which token two runs first chose differently, as the end of a sentence; empty where none is known."""
    first = first_of(one, diverging_tokens(one, other))
    return (
        ""
        if first is None
        else f"; first {first[1].request_id} in step {first[0]}, {judge_target(one, other, first[1])}"
    )


def first_of(one: Trace, choices: Sequence[Choice]) -> tuple[int, Choice] | None:
    """Return the earliest of the choices and the step of `one` that made it; None when there are none."""
    return min(((_step_of(one, choice), choice) for choice in choices), key=lambda pair: pair[0], default=None)


def _step_of(trace: Trace, choice: Choice) -> int:
    """The step that emitted a token; a request's first comes from a prefill, which has no rows."""
    mine = pl.col("request_id") == choice.request_id
    last = pl.col("anchor_position") + pl.col("emitted")
    emits = mine & (pl.col("anchor_position") < choice.position) & (last >= choice.position)
    steps = trace.table("rows").filter(emits)["step"].to_list()
    if not steps:
        first_token_ns = trace.table("requests").filter(mine)["first_token_ns"].to_list()[0]
        holds = pl.lit(first_token_ns).is_between("start_ns", "end_ns")
        steps = trace.table("steps").filter(holds)["step"].to_list()
    return int(steps[0]) if steps else 0


def _explain(
    live: Trace, replayed: Trace, first: pl.DataFrame, apart: Sequence[Choice]
) -> tuple[pl.DataFrame, Judgement]:
    """Of the rows that differ in one step, those to show, and why they do: accepted counts tell most."""
    key = ["request_id", "anchor_position"]
    ours, theirs = (first.filter(pl.col("origin") == origin) for origin in ("live", "replayed"))
    pairs = ours.join(theirs, on=key, suffix="_replayed")
    if pairs.is_empty():
        return first, Judgement("no token was chosen differently before: not a tie")
    decided = pl.col("prefix_len") != pl.col("prefix_len_replayed")
    counted = pl.col("accepted") != pl.col("accepted_replayed")
    chosen = pairs.sort(decided, ~counted, *key).head(1)
    shown = first.join(chosen.select(key), on=key, how="semi", maintain_order="left")
    row = chosen.row(0, named=True)
    if row["prefix_len"] != row["prefix_len_replayed"]:
        return shown, judge_decision(live, replayed, row["step"])
    if row["accepted"] == row["accepted_replayed"]:
        return shown, Judgement("as many accepted, yet another number emitted: not a tie: a logic fault")
    choice = Choice(row["request_id"], row["anchor_position"] + min(row["accepted"], row["accepted_replayed"]) + 1)
    if choice in apart:
        return shown, judge_target(live, replayed, choice)
    return shown, judge_draft(live, replayed, choice, row["anchor_position"])
