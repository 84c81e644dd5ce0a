"""The writers that are killed: each of an output over an older one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl

from simtool.files.writing import write_text
from simtool.profile.storage import load_profile, save_profile
from simtool.study.sweep import write_table
from simtool.trace.checks.check import Severity, check_stored
from simtool.trace.exporters.perfetto import export_perfetto
from simtool.trace.frames import make_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, open_trace, replace_table, write_trace
from simtool.trace.writer import TraceWriter
from tests.reliability.killing import Scenario
from tests.replay.synthetic import constant_costs, profile_of
from tests.trace.small import small_manifest, small_tables

_OLD, _NEW = "old" * 40_000, "new" * 40_000


def small_trace(path: Path, *, device_name: str = "old") -> Trace:
    """A small sound trace, whose tables and manifest say which of two it is."""
    frames = {name: make_frame(TABLES[name], columns) for name, columns in small_tables().items()}
    return write_trace(path, small_manifest(device_name=device_name), frames, force=True)


def _file(folder: Path, suffix: str = "") -> Path:
    return folder / "under" / f"out{suffix}"


def _write_text(text: str, folder: Path) -> None:
    write_text(_file(folder), text)


def _text_state(folder: Path) -> str:
    return _file(folder).read_text()[:3] if _file(folder).read_text() in (_OLD, _NEW) else "half"


def _save_profile(cost: int, folder: Path) -> None:
    save_profile(profile_of(constant_costs(pre=cost, duration=5_000)), _file(folder, ".json"))


def _profile_state(folder: Path) -> str:
    cost = load_profile(_file(folder, ".json")).decode.host["schedule"].pre.intercept_ns
    return {1_000: "old", 2_000: "new"}[int(cost)]


def _write_sweep(value: int, suffix: str, folder: Path) -> None:
    write_table(pl.DataFrame({"a": [value] * 50_000}), _file(folder, suffix))


def _sweep_state(suffix: str, folder: Path) -> str:
    read = {".csv": pl.read_csv, ".parquet": pl.read_parquet, ".json": pl.read_json}[suffix]
    frame = read(_file(folder, suffix))
    assert frame.height == 50_000
    return {1: "old", 2: "new"}[frame["a"].unique().item()]


def _nothing(folder: Path) -> None:
    """There is no old output."""


def _new_state(folder: Path) -> str:
    return _text_state(folder) if _file(folder).exists() else "none"


def _export(folder: Path) -> None:
    export_perfetto(open_trace(folder / "trace"), _file(folder, ".json.gz"), force=True)


def _prepare_export(folder: Path) -> None:
    small_trace(folder / "trace")
    write_text(_file(folder, ".json.gz"), _OLD)


def _export_state(folder: Path) -> str:
    import gzip  # noqa: PLC0415

    data = _file(folder, ".json.gz").read_bytes()
    if data == _OLD.encode():
        return "old"
    return "new" if gzip.decompress(data).endswith(b"]}\n") else "half"


def _write_trace(name: str, folder: Path) -> None:
    small_trace(_file(folder), device_name=name)


def _record(name: str, folder: Path) -> None:
    """As a recording does: table by table, flush by flush."""
    with TraceWriter(_file(folder), small_manifest(device_name=name), force=True) as writer:
        for table, columns in small_tables().items():
            writer.append(table, columns)
            writer.flush()


def _trace_state(folder: Path) -> str:
    if not _file(folder).exists():
        return "none"
    trace = open_trace(_file(folder))
    if not trace.manifest.complete:
        return "incomplete"
    findings = [f for f in check_stored(trace) if f.severity is Severity.ERROR]
    assert not findings, findings
    return trace.manifest.device_name


def _fill(folder: Path) -> None:
    trace = open_trace(_file(folder))
    outcomes = trace.table("outcomes").with_columns(source=pl.lit("visited"))
    replace_table(trace, "outcomes", outcomes)


def _fill_state(folder: Path) -> str:
    assert _trace_state(folder) == "old"
    sources = open_trace(_file(folder)).table("outcomes")["source"].unique().to_list()
    return "new" if sources == ["visited"] else "old"


SCENARIOS = {
    "trace": Scenario(partial(_write_trace, "old"), partial(_write_trace, "new"), _trace_state),
    "new trace": Scenario(_nothing, partial(_write_trace, "new"), _trace_state, frozenset({"none", "new"})),
    "recording": Scenario(partial(_record, "old"), partial(_record, "new"), _trace_state),
    "new recording": Scenario(
        _nothing, partial(_record, "new"), _trace_state, frozenset({"none", "incomplete", "new"})
    ),
    "fill": Scenario(partial(_write_trace, "old"), _fill, _fill_state),
    "text": Scenario(partial(_write_text, _OLD), partial(_write_text, _NEW), _text_state),
    "new text": Scenario(_nothing, partial(_write_text, _NEW), _new_state, frozenset({"none", "new"})),
    "profile": Scenario(partial(_save_profile, 1_000), partial(_save_profile, 2_000), _profile_state),
    "csv": Scenario(partial(_write_sweep, 1, ".csv"), partial(_write_sweep, 2, ".csv"), partial(_sweep_state, ".csv")),
    "parquet": Scenario(
        partial(_write_sweep, 1, ".parquet"), partial(_write_sweep, 2, ".parquet"), partial(_sweep_state, ".parquet")
    ),
    "export": Scenario(_prepare_export, _export, _export_state),
}
