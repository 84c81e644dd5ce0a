"""An Ascend profile -> a timeline, from whichever of its files tells most."""

from __future__ import annotations

from dataclasses import dataclass, field

from simtool.errors import TraceError
from simtool.trace.importers.ascend.database import read_database
from simtool.trace.importers.ascend.folder import ProfileFiles
from simtool.trace.importers.ascend.kernel_details import KernelDetails, read_kernel_details
from simtool.trace.importers.ascend.step_times import compare, read_step_times
from simtool.trace.importers.ascend.timeline_json import read_timeline
from simtool.trace.importers.chrome_json.columns import Columns, gather
from simtool.trace.importers.chrome_json.events import EventFile
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.timeline import Timeline


@dataclass
class AscendProfile:
    """details, warnings: what comparing the profile's files with each other showed."""

    timeline: Timeline
    details: dict[str, object] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    device_name: str = "Ascend NPU (model not said)"


def read_ascend(
    files: ProfileFiles, ledger: Ledger, max_expanded_bytes: int, columns: Columns | None = None
) -> AscendProfile:
    """Read a profile. columns: of its timeline file, where that is read already.

    Raises TraceError when no file holds device work.
    """
    if columns is None and files.timeline is not None:
        columns = gather(EventFile(files.timeline, ledger, max_expanded_bytes).lists(), ledger)
    timeline = read_timeline(columns, ledger) if columns is not None else Timeline()
    used = files.timeline.name if files.timeline else ""
    device_name = "Ascend NPU (model not said)"
    if timeline.works.is_empty() and files.database is not None:
        timeline, device_name = read_database(files.database, ledger)
        used = files.database.name
    kernels = read_kernel_details(files.kernels, ledger) if files.kernels else None
    if timeline.works.is_empty() and kernels is not None:
        timeline, used = kernels.timeline, files.kernels.name if files.kernels else ""
    if timeline.works.is_empty():
        names = [file.name for file in (files.timeline, files.kernels, files.database) if file]
        raise TraceError(f"{files.place}: no device work in {' or '.join(names)}; profile with NPU activities")
    profile = AscendProfile(timeline, {"timeline_from": used}, device_name=device_name)
    if kernels is not None and timeline is not kernels.timeline:
        profile.details["kernel_details"] = _compare(kernels, timeline)
    elif files.kernels is not None and kernels is None:
        profile.warnings.append(f"{files.kernels.name} is empty, so it was not compared with the timeline")
    if files.step_times is not None and (times := read_step_times(files.step_times, ledger)) is not None:
        told, warnings = compare(times, timeline.works)
        profile.details["step_trace_time"] = told
        profile.warnings += warnings
    return profile


def _compare(kernels: KernelDetails, timeline: Timeline) -> dict[str, object]:
    """How many kernels of the table the timeline has too, by their exact start."""
    starts = kernels.timeline.works["start_ns"]
    found = starts.is_in(timeline.works["start_ns"].unique().implode()).sum()
    return {"kernels": len(starts), "found_in_timeline": int(found), "streams_named": kernels.streams}
