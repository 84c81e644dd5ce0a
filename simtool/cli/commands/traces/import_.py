"""`simtool import`: a profiler's output or a request trace -> a trace, with every loss told."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import FINDING, ForceFlag, JsonFlag, OutPath, TimeUnitOption, check_output
from simtool.cli.shared import console
from simtool.errors import UsageError
from simtool.step.ops import Lane
from simtool.trace.importers.step_log.join_by import JoinBy

if TYPE_CHECKING:
    from simtool.trace.trace import Trace

_TOLD = ("events", "steps", "rows", "requests")
_HEADINGS = (
    "host_threads",
    "lanes",
    "steps",
    "ops",
    "join",
    "overlapping_events",
    "device_work_without_launch",
    "launches_for_other_devices",
    "launch_delay",
    "kernel_details",
    "step_trace_time",
    "dropped",
)
_MOST_LINES = 10
_DEVICE_LANES = tuple(lane for lane in Lane if lane is not Lane.HOST)


def import_(
    source: Annotated[Path | None, typer.Argument(help="torch.profiler JSON (.gz too), a torch_npu profiler's "
                                                "folder, or a request trace (CSV or JSON).")] = None,
    step_log: Annotated[Path | None, typer.Option(help="What the engine told of its steps (docs/step-log.md), alone or "
                                                       "joined with the profile of the same run.")] = None,
    join: Annotated[JoinBy | None, typer.Option(help="Join both by time or by step number; default: by time where "
                                                     "both tell their clock.")] = None,
    out: OutPath = None,
    lane: Annotated[list[str] | None, typer.Option(metavar="STREAM=LANE", help="Put a stream on prepare, compute or "
                    "copy, e.g. 'device 0 stream 7=copy'; default: by what it does. May be repeated.")] = None,
    time_unit: TimeUnitOption = None,
    rules: Annotated[str | None, typer.Option("--map", metavar="FILE|NAME", help="Rules that say which annotation, "
                     "call or kernel is which op (docs/importing.md); vllm, vllm_ascend, sglang, xllm ship.")] = None,
    step_marker: Annotated[str | None, typer.Option(metavar="REGEX", help="A decode step begins with each annotation "
                           "or host call of this name.")] = None,
    device: Annotated[str | None, typer.Option(help="Keep this one of several devices, e.g. 'device 1'; default: the "
                                                    "one with most work.")] = None,
    max_expanded_gib: Annotated[float | None, typer.Option(min=0.001, help="What a .gz may unfold to; default: 4.")]
    = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Turn foreign traces into a trace of origin "imported". Exit 1 when some of the input was broken."""
    lanes = _lanes(lane or [])
    named = _named(source, step_log, join)
    target = out if out is not None else Path(f"{_stem(named)}-imported")
    check_output(target, force=force)
    from simtool.trace.importers.chrome_json.source import MAX_EXPANDED_BYTES
    from simtool.trace.importers.detect import import_path
    from simtool.trace.importers.profile import ProfileOptions
    from simtool.trace.importers.step_log.importing import import_step_log
    from simtool.trace.importers.to_events.mapping import Choices
    from simtool.trace.importers.to_events.rules import load_rules

    choices = Choices(lanes, step_marker, device, load_rules(rules) if rules is not None else None)
    limit = MAX_EXPANDED_BYTES if max_expanded_gib is None else int(max_expanded_gib * (1 << 30))
    options = ProfileOptions(choices, limit)
    found = import_path(source, options, time_unit) if source is not None else None
    whole = import_step_log(step_log, found, join) if step_log is not None else found
    assert whole is not None, "one of the two was given"
    trace = whole.write(target, force=force)
    if json:
        rows = {name: trace.table(name).height for name in _TOLD}
        from simtool.cli.documents.of_traces import ImportDocument
        from simtool.cli.documents.record import document

        console.emit(document(ImportDocument, trace=str(target), rows=rows, manifest=trace.manifest.to_dict()))
    else:
        _print(trace)
    if trace.manifest.imported.rejected:
        raise typer.Exit(FINDING)


def _named(source: Path | None, step_log: Path | None, join: JoinBy | None) -> Path:
    """What the import is named after; refuses nothing at all, and --join without two inputs."""
    named = step_log or source
    if named is None:
        raise UsageError("nothing to import; give a profiler's output, a request trace, or --step-log FILE")
    if join is not None and (source is None or step_log is None):
        raise UsageError("--join has no effect without --step-log and a profile; leave it out")
    return named


def _stem(source: Path) -> str:
    """The name without .json, .json.gz and the like; a folder's name whole."""
    name = source.resolve().name
    return name if source.is_dir() else name.removesuffix(".gz").rsplit(".", 1)[0]


def _lanes(texts: list[str]) -> dict[str, Lane]:
    lanes: dict[str, Lane] = {}
    for text in texts:
        stream, _, name = text.rpartition("=")
        if not stream or name not in _DEVICE_LANES:
            raise UsageError(f"--lane is {text!r}; expected STREAM=LANE, LANE one of {', '.join(_DEVICE_LANES)}")
        if stream in lanes:
            raise UsageError(f"--lane names stream {stream!r} twice; give each stream one lane")
        lanes[stream] = Lane(name)
    return lanes


def _print(trace: Trace) -> None:
    details = trace.manifest.details
    rows = ", ".join(f"{trace.table(name).height:,} {name}" for name in _TOLD if trace.table(name).height)
    console.line(f"{trace.manifest.engine}: {rows or 'nothing'}")
    for heading in _HEADINGS:
        lines = _lines(details.get(heading))
        for line in lines[:_MOST_LINES]:
            console.line(f"  {heading.replace('_', ' ')}: {line}")
        if len(lines) > _MOST_LINES:
            console.line(f"  {heading.replace('_', ' ')}: and {len(lines) - _MOST_LINES:,} more, in manifest.json")
    for warning in trace.manifest.warnings:
        console.line(f"warning: {warning}")
    console.line(f"wrote {trace.path}")
    console.note(f"next: {_next(trace)}")


def _next(trace: Trace) -> str:
    """What answers a question with what was imported."""
    if trace.table("steps").is_empty() and trace.table("requests").is_empty():
        return f"simtool inspect {trace.path}; its steps take --step-marker, or the run's step log (--step-log)"
    if trace.table("steps").is_empty():
        return f"simtool replay TRACE --policy all --requests {trace.path}, with a TRACE whose outcomes they take"
    if trace.table("outcomes").is_empty():
        return f"simtool inspect {trace.path}; what a placement would gain needs a step log too (--step-log)"
    return f"simtool advise {trace.path}"


def _lines(value: object) -> list[str]:
    """One line an entry of a table, the largest counts first; a table of tables says its inner entries in one line."""
    if not isinstance(value, dict):
        return [] if value is None else [str(value)]
    counts = bool(value) and all(isinstance(inner, int) for inner in value.values())
    entries = sorted(value.items(), key=lambda item: -item[1]) if counts else value.items()
    return [f"{name}: {_flat(inner)}" for name, inner in entries]


def _flat(value: object) -> str:
    return ", ".join(f"{name} {inner}" for name, inner in value.items()) if isinstance(value, dict) else str(value)
