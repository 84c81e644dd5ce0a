"""The one registry of tables and columns: dtype, unit, meaning. Validator and docs are generated from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

SCHEMA_VERSION = 1

_TOKENS = pl.List(pl.Int32)
_REALS = pl.List(pl.Float32)


@dataclass(frozen=True)
class Column:
    """One column. unit is empty for names and flags; nullable columns say in `meaning` what null means."""

    name: str
    dtype: pl.DataType | type[pl.DataType]
    unit: str
    meaning: str
    nullable: bool = False


@dataclass(frozen=True)
class Table:
    """One Parquet table of a trace. key: columns that identify a row, and the order rows are read back in."""

    name: str
    row: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def polars_schema(self) -> pl.Schema:
        """Return the exact polars schema of the table."""
        return pl.Schema({column.name: column.dtype for column in self.columns})


_REQUESTS = Table(
    "requests",
    "one request",
    (
        Column("request_id", pl.String, "", "the request's name, unique in the trace"),
        Column("arrival_ns", pl.Int64, "ns", "when it asked to be served"),
        Column("admitted_ns", pl.Int64, "ns", "when it got a slot; null: never admitted", nullable=True),
        Column("first_token_ns", pl.Int64, "ns", "when its first token was on the host; null: none", nullable=True),
        Column("finished_ns", pl.Int64, "ns", "when its last token was on the host; null: unfinished", nullable=True),
        Column("prompt_tokens", pl.Int32, "tokens", "length of the prompt"),
        Column("output_tokens", pl.Int32, "tokens", "tokens emitted"),
        Column("max_new_tokens", pl.Int32, "tokens", "tokens asked for at most"),
        Column("finish_reason", pl.String, "", "length or stop; null: unfinished", nullable=True),
        Column("kind", pl.String, "", "prompt kind (domain), for breakdowns; null: not said", nullable=True),
        Column("prompt_ids", _TOKENS, "token ids", "the prompt; null: withheld", nullable=True),
        Column("output_ids", _TOKENS, "token ids", "the output; null: withheld", nullable=True),
        Column(
            "output_margin",
            _REALS,
            "logits",
            "gap between the target's two likeliest logits where it chose each output token; null: sampled or not kept",
            nullable=True,
        ),
        Column("slot", pl.Int32, "", "the slot that it held; null: not said, rows tell it", nullable=True),
    ),
    ("request_id",),
)

_STEPS = Table(
    "steps",
    "one step of the running batch",
    (
        Column("step", pl.Int32, "", "index of the step, from 0"),
        Column("kind", pl.String, "", "prefill or decode"),
        Column("start_ns", pl.Int64, "ns", "host start of the step's first op"),
        Column("end_ns", pl.Int64, "ns", "host end of the step's last op"),
        Column("batch", pl.Int32, "sequences", "sequences in the step; null: an import does not say", nullable=True),
        Column(
            "validate_rows",
            pl.Int32,
            "rows",
            "decode: W, the sum of validate widths; prefill: prompt rows; null: an import does not say",
            nullable=True,
        ),
        Column("pruned", pl.Boolean, "", "some width is below N+1"),
        Column("placement", pl.String, "", "the placement that ordered the step"),
        Column("graph_bucket", pl.Int32, "rows", "rows of the captured graph that ran the target; null: eager", True),
    ),
    ("step",),
)

_ROWS = Table(
    "rows",
    "one sequence in one decode step",
    (
        Column("step", pl.Int32, "", "the step"),
        Column("request_id", pl.String, "", "the request"),
        Column("slot", pl.Int32, "", "its slot in the batch"),
        Column("anchor_position", pl.Int32, "tokens", "0-based index of the anchor in prompt + output"),
        Column("kv_len", pl.Int32, "tokens", "committed tokens before the anchor"),
        Column("confidence", _REALS, "probability", "c[1..N] of this step's block; null: not observed", nullable=True),
        Column("draft_prob", _REALS, "probability", "the drafter's own probability of each draft; null: none", True),
        Column("draft_tokens", _TOKENS, "token ids", "the drafted block; null: not observed", nullable=True),
        Column("prefix_len", pl.Int32, "drafts", "p: drafts offered to the target"),
        Column("accepted", pl.Int32, "drafts", "a = min(p, m)"),
        Column("emitted", pl.Int32, "tokens", "a + 1, or fewer when a stop token or the length limit cut the block"),
        Column("fresh", pl.Boolean, "", "the decision had this request's own confidence (false: full width)"),
    ),
    ("step", "slot"),
)

_EVENTS = Table(
    "events",
    "one piece of work on one lane",
    (
        Column("step", pl.Int32, "", "the step"),
        Column("op", pl.String, "", "op name (host lane) or device work name (other lanes)"),
        Column("lane", pl.String, "", "host, prepare, compute or copy"),
        Column("start_ns", pl.Int64, "ns", "start"),
        Column("end_ns", pl.Int64, "ns", "end"),
        Column("wait_start_ns", pl.Int64, "ns", "host only: when it began to wait for the device; null: never", True),
        Column("wait_end_ns", pl.Int64, "ns", "host only: when the wait returned; null: never waited", nullable=True),
        Column("flow", pl.Int64, "", "links a host op to the device work that it launched"),
        Column("bytes", pl.Int64, "bytes", "bytes moved between host and device; 0: none"),
        Column("track", pl.String, "", "an import's thread or stream; null: the lane's only one", nullable=True),
        Column("waits_for", pl.Int64, "", "host only: flow whose work the wait needs; null: its own, or any", True),
        Column("source", pl.String, "", "an import's own name where a rule named the op; null: as op", nullable=True),
    ),
    ("step", "flow", "lane", "start_ns"),
)

_OUTCOMES = Table(
    "outcomes",
    "the drafter's outcome at one anchor of one request",
    (
        Column("request_id", pl.String, "", "the request"),
        Column("anchor_position", pl.Int32, "tokens", "0-based index of the anchor in prompt + output"),
        Column("confidence", _REALS, "probability", "c[1..N]"),
        Column("draft_prob", _REALS, "probability", "the drafter's own probability of each draft; null: none", True),
        Column(
            "match_run", pl.Int32, "drafts", "m: leading drafts equal to the target's own tokens; null: unknown", True
        ),
        Column("source", pl.String, "", "visited (by the timed run) or filled (teacher-forced afterwards)"),
        Column(
            "draft_margin",
            pl.Float32,
            "logits",
            "smallest gap between the drafter's two likeliest logits, drafts 1 to m + 1; null: visited, or not kept",
            nullable=True,
        ),
    ),
    ("request_id", "anchor_position", "source"),
)

TABLES: Mapping[str, Table] = MappingProxyType(
    {table.name: table for table in (_REQUESTS, _STEPS, _ROWS, _EVENTS, _OUTCOMES)}
)
