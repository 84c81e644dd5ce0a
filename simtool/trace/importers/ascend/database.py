"""A profiler's sqlite database (torch_npu's ascend_pytorch_profiler*.db, msprof's msprof_*.db) -> a timeline.

Times are ns since 1970. Names are numbers into STRING_IDS. TASK holds what ran on a device, COMPUTE_TASK_INFO the
kernels' names, COMMUNICATION_OP the collective operators, CANN_API the host's calls; `connectionId` joins the sides.
The file is opened read-only and unlocked: it may lie on a medium that cannot be written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import polars as pl

from simtool.errors import TraceError
from simtool.trace.importers.ascend.timeline_json import MARKERS, STEP_MARK, WAITS
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import CALLS, RANGES, WORKS, StepMark, Timeline, WorkKind
from simtool.trace.importers.written import whole

_MAGIC = b"SQLite format 3\0"
_COPIES = {0: WorkKind.OTHER, 1: WorkKind.UPLOAD, 2: WorkKind.DOWNLOAD, 6: WorkKind.UPLOAD, 7: WorkKind.DOWNLOAD}
_MAX_NS = (1 << 63) - 1
_PART = "(SELECT 1 FROM COMMUNICATION_TASK_INFO p WHERE p.globalTaskId = t.globalTaskId LIMIT 1) "
_SPAN: dict[str, type[pl.DataType]] = {"start_ns": pl.Int64, "end_ns": pl.Int64}
_LINK: dict[str, type[pl.DataType]] = {"link": pl.Int64}


def is_database(head: bytes) -> bool:
    """Say whether a file's first bytes are those of an sqlite database."""
    return head.startswith(_MAGIC)


