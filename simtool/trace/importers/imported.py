"""What every importer returns: a manifest that says it is an import, and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from simtool.trace.manifest import Manifest
from simtool.trace.trace import Trace, write_trace


@dataclass(frozen=True)
class Imported:
    """An import, ready to be written."""

    manifest: Manifest
    frames: Mapping[str, pl.DataFrame]

    def write(self, path: Path, *, force: bool = False) -> Trace:
        """Write it as a trace and return the trace opened."""
        return write_trace(path, self.manifest, self.frames, force=force)


@dataclass(frozen=True)
class Source:
    """Where an import comes from. device: cpu, cuda or npu; clock: what its times count from."""

    path: Path
    format: str
    version: str
    device: str
    device_name: str
    clock: str


def import_manifest(source: Source, details: Mapping[str, object], warnings: list[str]) -> Manifest:
    """Return the manifest of an import: no drafter, no placement, no batch is known."""
    return Manifest(
        origin="imported",
        engine=source.format,
        engine_version=source.version,
        device=source.device,
        device_name=source.device_name,
        algorithm="none",
        sl=0,
        block_width=0,
        concurrency=0,
        placement=None,
        seed=0,
        clock=source.clock,
        warnings=warnings,
        details={"source": source.path.name, **details},
    )
