"""A torch_npu or msprof folder, or one file of it: which of its files tell most, and do they agree?"""

from __future__ import annotations

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
    folders = [
        folder for place in _PLACES for folder in ([path] if not place else sorted(path.glob(place))) if folder.is_dir()
    ]
    found = [files for folder in folders if (files := _files_in(folder)) is not None]
    whole = [files for files in found if files.timeline or files.kernels] or found
    if not whole:
        raise TraceError(
            f"{path}: neither {TIMELINE} nor {KERNELS} nor a profiler's .db in it; give a torch_npu profiler's folder "
            "(*_ascend_pt), analysed, or one of these files"
        )
    if len(whole) > 1:
        names = ", ".join(str(files.place.relative_to(path)) for files in whole)
        raise TraceError(f"{path}: holds {len(whole)} profiles ({names}); give one of them")
    return whole[0]


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
