"""A manifest's details as the rooms read and write them: typed, what is not told None, unknown keys left alone.

On disk `details` is any JSON. Each origin has its own table of what this version knows; keys beyond it survive, since a
reader only ever looks at its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from simtool.errors import TraceError
from simtool.step.beyond import Beyond
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import Lane

Details = Mapping[str, object]
_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class ServedWorkload:
    """Requests that were served instead of the recorded ones. source: what they come from."""

    source: str
    requests: int
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        return {"source": self.source, "requests": self.requests, "warnings": list(self.warnings)}


@dataclass(frozen=True, kw_only=True)
class Bootstrap:
    """How outcomes were drawn anew from recorded requests. draws: of whole requests; spliced_requests: took several."""

    unit: str
    seed: int
    share_of_outcomes: float
    recorded_requests: int
    draws: int
    spliced_requests: int


@dataclass(frozen=True, kw_only=True)
class SyntheticOutcomes:
    """The stated process that outcomes were drawn from; see `simtool.replay.synthetic.process`.

    acceptance: by position. acceptance_autocorrelation: what follows from the rest. prompt_tokens, output_tokens: the
    distributions of lengths, as they are typed.
    """

    acceptance: tuple[float, ...]
    sharpness: float
    confidence_autocorrelation: float
    acceptance_autocorrelation: float
    calibration_error: float
    requests: int
    prompt_tokens: str
    output_tokens: str
    seed: int

    def __str__(self) -> str:
        by_position = " ".join(f"{share:.3f}" for share in self.acceptance)
        return (
            f"acceptance {by_position}, sharpness {self.sharpness:.2f}, autocorrelation of confidence "
            f"{self.confidence_autocorrelation:.2f} and of acceptance {self.acceptance_autocorrelation:.2f}, "
            f"calibration error {self.calibration_error:+.3f}, seed {self.seed}"
        )


@dataclass(frozen=True, kw_only=True)
class RunDetails:
    """How a run was made, live or replayed.

    command: what made the trace. kv_blocks, block_size: of the KV cache. executors: lane -> what runs it in order.
    graphs: none where it tells of none. others_share: of all cores' time, what other programs took meanwhile.
    workload, bootstrap: of requests and outcomes that are not the recording's own. synthetic: of outcomes that nobody
    recorded. sample_keys: request id -> what seeded its random numbers, where sampled drafts only had to match.
    """

    command: str | None = None
    dtype: str | None = None
    kv_blocks: int | None = None
    block_size: int | None = None
    executors: Mapping[str, str] | None = None
    graphs: GraphBuckets = field(default_factory=GraphBuckets)
    closed_loop: bool | None = None
    others_share: float | None = None
    workload: ServedWorkload | None = None
    bootstrap: Bootstrap | None = None
    synthetic: SyntheticOutcomes | None = None
    sample_keys: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, details: Details, source: str) -> RunDetails:
        """Read what a manifest tells; raises TraceError naming the source when a value is of another kind."""
        table = _Table(details, source)
        names = ("workload", "bootstrap", "synthetic")
        workload, bootstrap, synthetic = (table.optional(name, dict) for name in names)
        executors = table.optional("executors", dict)
        return cls(
            command=table.optional("command", str),
            dtype=table.optional("dtype", str),
            kv_blocks=table.optional("kv_blocks", int),
            block_size=table.optional("block_size", int),
            executors=None if executors is None else _executors(executors, source),
            graphs=GraphBuckets.from_dict(details.get("graphs")),
            closed_loop=table.optional("closed_loop", bool),
            others_share=_share(details.get("machine")),
            workload=None if workload is None else _workload(workload, source),
            bootstrap=None if bootstrap is None else _built(Bootstrap, bootstrap, f"{source}: bootstrap"),
            synthetic=None if synthetic is None else _synthetic(synthetic, source),
            sample_keys=_keys(table.optional("sample_keys", dict) or {}, source),
        )


@dataclass(frozen=True, kw_only=True)
class ReplayCosts:
    """The profile that a replay was priced with. sources, fitted_on: where its numbers come from; changes: what-ifs."""

    name: str
    changes: tuple[str, ...]
    sources: tuple[Mapping[str, object], ...]
    fitted_on: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, kw_only=True)
class ReplayDetails:
    """What a replay was made from. outcomes: how far its tokens can be trusted, in words. source: the trace's name.

    anchors_looked_up, anchors_substituted: outcomes that it took, and those that near ones stood in for. refit: which
    refit of the profile priced it; None: the fit itself. beyond: what was priced outside the calibrated sizes.
    """

    source: str | None = None
    costs: ReplayCosts | None = None
    outcomes: str | None = None
    anchors_looked_up: int | None = None
    anchors_substituted: int | None = None
    refit: int | None = None
    beyond: tuple[Beyond, ...] = ()

    @classmethod
    def read(cls, details: Details, source: str) -> ReplayDetails:
        """Read what a manifest tells; raises TraceError naming the source when a value is of another kind."""
        table = _Table(details, source)
        profile = table.optional("profile", dict)
        return cls(
            source=table.optional("source", str),
            costs=None if profile is None else _costs(profile),
            outcomes=table.optional("outcomes", str),
            anchors_looked_up=table.optional("anchors_looked_up", int),
            anchors_substituted=table.optional("anchors_substituted", int),
            refit=table.optional("refit", int),
            beyond=_beyond(details.get("beyond"), source),
        )


@dataclass(frozen=True, kw_only=True)
class ImportDetails:
    """What an import could not use. rejected: broken input, reason -> count and first example; dropped: no place."""

    source: str | None = None
    rejected: Mapping[str, object]
    dropped: Mapping[str, object]

    @classmethod
    def read(cls, details: Details, source: str) -> ImportDetails:
        """Read what a manifest tells; raises TraceError naming the source when a value is of another kind."""
        table = _Table(details, source)
        return cls(
            source=table.optional("source", str),
            rejected=table.optional("rejected", dict) or {},
            dropped=table.optional("dropped", dict) or {},
        )


@dataclass(frozen=True)
class _Table:
    """A table of parsed JSON and what it is a part of."""

    values: Mapping[str, object]
    source: str

    def optional(self, name: str, kind: type[_T]) -> _T | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise TraceError(f"{self.source}: {name} is {value!r}; expected {_KINDS[kind]}, or leave it out")
        return value


_KINDS: Mapping[type, str] = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
}


def _keys(table: Mapping[str, object], source: str) -> dict[str, int]:
    for name, key in table.items():
        if not isinstance(key, int) or isinstance(key, bool) or not -(1 << 63) <= key < 1 << 63:
            raise TraceError(f"{source}: sample_keys has {name!r}: {key!r}; expected a whole number of 64 bits each")
    return {name: key for name, key in table.items() if isinstance(key, int)}


def _executors(table: Mapping[str, object], source: str) -> dict[str, str]:
    lanes = [lane.value for lane in Lane]
    told = {lane: name for lane, name in table.items() if lane in lanes and isinstance(name, str)}
    if len(told) < len(table):
        odd = next(f"{lane!r}: {name!r}" for lane, name in table.items() if lane not in told)
        raise TraceError(f"{source}: executors has {odd}; expected a name for each of {', '.join(lanes)}")
    return told


def _share(machine: object) -> float | None:
    """The share that others took; how busy a machine was is told in more than one way, and only one has it."""
    share = machine.get("others_share") if isinstance(machine, dict) else None
    return float(share) if isinstance(share, int | float) and not isinstance(share, bool) else None


def _built(kind: type[_T], table: Mapping[str, Any], source: str) -> _T:
    try:
        return kind(**table)
    except TypeError as error:
        raise TraceError(f"{source}: cannot be read ({error}); the trace is damaged or newer") from error


def _workload(table: Mapping[str, Any], source: str) -> ServedWorkload:
    warnings = tuple(map(str, table.get("warnings") or ()))
    return _built(ServedWorkload, {**table, "warnings": warnings}, f"{source}: workload")


def _synthetic(table: Mapping[str, Any], source: str) -> SyntheticOutcomes:
    acceptance = table.get("acceptance")
    shares = tuple(map(float, acceptance)) if isinstance(acceptance, list) else ()
    return _built(SyntheticOutcomes, {**table, "acceptance": shares}, f"{source}: synthetic")


def _beyond(found: object, source: str) -> tuple[Beyond, ...]:
    try:
        return tuple(msgspec.convert(found or [], list[Beyond]))
    except msgspec.ValidationError as error:
        raise TraceError(f"{source}: beyond cannot be read ({error}); the trace is damaged or newer") from error


def _costs(profile: Mapping[str, Any]) -> ReplayCosts:
    return ReplayCosts(
        name=str(profile.get("name")),
        changes=tuple(map(str, profile.get("changes") or ())),
        sources=tuple(profile.get("sources") or ()),
        fitted_on=tuple(profile.get("bundles") or ()),
    )
