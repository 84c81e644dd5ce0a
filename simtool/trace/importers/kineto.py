"""torch.profiler (Kineto) JSON -> a timeline. Kernels, copies, runtime calls and annotations are kept.

Kineto gives a runtime call and the device work that it launched the same `correlation` (0: not known). A graph launch
and all its kernels share one. `ts` counts microseconds from `baseTimeNanoseconds`; older traces do not say from what.
In a merged trace ranks repeat each other's correlations, so a device's work is linked within one host process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from simtool.trace.importers.by_value import by_value
from simtool.trace.importers.chrome_json.columns import Columns
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import StepMark, Timeline, WorkKind
from simtool.trace.importers.written import number

_DEVICE = ("kernel", "concurrent_kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset", "mtia_ccp_events", "hpu_op")
_KERNELS = ("kernel", "concurrent_kernel", "mtia_ccp_events", "hpu_op")
_HOST = r"^(?:.*_)?(?:runtime|driver)$"
_SYNC = r"^[a-z]*_sync$"
_RANGES = ("user_annotation", "operator")
_STEP_MARK = r"^ProfilerStep#(\d{1,9})\b"
_UPLOAD, _DOWNLOAD = "HtoD|Host -> Device|HostToDevice|M2D", "DtoH|Device -> (?:Host|Pageable|Pinned)|DeviceToHost|D2M"
#: Calls that return only once the device is done. A launch of an event's wait on a stream is none of them.
_WAITS = r"Synchronize|MemcpyWithStream|^(?:cuda|hip|cu|mtia)Memcpy(?:2D|3D|DtoH|HtoD|DtoD)?(?:_v2)?$|" \
         r"^(?:ur|pi)(?:EventWait|EventsWait|QueueFinish)$"  # fmt: skip
_NO_STREAM = ("-1", "4294967295", "18446744073709551615")
_NO_LINK = (0, -1, 4294967295)
_MAX_NS = (1 << 63) - 1
#: Kind of device -> the prefix of its host calls' category, or of their names.
_DEVICES = {"rocm": r"^(?:hip|roc)", "xpu": r"^(?:xpu|ur|pi|ze|sycl)", "mtia": r"^mtia", "hpu": r"^(?:hpu|syn)"}
_MAKERS = {"rocm": r"AMD|Instinct|Radeon", "xpu": r"Intel", "mtia": r"MTIA", "cuda": r"NVIDIA|Tesla|GeForce|[AHB]\d00"}


@dataclass(frozen=True)
class KinetoProfile:
    """device: cuda, rocm, xpu, mtia or hpu. base_ns: what the times count from; None: the trace does not say."""

    timeline: Timeline
    device: str
    device_names: dict[str, str]
    version: str
    base_ns: int | None


def read_kineto(columns: Columns, header: Mapping[str, Any], ledger: Ledger) -> KinetoProfile:
    """Sort the spans of a Kineto trace into calls, work and ranges; what is none of these is counted by category."""
    base_ns, names = _base_ns(header), _device_names(header)
    base = header.get("baseTimeNanoseconds")
    ledger.reject("baseTimeNanoseconds is no time; read as not said", base, int(base_ns is None and base is not None))
    spans = by_value(_absolute(_take_spans(columns), base_ns or 0, ledger), ["cat", "name"], **_ROLES)
    roles = spans.partition_by("role", as_dict=True)
    named = {role: roles.get((role,), spans.clear()) for role in _SORTED}
    del spans, roles
    for category, count in named["rest"]["cat"].cast(pl.String).value_counts(sort=True).iter_rows():
        ledger.drop(f"category {category}", count)
    ledger.drop("waits of the device for itself, or rows beside a host's wait (sync)", named["sync"].height)
    device = _kind_of_device(named["call"], list(names.values()))
    timeline = Timeline(
        calls=_calls(named.pop("call"), named.pop("sync")),
        works=_works(named.pop("work")),
        ranges=_ranges(named.pop("range")),
        marks=_marks(named.pop("mark")),
    )
    version = f"trace schema {header.get('schemaVersion', 'not said')}"
    return KinetoProfile(timeline, device, names, version, base_ns)


_SORTED = ("call", "work", "sync", "mark", "range", "rest")


def _roles() -> dict[str, pl.Expr]:
    """What a span is, by its category and name."""
    category = pl.col("cat").str.to_lowercase().fill_null("")
    name = pl.col("name").fill_null(_NAMELESS)
    role = (
        pl.when(category.is_in(_DEVICE))
        .then(pl.lit("work"))
        .when(category.str.contains(_HOST))
        .then(pl.lit("call"))
        .when(category.str.contains(_SYNC))
        .then(pl.lit("sync"))
        .when(name.str.contains(_STEP_MARK) & category.is_in(_RANGES))
        .then(pl.lit("mark"))
        .when(category == "user_annotation")
        .then(pl.lit("range"))
        .otherwise(pl.lit("rest"))
    )
    kind = (
        pl.when(category.is_in(_KERNELS))
        .then(pl.lit(WorkKind.KERNEL.value))
        .when(name.str.contains(_UPLOAD))
        .then(pl.lit(WorkKind.UPLOAD.value))
        .when(name.str.contains(_DOWNLOAD))
        .then(pl.lit(WorkKind.DOWNLOAD.value))
        .otherwise(pl.lit(WorkKind.OTHER.value))
    )
    return {
        "role": role,
        "kind": kind.cast(pl.Categorical),
        "waits": name.str.contains(_WAITS),
        "whole_device": name.str.contains("(?i)context|device"),
    }


_NAMELESS = "not named"
_ROLES = _roles()


def _take_spans(columns: Columns) -> pl.DataFrame:
    """The spans, which are not held twice: the columns give them away."""
    spans, columns.spans = columns.spans, columns.spans.clear()
    return spans


def _absolute(spans: pl.DataFrame, base_ns: int, ledger: Ledger) -> pl.DataFrame:
    """Add the base; a time beyond 64 bits costs its event."""
    fits = pl.col("end_ns").le(_MAX_NS - base_ns) if base_ns >= 0 else pl.col("start_ns").ge(-_MAX_NS - base_ns)
    lost = spans.filter(~fits)
    if lost.height:
        ledger.reject("time is beyond 64 bits of ns since 1970", f"name {lost['name'][0]}", lost.height)
    return spans.filter(fits).with_columns(pl.col("start_ns", "end_ns") + base_ns)


def _calls(spans: pl.DataFrame, syncs: pl.DataFrame) -> pl.DataFrame:
    calls = by_value(spans, ["pid", "tid"], **_OF_THREAD).lazy()
    if not syncs.is_empty():
        calls = calls.drop("waits_stream").join(
            _known_waits(spans, syncs), on="correlation", how="left", maintain_order="left"
        )
    else:
        calls = calls.with_columns(waits_until_ns=pl.lit(None, pl.Int64))
    return calls.select(
        pl.col("name").fill_null(_NAMELESS),
        "process",
        "thread",
        "start_ns",
        "end_ns",
        _link(),
        "waits",
        pl.when("waits").then("waits_stream").alias("waits_stream"),
        pl.when("waits").then("waits_until_ns").alias("waits_until_ns"),
    ).collect()


def _known_waits(spans: pl.DataFrame, syncs: pl.DataFrame) -> pl.LazyFrame:
    """Which stream a call waits for, and up to when, by its correlation: from the rows beside the device's work."""
    records = spans.lazy().select(record="correlation", waits_until_ns="start_ns")
    stream = pl.coalesce(_stream("waits_stream"), _stream("stream"))
    return (
        syncs.lazy()
        .filter(~pl.col("whole_device") & pl.col("correlation").is_not_null())
        .select("correlation", waits_stream=_stream_name(stream).cast(pl.Categorical), record="waits_record")
        .join(records.filter(pl.col("record").is_not_null()).unique("record", keep="first"), on="record", how="left")
        .drop("record")
        .unique("correlation", keep="first")
    )


