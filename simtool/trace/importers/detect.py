"""Which importer a path calls for: a folder is a torch_npu profile; a file says what it is by its content."""

from __future__ import annotations

from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.frames import make_frame
from simtool.trace.importers.given import check_file
from simtool.trace.importers.imported import Imported, Source, import_manifest
from simtool.trace.importers.profile import DEFAULTS, ProfileOptions, import_profile, is_profile_table
from simtool.trace.importers.request_traces.text import other_encoding
from simtool.trace.importers.requests import RequestTrace, is_request_trace, read_requests
from simtool.trace.importers.step_log.importing import import_step_log
from simtool.trace.importers.step_log.read import looks_like_step_log
from simtool.trace.schema import TABLES
from simtool.units import TimeUnit


def import_path(path: Path, options: ProfileOptions = DEFAULTS, unit: TimeUnit | None = None) -> Imported:
    """Read whatever lies at the path. options: of profiles only; unit: of a request trace's times.

    Raises TraceError when nothing is there, it is of no known format, or an option does not apply.
    """
    check_file(path)
    if not path.exists():
        raise TraceError(f"{path}: is not there; give a profiler's output or a request trace")
    if path.is_dir() or is_profile_table(path):
        if unit is not None:
            raise TraceError(f"{path}: --time-unit is for request traces, and this is none; leave it out")
        return import_profile(path, options)
    if looks_like_step_log(path):
        if options != DEFAULTS or unit is not None:
            raise TraceError(
                f"{path}: a step log has no streams and says its times, so --lane and --time-unit do not apply"
            )
        return import_step_log(path)
    if _is_requests(path):
        if options != DEFAULTS:
            raise TraceError(f"{path}: a request trace has no streams and no steps, so none can be chosen")
        return import_requests(read_requests(path, unit))
    if unit is not None:
        raise TraceError(f"{path}: --time-unit is for request traces, and this is none; leave it out")
    return import_profile(path, options)


def _is_requests(path: Path) -> bool:
    """By content, and by name where the content says nothing. UTF-16 is refused here for every format."""
    try:
        with path.open("rb") as file:
            encoding = other_encoding(file.read(64))
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); give a file that can be") from error
    if encoding:
        raise TraceError(f"{path}: is {encoding} text; convert it first: iconv -f {encoding} -t UTF-8 {path.name}")
    return is_request_trace(path) or path.suffix.lower() in (".csv", ".jsonl")


def import_requests(trace: RequestTrace) -> Imported:
    """Turn a request trace into a trace's `requests`: arrivals and lengths, none of them served."""
    frame = make_frame(
        TABLES["requests"],
        {
            "request_id": [request.request_id for request in trace.requests],
            "arrival_ns": [request.arrival_ns for request in trace.requests],
            "prompt_tokens": [request.prompt_tokens for request in trace.requests],
            "output_tokens": [0 for _ in trace.requests],
            "max_new_tokens": [request.max_new_tokens for request in trace.requests],
        },
    )
    source = Source(
        path=trace.source,
        format=f"{trace.format} request trace",
        version="not said",
        device="cpu",
        device_name="none",
        clock="the first arrival",
    )
    details = {"requests": len(trace.requests), **trace.ledger.to_dict()}
    return Imported(import_manifest(source, details, trace.warnings), {"requests": frame})
