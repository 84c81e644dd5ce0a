"""A torch_npu or msprof folder, or one file of it: which of its files tell most, and do they agree?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simtool.errors import TraceError

TIMELINE, KERNELS, STEP_TIMES = "trace_view.json", "kernel_details.csv", "step_trace_time.csv"
_PLACES = (
    "",
    "ASCEND_PROFILER_OUTPUT",
    "*_ascend_pt",
    "*_ascend_pt/ASCEND_PROFILER_OUTPUT",
    "PROF_*",
    "PROF_*/mindstudio_profiler_output",
    "mindstudio_profiler_output",
    "*_ascend_pt/PROF_*/mindstudio_profiler_output",
    "timeline",
    "PROF_*/timeline",
    "PROF_*/device_*/timeline",
)
_TIMELINES = (TIMELINE, "msprof_[0-9]*.json", "msprof.json")
_KERNELS = (KERNELS, "op_summary_*.csv")
_DATABASES = ("ascend_pytorch_profiler*.db", "ascend_mindspore_profiler*.db", "msprof_*.db")


@dataclass(frozen=True)
class ProfileFiles:
    """The files of one profile that are there."""

    place: Path
    timeline: Path | None = None
    kernels: Path | None = None
    step_times: Path | None = None
    database: Path | None = None


def find_files(path: Path) -> ProfileFiles:
    """Find the one profile at or under a path. Raises TraceError when there is none, or several."""
    found = _found_first(path, lambda files: bool(files.timeline or files.kernels)) or _found_first(
        path, lambda _: True
    )
    if not found:
        raise TraceError(
            f"{path}: neither {TIMELINE} nor {KERNELS} nor a profiler's .db in it; give a torch_npu profiler's folder "
            "(*_ascend_pt), analysed, or one of these files"
        )
    if len(found) > 1:
        names = ", ".join(str(files.place.relative_to(path)) for files in found)
        raise TraceError(f"{path}: holds {len(found)} profiles ({names}); give one of them")
    return found[0]


def _found_first(path: Path, wanted: Callable[[ProfileFiles], bool]) -> list[ProfileFiles]:
    """The profiles at the first of the places that holds any that are wanted: others repeat it in raw or older form."""
    for place in _PLACES:
        folders = [path] if not place else sorted(path.glob(place))
        read = [files for folder in folders if folder.is_dir() and (files := _files_in(folder)) is not None]
        if found := [files for files in read if wanted(files)]:
            return found
    return []


def _files_in(folder: Path) -> ProfileFiles | None:
    timeline, kernels, database = (_first(folder, names) for names in (_TIMELINES, _KERNELS, _DATABASES))
    if not (timeline or kernels or database):
        return None
    return ProfileFiles(
        place=folder, timeline=timeline, kernels=kernels, step_times=_first(folder, (STEP_TIMES,)), database=database
    )


def _first(folder: Path, patterns: tuple[str, ...]) -> Path | None:
    for pattern in patterns:
        found = sorted(file for file in folder.glob(pattern) if file.is_file())
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise TraceError(f"{folder}: holds {len(found)} files of one kind ({names}); give one of them")
        if found:
            return found[0]
    return None
