"""The table behind the page: for every number its value with its error, and the run it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simtool.analysis.comparison.arms import ORIGIN_WORDS, Arm
from simtool.analysis.comparison.compare import run_interval
from simtool.analysis.comparison.noise import foreign_share
from simtool.analysis.comparison.runs import Run
from simtool.trace.trace import Trace


@dataclass(frozen=True)
class FigureSource:
    """One run: its number, how far off that may be, and how to get it again."""

    label: str
    origin: str
    tokens_per_s: str
    error: str
    trace: str
    command: str
    hardware: str
    models: str
    notes: str


def sources(arms: Sequence[Arm]) -> list[FigureSource]:
    """Return one row a run, in the order of the arms."""
    return [_source(arm, run, trace) for arm in arms for run, trace in zip(arm.runs, arm.traces, strict=True)]


@dataclass(frozen=True)
class SourceGroup:
    """The runs that one command made on one machine. runs: each with its number and how far off that may be."""

    origin: str
    arms: str
    command: str
    hardware: str
    models: str
    notes: str
    runs: str


def grouped(sources: Sequence[FigureSource]) -> list[SourceGroup]:
    """Put the runs of one command, origin, machine and notes together, in the order of their first."""
    groups: dict[tuple[str, ...], list[FigureSource]] = {}
    for each in sources:
        key = (each.origin, each.command, each.hardware, each.models, each.notes)
        groups.setdefault(key, []).append(each)
    return [
        SourceGroup(
            origin=origin,
            arms=", ".join(dict.fromkeys(each.label for each in runs)),
            command=command,
            hardware=hardware,
            models=models,
            notes=notes,
            runs="; ".join(f"{each.trace}: {each.tokens_per_s} tok/s ({each.error})" for each in runs),
        )
        for (origin, command, hardware, models, notes), runs in groups.items()
    ]


def _source(arm: Arm, run: Run, trace: Trace) -> FigureSource:
    manifest = trace.manifest
    speed, error = "-", "-"
    if arm.decodes:
        found = run_interval(run)
        speed, error = f"{found.mean:,.0f}", found.text("{:,.0f}".format)
    names = ", ".join(f"{role} {model.get('id', '?')}" for role, model in manifest.models.items())
    return FigureSource(
        label=arm.label,
        origin=ORIGIN_WORDS[manifest.origin],
        tokens_per_s=speed,
        error=error,
        trace=trace.path.name,
        command=_command(trace),
        hardware=_hardware(trace),
        models=names or "not said",
        notes="; ".join([*_source_notes(trace), *manifest.warnings]),
    )


def _command(trace: Trace) -> str:
    command = trace.manifest.run.command
    return command if command else f"not kept ({trace.manifest.engine} {trace.manifest.engine_version})"


def _hardware(trace: Trace) -> str:
    """The device; for a live run also how much of the machine was left to it, for a replay whose costs it used."""
    manifest = trace.manifest
    costs, others = manifest.replay.costs, foreign_share(trace)
    text = f"{manifest.device_name} ({manifest.device})"
    if others is not None:
        text += f", {others:.0%} of the machine taken by other work"
    if costs is not None:
        text += f", costs from profile {costs.name}"
    return text


def _source_notes(trace: Trace) -> list[str]:
    notes = []
    source = trace.manifest.replay.source
    if source:
        notes.append(f"replay of {source}")
    if not trace.manifest.complete:
        notes.append("incomplete")
    return notes
