"""trace_view.json of torch_npu, or msprof's own timeline -> a timeline.

The process "Ascend Hardware" (formerly "Task Scheduler") has a thread a stream, "CANN" (formerly a process for each
of AscendCL, GE and Runtime) the host's calls, "HCCL" or "Communication" the collective operators and their parts.
A launch and its work name each other by an arrow of category HostToDevice, or by equal `connection_id`; older CANN
gives the two sides different ids, so an arrow goes before an id.
"""

from __future__ import annotations

import re

import polars as pl

from simtool.trace.importers.chrome_json.columns import Columns
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import CALLS, RANGES, WORKS, StepMark, Timeline, WorkKind

_HARDWARE = re.compile(r"ascend hardware|task scheduler$", re.IGNORECASE)
_ROLES = {
    "hardware": _HARDWARE,
    "host": re.compile(r"(?:cann|ascendcl|acl|ge|runtime|model|node)$", re.IGNORECASE),
    "communication": re.compile(r"(?:hccl|communication|lccl)$", re.IGNORECASE),
    "ranges": re.compile(r"(?:ms_?tx|msproftx|python|pytorch|mindspore)\b", re.IGNORECASE),
}
STEP_MARK = r"^ProfilerStep#(\d{1,9})\b"
WAITS = r"Synchronize|^(?:AscendCL@)?aclrtMemcpy(?:2d)?$"
#: Task types that order streams or write flags; nothing is computed or moved in them.
MARKERS = r"(?i)^(?:EVENT_|PLACE_HOLDER|NOTIFY|WRITE.VALUE|PROFILING_|MAINTENANCE|STARS_COMMON|MODEL_MAINT)"


def is_ascend(columns: Columns) -> bool:
    """Say whether a trace file's processes are those of an Ascend timeline."""
    names = list(columns.processes.values())
    return any(_HARDWARE.match(name) for name in names) or any(name == "CANN" for name in names)


def read_timeline(columns: Columns, ledger: Ledger) -> Timeline:
    """Sort the spans of an Ascend timeline; what has no use is counted by process."""
    role = {pid: _role(name) for pid, name in columns.processes.items()}
    spans = columns.spans.with_columns(pl.col("cat", "name", "pid", "tid", "task_type", "device").cast(pl.String))
    spans = spans.with_columns(
        name=pl.col("name").fill_null("not named"),
        pid=pl.col("pid").fill_null(""),
        tid=pl.col("tid").fill_null(""),
        role=pl.col("pid").replace_strict(role or {"": ""}, default="rest", return_dtype=pl.String).fill_null("rest"),
    )
    mark = pl.col("name").str.contains(STEP_MARK)
    spans = spans.with_columns(role=pl.when(mark).then(pl.lit("mark")).otherwise("role"))
    host = spans.filter(pl.col("role") == "host")
    hardware = _without_markers(spans.filter(pl.col("role") == "hardware"), ledger)
    communication = _operators(spans.filter(pl.col("role") == "communication"), columns, ledger)
    works = _without_parts(_resolve(host, pl.concat([hardware, communication]), columns.arrows), ledger)
    table = _works(works, _devices(columns))
    _count_rest(spans.filter(pl.col("role") == "rest"), columns, ledger)
    return Timeline(
        calls=_useful(_calls(host), table, ledger),
        works=table,
        ranges=_ranges(spans.filter(pl.col("role") == "ranges"), ledger),
        marks=_marks(spans.filter(pl.col("role") == "mark")),
    )


def _role(process: str) -> str:
    return next((role for role, pattern in _ROLES.items() if pattern.match(process)), "rest")


def _count_rest(rest: pl.DataFrame, columns: Columns, ledger: Ledger) -> None:
    for pid, count in rest["pid"].value_counts(sort=True).iter_rows():
        ledger.drop(f"process {columns.processes.get(pid, 'not named')}", count)


