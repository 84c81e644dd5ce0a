"""A step log, alone or with the profile of the same run -> one trace of origin "imported"."""

from __future__ import annotations

from pathlib import Path

from simtool.trace.importers.imported import Imported
from simtool.trace.importers.step_log.join import join_events
from simtool.trace.importers.step_log.join_by import JoinBy
from simtool.trace.importers.step_log.read import StepLog, read_step_log
from simtool.trace.importers.step_log.tables import LogTables, log_tables
from simtool.trace.manifest import ALGORITHMS, Manifest

_DEVICES = ("cpu", "cuda", "npu")


def import_step_log(path: Path, profile: Imported | None = None, by: JoinBy | None = None) -> Imported:
    """Read a step log; profile: of the same run, whose events are put into the log's steps. by: None: as they allow.

    Raises TraceError when the log cannot be read, or the two cannot be joined.
    """
    log = read_step_log(path)
    tables = log_tables(log)
    if profile is None:
        return Imported(_manifest(log, tables, None, {}, []), tables.frames)
    joined = join_events(log, tables, profile, by)
    return Imported(_manifest(log, tables, profile.manifest, joined.details, joined.notes), joined.frames)


def _manifest(
    log: StepLog, tables: LogTables, profile: Manifest | None, joined: dict[str, object], notes: list[str]
) -> Manifest:
    header = log.header
    algorithm = header.algorithm if header.algorithm in ALGORITHMS else "none"
    batches = tables.frames["steps"]["batch"].max()
    sources = header.models
    known = profile is not None and profile.device_name != "not said" and header.device_name == "not said"
    details = {
        **(profile.details if profile is not None else {}),
        "source": log.path.name,
        **header.details,
        **{name: value for name in ("block_size", "kv_blocks") if (value := getattr(header, name)) is not None},
        **({"algorithm": header.algorithm} if algorithm != header.algorithm else {}),
        **tables.details,
        **({"join": joined, "profile_source": profile.details["source"]} if profile is not None else {}),
        **_losses(log, profile),
    }
    return Manifest(
        origin="imported",
        engine=header.engine,
        engine_version=header.engine_version,
        device=header.device if header.device in _DEVICES else (profile.device if profile else "cuda"),
        device_name=profile.device_name if known and profile else header.device_name,
        models={role: dict(model) for role, model in sources.items()},
        algorithm=algorithm,
        sl=header.sl,
        block_width=header.block_width or (header.sl if header.algorithm == "dspark" else header.sl + 1),
        concurrency=header.concurrency or (batches if isinstance(batches, int) else 0),
        placement=None,
        sampling={} if header.temperature is None else {"temperature": header.temperature},
        controller=header.controller,
        seed=0,
        clock=profile.clock if profile is not None else header.clock,
        warnings=[*log.ledger.warnings(), *tables.notes, *notes, *(profile.warnings if profile is not None else [])],
        details=details,
    )


def _losses(log: StepLog, profile: Manifest | None) -> dict[str, object]:
    """What either source could not use, under the keys that every import has."""
    own = log.ledger.to_dict()
    if profile is None:
        return own
    merged: dict[str, object] = {}
    for key, value in own.items():
        other = profile.details.get(key)
        merged[key] = {**(other if isinstance(other, dict) else {}), **(value if isinstance(value, dict) else {})}
    return merged