def read_database(path: Path, ledger: Ledger) -> tuple[Timeline, str]:
    """Read a database; return its timeline and the device's name. Raises TraceError when it is none of a profiler."""
    try:
        address = f"file:{quote(str(path.resolve()))}?mode=ro&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.text_factory = lambda data: data.decode("utf-8", "replace")
            database = _Database(connection, ledger)
            if not database.has("TASK") and not database.has("COMMUNICATION_OP"):
                tables = ", ".join(sorted(database.tables)[:6]) or "none"
                raise TraceError(
                    f"{path}: has no table TASK, so it tells of no device work (its tables: {tables}); give "
                    "ascend_pytorch_profiler*.db or msprof_*.db, exported with device tasks"
                )
            return database.timeline(), database.device_name()
    except (sqlite3.Error, OverflowError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read as an sqlite database ({error}); export it again") from error


class _Database:
    def __init__(self, connection: sqlite3.Connection, ledger: Ledger) -> None:
        self._connection, self._ledger = connection, ledger
        names = connection.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
        self.tables = {
            str(name).upper(): {str(row[1]).upper() for row in connection.execute(f'PRAGMA table_info("{name}")')}
            for (name,) in names.fetchall()
            if '"' not in str(name)
        }

    def has(self, table: str, *columns: str) -> bool:
        """Say whether there is such a table, with such columns."""
        return table in self.tables and {column.upper() for column in columns} <= self.tables[table]

    def timeline(self) -> Timeline:
        """Read all that a timeline holds."""
        works = pl.concat([self._tasks(), self._operators()])
        calls = self._calls(works)
        ranges = self._ranges()
        marks, ranges = _marks(ranges), ranges.filter(~pl.col("name").cast(pl.String).str.contains(STEP_MARK))
        return Timeline(calls=calls, works=works, ranges=ranges, marks=[*self._step_times(), *marks])

    def device_name(self) -> str:
        """Return what NPU_INFO calls the first device."""
        if self.has("NPU_INFO", "id", "name"):
            for (name,) in self._connection.execute("SELECT name FROM NPU_INFO ORDER BY id LIMIT 1"):
                return f"Ascend {name}" if name else "Ascend NPU (model not said)"
        return "Ascend NPU (model not said)"

    def _tasks(self) -> pl.DataFrame:
        if not self.has("TASK", "startNs", "endNs", "deviceId", "streamId", "globalTaskId"):
            return pl.DataFrame(schema=dict(WORKS))
        computes = self.has("COMPUTE_TASK_INFO", "globalTaskId", "name")
        parts = self.has("COMMUNICATION_TASK_INFO", "globalTaskId") and self._count("COMMUNICATION_OP") > 0
        copies = self.has("MEMCPY_INFO", "globalTaskId", "size", "memcpyOperation")
        connection = "t.connectionId" if self.has("TASK", "connectionId") else "NULL"
        query = (
            f"SELECT t.startNs, t.endNs, t.deviceId, t.streamId, {connection}, task.value, "
            + ("compute.value, " if computes else "NULL, ")
            + ("m.memcpyOperation, m.size, " if copies else "NULL, NULL, ")
            + (_PART if parts else "NULL ")
            + "FROM TASK t LEFT JOIN STRING_IDS task ON task.id = t.taskType "
            + ("LEFT JOIN COMPUTE_TASK_INFO c ON c.globalTaskId = t.globalTaskId " if computes else "")
            + ("LEFT JOIN STRING_IDS compute ON compute.id = c.name " if computes else "")
            + ("LEFT JOIN MEMCPY_INFO m ON m.globalTaskId = t.globalTaskId " if copies else "")
        )
        schema: dict[str, type[pl.DataType]] = {
            **_SPAN,
            "device": pl.String,
            "stream": pl.String,
            **_LINK,
            "task": pl.String,
            "kernel": pl.String,
            "operation": pl.Int64,
            "bytes": pl.Int64,
            "part": pl.Int64,
        }
        tasks = self._frame(query, schema, "TASK")
        part = pl.col("part").is_not_null()
        self._ledger.drop("parts of communication operators", int(tasks.select(part.sum()).item()))
        marker = pl.col("task").str.contains(MARKERS).fill_null(False) & pl.col("kernel").is_null()
        for task, count in tasks.filter(marker & ~part)["task"].value_counts(sort=True).iter_rows():
            self._ledger.drop(f"task type {task}", count)
        return self._as_works(tasks.filter(~part & ~marker))

    def _as_works(self, tasks: pl.DataFrame) -> pl.DataFrame:
        name = pl.coalesce("kernel", "task", pl.lit("not named"))
        other = name.str.contains("(?i)memcpy|memset|sdma|pcie_dma") & pl.col("kernel").is_null()
        kinds = {number: kind.value for number, kind in _COPIES.items()}
        copy = pl.col("operation").replace_strict(kinds, default=WorkKind.OTHER.value, return_dtype=pl.String)
        kind = (
            pl.when(pl.col("operation").is_not_null())
            .then(copy)
            .when(other)
            .then(pl.lit(WorkKind.OTHER.value))
            .otherwise(pl.lit(WorkKind.KERNEL.value))
        )
        several = tasks["device"].n_unique() > 1
        stream = pl.format("device {} stream {}", "device", "stream") if several else pl.format("stream {}", "stream")
        moves = kind.is_in([WorkKind.UPLOAD.value, WorkKind.DOWNLOAD.value])
        return tasks.with_columns(pl.col("device", "stream").fill_null("-")).select(
            name.cast(pl.Categorical).alias("name"),
            pl.format("device {}", "device").cast(pl.Categorical).alias("device"),
            stream.cast(pl.Categorical).alias("stream"),
            kind.cast(pl.Categorical).alias("kind"),
            "start_ns",
            "end_ns",
            "link",
            pl.when(moves & pl.col("bytes").ge(0)).then("bytes").fill_null(0).alias("bytes"),
        )

    def _operators(self) -> pl.DataFrame:
        if not self.has("COMMUNICATION_OP", "startNs", "endNs", "opName", "connectionId"):
            return pl.DataFrame(schema=dict(WORKS))
        device = "o.deviceId" if self.has("COMMUNICATION_OP", "deviceId") else "(SELECT MIN(deviceId) FROM TASK)"
        group = "o.groupName" if self.has("COMMUNICATION_OP", "groupName") else "0"
        query = (
            f"SELECT o.startNs, o.endNs, {device}, {group}, o.connectionId, s.value "
            "FROM COMMUNICATION_OP o LEFT JOIN STRING_IDS s ON s.id = o.opName"
        )
        texts = {"device": pl.String, "group": pl.String}
        schema: dict[str, type[pl.DataType]] = {**_SPAN, **texts, **_LINK, "name": pl.String}
        operators = self._frame(query, schema, "COMMUNICATION_OP")
        groups = operators["group"].fill_null("-").rank("dense").cast(pl.Int64)
        return operators.select(
            pl.col("name").fill_null("not named").cast(pl.Categorical),
            pl.format("device {}", pl.col("device").fill_null("-")).cast(pl.Categorical).alias("device"),
            pl.format("communication {}", groups).cast(pl.Categorical).alias("stream"),
            pl.lit(WorkKind.OTHER.value).cast(pl.Categorical).alias("kind"),
            "start_ns",
            "end_ns",
            "link",
            pl.lit(0, pl.Int64).alias("bytes"),
        )

    def _calls(self, works: pl.DataFrame) -> pl.DataFrame:
        if not self.has("CANN_API", "startNs", "endNs", "globalTid", "connectionId", "name"):
            return pl.DataFrame(schema=dict(CALLS))
        query = (
            "SELECT a.startNs, a.endNs, a.globalTid >> 32, a.globalTid & 4294967295, a.connectionId, s.value "
            "FROM CANN_API a LEFT JOIN STRING_IDS s ON s.id = a.name"
        )
        schema: dict[str, type[pl.DataType]] = {**_SPAN, "pid": pl.String, "tid": pl.String, **_LINK, "name": pl.String}
        calls = self._frame(query, schema, "CANN_API").with_columns(name=pl.col("name").fill_null("not named"))
        waits = pl.col("name").str.contains(WAITS)
        kept = calls.filter(waits | pl.col("link").is_in(works["link"].drop_nulls().unique().implode()))
        self._ledger.drop("CANN calls that neither launch nor wait", calls.height - kept.height)
        return kept.select(
            pl.col("name").cast(pl.Categorical),
            pl.format("pid {}", pl.col("pid").fill_null("-")).cast(pl.Categorical).alias("process"),
            pl.format("thread {}", pl.col("tid").fill_null("-")).cast(pl.Categorical).alias("thread"),
            "start_ns",
            "end_ns",
            "link",
            waits.alias("waits"),
            pl.lit(None, pl.Categorical()).alias("waits_stream"),
            pl.lit(None, pl.Int64).alias("waits_until_ns"),
        )

    def _ranges(self) -> pl.DataFrame:
        """MSTX ranges, and what the framework's own table annotates: names without an op's "::"."""
        found = [pl.DataFrame(schema=dict(RANGES))]
        schema: dict[str, type[pl.DataType]] = {**_SPAN, "pid": pl.String, "tid": pl.String, "name": pl.String}
        for table, name in (("MSTX_EVENTS", "message"), ("PYTORCH_API", "name")):
            if not self.has(table, "startNs", "endNs", "globalTid", name):
                continue
            query = (
                f"SELECT r.startNs, r.endNs, r.globalTid >> 32, r.globalTid & 4294967295, s.value "
                f"FROM {table} r LEFT JOIN STRING_IDS s ON s.id = r.{name}"
            )
            ranges = self._frame(query, schema, table)
            op = pl.col("name").str.contains("::", literal=True).fill_null(True)
            moment = pl.col("start_ns") == pl.col("end_ns")
            unused = (op if table == "PYTORCH_API" else moment) | pl.col("name").is_null()
            self._ledger.drop(f"{table}: ops, or marks without a length", ranges.filter(unused).height)
            found.append(
                ranges.filter(~unused).select(
                    pl.col("name").cast(pl.Categorical),
                    pl.format("pid {}", pl.col("pid").fill_null("-")).cast(pl.Categorical).alias("process"),
                    pl.format("thread {}", pl.col("tid").fill_null("-")).cast(pl.Categorical).alias("thread"),
                    "start_ns",
                    "end_ns",
                )
            )
        return pl.concat(found)

    def _step_times(self) -> list[StepMark]:
        if not self.has("STEP_TIME", "id", "startNs", "endNs"):
            return []
        rows = self._connection.execute("SELECT id, startNs, endNs FROM STEP_TIME")
        marks = []
        for number, start, end in ([_integer(value) for value in row] for row in rows):
            if number is None or start is None or end is None or not (0 <= number < 10**9 and start <= end):
                self._ledger.reject("row of STEP_TIME is no step", f"{number}: {start} to {end}")
            else:
                marks.append(StepMark(number, (start, end)))
        return marks

    def _count(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]) if self.has(table) else 0

    def _frame(self, query: str, schema: Mapping[str, type[pl.DataType]], table: str) -> pl.DataFrame:
        """Rows as a table; those without two times in order are rejected. The first two columns are the times."""
        integers = [place for place, dtype in enumerate(schema.values()) if dtype is pl.Int64]
        rows: list[tuple[object, ...]] = []
        lost = 0
        for row in _typed(self._connection.execute(query), integers):
            start, end = row[0], row[1]
            if isinstance(start, int) and isinstance(end, int) and start <= end:
                rows.append(row)
            else:
                lost += 1
        self._ledger.reject(f"row of {table} has no span of time", f"{lost} rows", lost)
        return pl.DataFrame(rows, schema=dict(schema), orient="row")


def _typed(cursor: sqlite3.Cursor, integers: list[int]) -> Iterator[tuple[object, ...]]:
    """Numbers where numbers belong (some versions write times as texts), texts elsewhere."""
    wanted = set(integers)
    for row in cursor:
        yield tuple(_integer(value) if i in wanted else _text(value) for i, value in enumerate(row))


def _integer(value: object) -> int | None:
    found = whole(value)
    return found if found is not None and abs(found) <= _MAX_NS else None


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else None


def _marks(ranges: pl.DataFrame) -> list[StepMark]:
    named = ranges.filter(pl.col("name").cast(pl.String).str.contains(STEP_MARK))
    numbers = named["name"].cast(pl.String).str.extract(STEP_MARK).cast(pl.Int64)
    return [StepMark(*row) for row in zip(numbers, zip(named["start_ns"], named["end_ns"], strict=True), strict=True)]