def _without_markers(spans: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    marker = pl.col("task_type").str.contains(MARKERS).fill_null(False)
    for task, count in spans.filter(marker)["task_type"].value_counts(sort=True).iter_rows():
        ledger.drop(f"task type {task}", count)
    return spans.filter(~marker)


def _operators(spans: pl.DataFrame, columns: Columns, ledger: Ledger) -> pl.DataFrame:
    """The collective operators, not the parts of them that run on each plane; all rows where no row is a part."""
    planes = [tid for (_, tid), name in columns.threads.items() if name.startswith("Plane")]
    part = pl.col("tid").is_in(planes)
    kept = spans.filter(~part)
    if kept.is_empty():
        return spans
    ledger.drop("parts of communication operators", spans.height - kept.height)
    return kept


def _resolve(host: pl.DataFrame, works: pl.DataFrame, arrows: pl.DataFrame) -> pl.DataFrame:
    """Add to works `link`, the row of the host call that launched it; null: not known."""
    ends = arrows.with_columns(pl.col("ph", "pid", "tid").cast(pl.String)).filter(pl.col("id").is_not_null())
    begins = _inside(ends.filter(pl.col("ph") == "s"), host)
    arrivals = ends.filter(pl.col("ph") == "f").join(begins, on="id").unique(["pid", "tid", "start_ns"], keep="first")
    by_id = host.with_row_index("row").filter(_connection().is_not_null()).sort("start_ns", "row")
    by_id = by_id.unique("connection", keep="first").select("connection", id_row="row")
    found = (
        works.join(
            arrivals.select("pid", "tid", "start_ns", "row"),
            on=["pid", "tid", "start_ns"],
            how="left",
            maintain_order="left",
        )
        .with_columns(connection=_connection())
        .join(by_id, on="connection", how="left", maintain_order="left")
    )
    both = found.filter(pl.col("row").is_not_null())
    agree = both.is_empty() or 2 * int((both["row"] == both["id_row"]).fill_null(False).sum()) >= both.height
    row = pl.coalesce("row", "id_row") if agree else pl.col("row")
    return found.with_columns(link=row.cast(pl.Int64)).drop("row", "id_row")


def _without_parts(works: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    """Leave out what a collective operator's own launch ran inside the operator's span: it is the operator again."""
    rows = works.with_row_index("part")
    operators = rows.filter((pl.col("role") == "communication") & pl.col("link").is_not_null())
    operators = operators.select("link", first_ns="start_ns", last_ns="end_ns")
    inside = (pl.col("start_ns") >= pl.col("first_ns")) & (pl.col("end_ns") <= pl.col("last_ns"))
    parts = rows.filter(pl.col("role") == "hardware").join(operators, on="link").filter(inside)["part"].unique()
    ledger.drop("parts of communication operators", len(parts))
    return rows.filter(~pl.col("part").is_in(parts.implode())).drop("part")


def _connection() -> pl.Expr:
    return pl.when(~pl.col("connection").is_in(["4294967295", "-1"])).then("connection")


def _inside(arrows: pl.DataFrame, host: pl.DataFrame) -> pl.DataFrame:
    """The host call (its row) that each arrow begins in: the latest that began by then on its thread."""
    calls = host.with_row_index("row").select("row", "pid", "tid", "start_ns", "end_ns").sort("start_ns", "row")
    found = arrows.sort("start_ns").join_asof(calls, on="start_ns", by=["pid", "tid"], check_sortedness=False)
    inside = pl.col("row").is_not_null() & (pl.col("start_ns") <= pl.col("end_ns"))
    return found.filter(inside).select("id", "row").unique("id", keep="first")


def _calls(host: pl.DataFrame) -> pl.DataFrame:
    return host.with_row_index("row").select(
        pl.col("name").cast(pl.Categorical),
        pl.lit("host").cast(pl.Categorical).alias("process"),
        pl.format("thread {}", "tid").cast(pl.Categorical).alias("thread"),
        "start_ns",
        "end_ns",
        pl.col("row").cast(pl.Int64).alias("link"),
        pl.col("name").str.contains(WAITS).alias("waits"),
        pl.lit(None, pl.Categorical()).alias("waits_stream"),
        pl.lit(None, pl.Int64).alias("waits_until_ns"),
    )


def _works(spans: pl.DataFrame, devices: dict[str, str]) -> pl.DataFrame:
    """A copy's direction is not said, so it counts as other work of its stream, and its bytes are not known."""
    kernel = (pl.col("role") == "hardware") & ~pl.col("name").str.contains("(?i)memcpy|memset|sdma|pcie_dma")
    lane = pl.when(pl.col("role") == "hardware").then(pl.lit("stream")).otherwise(pl.lit("communication"))
    device = pl.col("pid").replace_strict(devices or {"": ""}, default="device -", return_dtype=pl.String)
    stream = pl.format("{} {}", lane, "tid")
    if len(set(devices.values())) > 1:
        stream = pl.format("{} {}", device, stream)
    return spans.select(
        pl.col("name").cast(pl.Categorical),
        device.cast(pl.Categorical).alias("device"),
        stream.cast(pl.Categorical).alias("stream"),
        pl.when(kernel)
        .then(pl.lit(WorkKind.KERNEL.value))
        .otherwise(pl.lit(WorkKind.OTHER.value))
        .cast(pl.Categorical)
        .alias("kind"),
        "start_ns",
        "end_ns",
        "link",
        pl.lit(0, pl.Int64).alias("bytes"),
    ).select(list(WORKS))


def _devices(columns: Columns) -> dict[str, str]:
    """Process of device work -> its device: by its label, else by the number that msprof puts into the low bits."""
    pids = [pid for pid, name in columns.processes.items() if _role(name) in ("hardware", "communication")]
    named: dict[str, str] = {}
    for pid in pids:
        digits = re.search(r"\d+", columns.labels.get(pid, ""))
        coded = int(pid) & _DEVICE_BITS if pid.isdecimal() and int(pid) > _LEAST_CODED else 0
        named[pid] = f"device {digits.group() if digits else coded}"
    return named


_DEVICE_BITS, _LEAST_CODED = 31, 1 << 15


def _ranges(spans: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    """What the engine annotates: neither a library's ops nor the queue between its two threads."""
    op = pl.col("name").str.contains("::", literal=True) | pl.col("cat").is_in(["enqueue", "dequeue"]).fill_null(False)
    kept = spans.filter(~op)
    ledger.drop("host ops that are no annotation", spans.height - kept.height)
    return kept.select(
        pl.col("name").cast(pl.Categorical),
        pl.lit("host").cast(pl.Categorical).alias("process"),
        pl.format("thread {}", "tid").cast(pl.Categorical).alias("thread"),
        "start_ns",
        "end_ns",
    ).select(list(RANGES))


def _marks(spans: pl.DataFrame) -> list[StepMark]:
    numbers = spans["name"].str.extract(STEP_MARK).cast(pl.Int64)
    return [StepMark(*row) for row in zip(numbers, zip(spans["start_ns"], spans["end_ns"], strict=True), strict=True)]


def _useful(calls: pl.DataFrame, works: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    """The calls that launched work or wait for it; CANN logs many that touch no stream."""
    links = works.select("link").drop_nulls().unique().with_columns(launched=True)
    kept = calls.join(links, on="link", how="left", maintain_order="left").filter(pl.col("launched") | pl.col("waits"))
    ledger.drop("CANN calls that neither launch nor wait", calls.height - kept.height)
    return kept.select(list(CALLS))
