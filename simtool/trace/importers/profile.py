"""A profiler's output, of whichever kind, -> an import."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.importers.ascend.database import is_database
from simtool.trace.importers.ascend.folder import ProfileFiles, find_files
from simtool.trace.importers.ascend.kernel_details import looks_like_kernel_details
from simtool.trace.importers.ascend.read import AscendProfile, read_ascend
from simtool.trace.importers.ascend.timeline_json import is_ascend
from simtool.trace.importers.chrome_json.columns import Columns, gather
from simtool.trace.importers.chrome_json.events import EventFile
from simtool.trace.importers.chrome_json.source import MAX_EXPANDED_BYTES
from simtool.trace.importers.given import check_file
from simtool.trace.importers.imported import Imported, Source, import_manifest
from simtool.trace.importers.kineto import KinetoProfile, read_kineto
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.to_events.mapping import Choices, Mapped, map_timeline


@dataclass(frozen=True)
class ProfileOptions:
    """How to read a profile. max_expanded_bytes: what a .gz may unfold to."""

    choices: Choices = field(default_factory=Choices)
    max_expanded_bytes: int = MAX_EXPANDED_BYTES


DEFAULTS = ProfileOptions()


def import_profile(path: Path, options: ProfileOptions = DEFAULTS) -> Imported:
    """Read a profiler's file, or a torch_npu or msprof folder.

    Raises TraceError when it is no profile, holds neither device work nor host calls, or a choice does not fit it.
    """
    check_file(path)
    ledger = Ledger()
    if path.is_dir():
        return _of_ascend(path, read_ascend(find_files(path), ledger, options.max_expanded_bytes), ledger, options)
    if (table := _single_table(path)) is not None:
        return _of_ascend(path, read_ascend(table, ledger, options.max_expanded_bytes), ledger, options)
    file = EventFile(path, ledger, options.max_expanded_bytes)
    columns = gather(file.lists(), ledger)
    if is_ascend(columns):
        files = ProfileFiles(path.parent, timeline=path)
        return _of_ascend(path, read_ascend(files, ledger, options.max_expanded_bytes, columns), ledger, options)
    return _of_kineto(path, columns, read_kineto(columns, file.header, ledger), ledger, options)


def is_profile_table(path: Path) -> bool:
    """Say whether a file is a table or a database of an Ascend profiler."""
    return _single_table(path) is not None


def _single_table(path: Path) -> ProfileFiles | None:
    """The one file that is given, where it is a table or a database of an Ascend profiler."""
    try:
        with path.open("rb") as file:
            head = file.readline(1 << 16)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); give a profiler's file or folder") from error
    if is_database(head):
        return ProfileFiles(path.parent, database=path)
    if looks_like_kernel_details(head.decode("utf-8", "replace")):
        return ProfileFiles(path.parent, kernels=path)
    return None


def _of_ascend(path: Path, profile: AscendProfile, ledger: Ledger, options: ProfileOptions) -> Imported:
    mapped = map_timeline(profile.timeline, ledger, options.choices)
    source = Source(
        path=path,
        format="torch_npu profiler",
        version="not said",
        device="npu",
        device_name=profile.device_name,
        clock="unix time",
    )
    return _imported(source, mapped, profile.details, profile.warnings)


def _of_kineto(
    path: Path, columns: Columns, profile: KinetoProfile, ledger: Ledger, options: ProfileOptions
) -> Imported:
    if profile.timeline.works.is_empty() and profile.timeline.calls.is_empty():
        raise TraceError(
            f"{path}: {columns.events} events, none a kernel, copy or runtime call; profile with device activities"
        )
    mapped = map_timeline(profile.timeline, ledger, options.choices)
    shared = set(profile.device_names.values())
    name = profile.device_names.get(mapped.device or "", shared.pop() if len(shared) == 1 else "not said")
    clock = "unix time" if profile.base_ns is not None else "ts of the trace, as given"
    source = Source(
        path=path,
        format="torch.profiler (Kineto)",
        version=profile.version,
        device=profile.device,
        device_name=name,
        clock=clock,
    )
    return _imported(source, mapped, {}, [])


def _imported(source: Source, mapped: Mapped, details: dict[str, object], warnings: list[str]) -> Imported:
    manifest = import_manifest(source, {**details, **mapped.details}, [*mapped.warnings, *warnings])
    return Imported(manifest, mapped.frames)
