"""Documents of the commands about traces: record, import, inspect, fill, export, doctor, first-run,
placements.
"""

from __future__ import annotations

from typing import Literal

from simtool.cli.documents.parts import RunRecord
from simtool.cli.documents.record import JsonDocument, Record, Table


class RecordDocument(JsonDocument, tag="simtool.record/1"):
    """The traces that were recorded, in the order in which they ran."""

    runs: list[RunRecord]


class ImportDocument(JsonDocument, tag="simtool.import/1"):
    """trace: the folder written. rows: by table. manifest: as in the trace, with every loss under details."""

    trace: str
    rows: dict[str, int]
    manifest: Table


class SynthDocument(JsonDocument, tag="simtool.synth/1"):
    """trace: the folder written. manifest: as in the trace; details.synthetic is what it was drawn from."""

    trace: str
    manifest: Table


class FindingRecord(Record):
    """What contradicts itself in a trace. count: how often; first: where first, null where that means nothing."""

    severity: Literal["error", "warning", "note"]
    table: str
    message: str
    count: int
    first: int | str | None


class InspectedTrace(Record):
    """rows: by table; null for one that cannot be read, which is among the findings."""

    trace: str
    manifest: Table
    rows: dict[str, int | None]
    findings: list[FindingRecord]


class InspectDocument(JsonDocument, tag="simtool.inspect/1"):
    """One entry a trace."""

    traces: list[InspectedTrace]


class FillDocument(JsonDocument, tag="simtool.fill/1"):
    """anchors: positions of finished requests; filled of them now have an outcome. visited: those that the run itself
    saw; both: seen both ways, disagreeing of them with another match run. confidence_gap: the largest between the two.
    """

    anchors: int
    filled: int
    visited: int
    both: int
    disagreeing: int
    confidence_gap: float
    first_disagreement: str | None


class ExportDocument(JsonDocument, tag="simtool.export/1"):
    """file: what was written. lines: of a step log; trace_events: of a trace for a viewer; the other is null."""

    file: str
    lines: int | None = None
    trace_events: int | None = None


class CheckRecord(Record):
    """One thing looked at. remedy: a command, or empty."""

    name: str
    status: Literal["ok", "absent", "broken"]
    found: str
    remedy: str


class DoctorDocument(JsonDocument, tag="simtool.doctor/1"):
    """What this machine has and lacks."""

    checks: list[CheckRecord]


class DeviceCheckRecord(Record):
    """said: one sentence. facts: what was measured; numbers that are not finite are texts."""

    name: str
    verdict: Literal["ok", "wrong", "refused", "does not apply"]
    said: str
    facts: Table


class FirstRunDocument(JsonDocument, tag="simtool.first-run/1"):
    """Where it ran and what the device did; the file that is sent back is the same. layout_that_agrees: the attention
    that the graph and the runs took; null: none agreed. cann: null where there is none.
    """

    device: str
    hardware: str
    python: str
    platform: str
    versions: dict[str, str | None]
    cann: str | None
    environment: dict[str, str | None]
    dtype: str
    layout_that_agrees: str | None
    checks: list[DeviceCheckRecord]


class PlacementRecord(Record):
    """order: slots of the host's work, `a|b` for a in steps that prune and b in full-width ones. lag_steps: age of the
    confidence that the decision reads; null: nothing decides. sync: ops that block as an implementation does.
    dependencies: op -> datum that it needs -> the op that gives it. policy: what decides, with its parameters; null:
    xLLM's controller, or nothing.
    """

    name: str
    order: list[str]
    lag_steps: int | None
    dependencies: dict[str, dict[str, str]]
    sync: tuple[str, ...] = ()
    policy: Table | None = None


class PolicyRecord(Record):
    """budget_age, split_age: steps, null where no confidence is read. origins: of each parameter and its default.
    home: the placement whose order it takes. counters: what a manifest counts.
    """

    name: str
    parameters: dict[str, int | float | str | bool]
    what: str
    source: str
    budget_age: int | None
    split_age: int | None
    lossless: str
    origins: dict[str, str]
    home: str
    counters: list[str]


class PoliciesDocument(JsonDocument, tag="simtool.policies/1"):
    """The policies, or the one that was asked for."""

    policies: list[PolicyRecord]


class PlacementsDocument(JsonDocument, tag="simtool.placements/1"):
    """The built-in placements, or the one that was asked for."""

    placements: list[PlacementRecord]