def _stream(column: str) -> pl.Expr:
    text = pl.col(column).cast(pl.String)
    return pl.when(~text.is_in(_NO_STREAM)).then(text)


def _stream_name(stream: pl.Expr) -> pl.Expr:
    device = pl.coalesce(pl.col("device").cast(pl.String), pl.col("pid").cast(pl.String), pl.lit("-"))
    return pl.when(stream.is_not_null()).then(pl.format("device {} stream {}", device, stream.fill_null("")))


_OF_THREAD = {
    "process": pl.format("pid {}", pl.col("pid").fill_null("-")).cast(pl.Categorical),
    "thread": pl.format("pid {} tid {}", pl.col("pid").fill_null("-"), pl.col("tid").fill_null("-")).cast(
        pl.Categorical
    ),
}


def _of_stream() -> dict[str, pl.Expr]:
    """Device and stream by name. Ranks of a merged trace may all call their device 0: then its process tells."""
    pid = pl.col("pid").fill_null("-")
    device = pl.coalesce(pl.col("device"), pid)
    several = pid.n_unique().over(device) > 1
    label = pl.when(several).then(pl.format("{} of pid {}", device, pid)).otherwise(device)
    stream = pl.coalesce(pl.col("stream"), pl.col("tid"), pl.lit("-"))
    return {
        "on_device": pl.format("device {}", label).cast(pl.Categorical),
        "on_stream": pl.format("device {} stream {}", label, stream).cast(pl.Categorical),
    }


def _works(spans: pl.DataFrame) -> pl.DataFrame:
    moves = pl.col("kind").is_in([WorkKind.UPLOAD.value, WorkKind.DOWNLOAD.value])
    return by_value(spans, ["pid", "tid", "device", "stream"], **_of_stream()).select(
        pl.col("name").fill_null(_NAMELESS),
        pl.col("on_device").alias("device"),
        pl.col("on_stream").alias("stream"),
        "kind",
        "start_ns",
        "end_ns",
        _link(),
        pl.when(moves).then("bytes").fill_null(0).alias("bytes"),
    )


def _ranges(spans: pl.DataFrame) -> pl.DataFrame:
    return by_value(spans, ["pid", "tid"], **_OF_THREAD).select(
        pl.col("name").fill_null(_NAMELESS), "process", "thread", "start_ns", "end_ns"
    )


def _marks(spans: pl.DataFrame) -> list[StepMark]:
    numbers = spans["name"].cast(pl.String).str.extract(_STEP_MARK).cast(pl.Int64)
    return [StepMark(*row) for row in zip(numbers, zip(spans["start_ns"], spans["end_ns"], strict=True), strict=True)]


def _link() -> pl.Expr:
    return pl.when(~pl.col("correlation").is_in(_NO_LINK)).then("correlation").alias("link")


def _base_ns(header: Mapping[str, Any]) -> int | None:
    """The base, written as a number, a number with a fraction, or a text."""
    base = number(header.get("baseTimeNanoseconds"))
    return None if base is None or abs(base) > _MAX_NS else int(base)


def _device_names(header: Mapping[str, Any]) -> dict[str, str]:
    """Device -> its name, as the trace's properties say it."""
    properties = header.get("deviceProperties")
    entries = [entry for entry in properties if isinstance(entry, dict)] if isinstance(properties, list) else []
    return {f"device {entry.get('id')}": str(entry.get("name", "not said")) for entry in entries}


def _kind_of_device(calls: pl.DataFrame, names: list[str]) -> str:
    for kind, pattern in _DEVICES.items():
        said = pl.col("name").fill_null("").str.contains(pattern) | pl.col("cat").str.contains(f"(?i){pattern}")
        if 2 * int(by_value(calls, ["cat", "name"], said=said)["said"].sum()) > calls.height:
            return kind
    if not calls.is_empty():
        return "cuda"
    return next((kind for kind, pattern in _MAKERS.items() if any(re.search(pattern, n) for n in names)), "cuda")
