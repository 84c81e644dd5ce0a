"""Traces gathered into arms: runs of the same setting are repetitions of one arm.

A name does not make a setting: another order or lag under it, or other what-ifs, is another arm.

What was measured and what was computed never share a label: live, modeled (a replay), imported and synthetic are
words in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from simtool.analysis.comparison.runs import Run, content_of, run_of
from simtool.analysis.divergence import describe_divergence
from simtool.trace.manifest import PRICED_ORIGINS, Manifest
from simtool.trace.trace import Trace

ORIGIN_WORDS = {"live": "live", "replayed": "modeled", "imported": "imported", "synthetic": "synthetic"}

_SETTINGS = ("SL", "concurrency", "controller")


@dataclass(frozen=True)
class Arm:
    """A setting and its runs, in the order the traces were given, each content once.

    label: placement, origin and what else varies between the arms. group: arms that may be compared share it.
    copies: a sentence for each trace left out, for it holds what another does.
    """

    label: str
    placement: str
    origin: str
    runs: tuple[Run, ...]
    traces: tuple[Trace, ...]
    group: str = ""
    copies: tuple[str, ...] = ()

    @property
    def decodes(self) -> bool:
        """Whether every run has decode steps that emitted tokens; a profile tells of none, so nothing to compare."""
        return all(len(run.tokens) and run.tokens.any() for run in self.runs)

    @property
    def name(self) -> str:
        """The label without its origin, for where the origin is said beside it."""
        return self.label.replace(f" ({self.origin})", "")


def placement_name(trace: Trace) -> str:
    """Return the placement's name, or the engine's for an import."""
    placement = trace.manifest.placement
    return str(placement["name"]) if placement else trace.manifest.engine


def gather_arms(traces: Sequence[Trace]) -> list[Arm]:
    """Group traces into arms, in the order of their first trace."""
    settings = [_settings(trace) for trace in traces]
    varying = [key for key in _SETTINGS if len({each[key] for each in settings if key in each}) > 1]
    orders, what_ifs = (_held(traces, read) for read in (_order, _what_ifs))
    members: dict[str, list[Trace]] = {}
    groups: dict[str, str] = {}
    for trace, setting in zip(traces, settings, strict=True):
        extras = [f"{key} {setting[key]}" for key in varying if key in setting]
        called = _called(trace)
        if len(orders[called]) > 1:
            extras.append(f"order {_order(trace.manifest)}")
        if len(what_ifs[called]) > 1 and _what_ifs(trace.manifest):
            extras.append(f"with {_what_ifs(trace.manifest)}")
        label = ", ".join([called, *extras])
        members.setdefault(label, []).append(trace)
        shape = [f"{key} {setting[key]}" for key in varying if key != "controller"]
        groups[label] = ", ".join([_origin(trace), *shape])
    return [_arm(label, members[label], groups[label]) for label in members]


def _arm(label: str, traces: Sequence[Trace], group: str) -> Arm:
    """One setting's traces, without those that hold what an earlier one does: a copy repeats nothing."""
    kept: dict[str, tuple[Trace, Run]] = {}
    copies = []
    for trace in traces:
        run = run_of(trace)
        content = content_of(trace) if run.whole is not None and len(traces) > 1 else run.name
        if content in kept:
            copies.append(f"{trace.path} holds the same steps as {kept[content][0].path}: one run, not a repetition")
        else:
            kept[content] = (trace, run)
    return Arm(
        label=label,
        placement=placement_name(traces[0]),
        origin=_origin(traces[0]),
        runs=tuple(run for _, run in kept.values()),
        traces=tuple(trace for trace, _ in kept.values()),
        group=group,
        copies=tuple(copies),
    )


def differences(traces: Sequence[Trace]) -> list[str]:
    """Return what makes traces unfit for comparison, one sentence each; empty when they are alike."""
    everywhere: dict[str, Callable[[Manifest], str]] = {
        "algorithm": lambda m: m.algorithm,
        **{role: partial(_model, role) for role in dict.fromkeys(role for b in traces for role in b.manifest.models)},
        "sampling temperature": lambda m: str(m.sampling.get("temperature")),
        "how sampled drafts are accepted": lambda m: str(m.sampling.get("accept", "reject")),
        "seed of matched sampling": lambda m: (
            str(m.sampling.get("seed")) if m.sampling.get("accept") == "match" else ""
        ),
    }
    found = [line for what, read in everywhere.items() for line in _unlike(what, traces, read)]
    for name in dict.fromkeys(map(placement_name, traces)):
        namesakes = [trace for trace in traces if placement_name(trace) == name]
        found += _unlike(f"{name}: placement order", namesakes, _order)
    for origin, word in ORIGIN_WORDS.items():
        alike = [trace for trace in traces if trace.manifest.origin == origin]
        found += _unlike(f"device of the {word} traces", alike, lambda m: m.device_name)
        found += _unlike(f"profile of the {word} traces", alike, _costs)
    incomplete = [str(trace.path) for trace in traces if not trace.manifest.complete]
    return found + [f"{path} is incomplete" for path in incomplete] + _unequal_outputs(traces)


def unlike_machines(first: Arm, second: Arm) -> str:
    """Say at which costs, or on which device, either of two arms of one origin ran; empty where it is the same."""
    modeled = first.origin in {ORIGIN_WORDS[origin] for origin in PRICED_ORIGINS}
    found = [
        " and ".join(sorted({(_costs(m) if modeled else m.device_name) for m in (b.manifest for b in arm.traces)}))
        for arm in (first, second)
    ]
    if found[0] == found[1]:
        return ""
    what, where = ("at the same costs", "at") if modeled else ("on the same device", "on")
    return f"not {what}: {first.name} {where} {found[0]}, {second.name} {where} {found[1]}"


def _unlike(what: str, traces: Sequence[Trace], read: Callable[[Manifest], str]) -> list[str]:
    """One sentence that says which traces have which value, when they have not all the same."""
    holders: dict[str, list[str]] = {}
    for trace in traces:
        holders.setdefault(read(trace.manifest), []).append(trace.path.name)
    if len(holders) < 2:
        return []
    return [f"{what} differs: " + "; ".join(f"{value} in {', '.join(names)}" for value, names in holders.items())]


def _model(role: str, manifest: Manifest) -> str:
    model = manifest.models.get(role, {})
    return f"{model.get('id', 'none')} ({model.get('sha256', 'no hash')[:12]})"


def _costs(manifest: Manifest) -> str:
    """Name a replay's costs by what they were fitted on and what was changed since, not by when and which command."""
    costs = manifest.replay.costs
    if costs is None:
        return "none"
    told = [list(costs.sources), list(costs.changes), [str(trace.get("sha256")) for trace in costs.fitted_on]]
    changed = f" with {what_ifs}" if (what_ifs := _what_ifs(manifest)) else ""
    return f"{costs.name}{changed} ({_hash(told)})"


def _what_ifs(manifest: Manifest) -> str:
    """The changes to a replay's costs; empty where there are none."""
    costs = manifest.replay.costs
    return ", ".join(costs.changes) if costs is not None else ""


def _order(manifest: Manifest) -> str:
    """Name what a placement does, whatever it is called: its order and its lag."""
    if manifest.placement is None:
        return "none"
    lag = manifest.placement.get("lag_steps")
    decided = "without a decision" if lag is None else f"at lag {lag}"
    policy = manifest.placement.get("policy")
    return f"{_hash(manifest.placement.get('order'))} {decided}" + (f" by {policy}" if policy else "")


def _hash(told: object) -> str:
    return hashlib.sha256(str(told).encode()).hexdigest()[:12]


def _called(trace: Trace) -> str:
    return f"{placement_name(trace)} ({_origin(trace)})"


def _held(traces: Sequence[Trace], read: Callable[[Manifest], str]) -> dict[str, set[str]]:
    """The values among the traces of each placement and origin."""
    found: dict[str, set[str]] = {}
    for trace in traces:
        found.setdefault(_called(trace), set()).add(read(trace.manifest))
    return found


def _unequal_outputs(traces: Sequence[Trace]) -> list[str]:
    """A settled text has the same tokens whatever is pruned: a difference is an engine's fault, not an effect."""
    found = []
    settled = [trace for trace in traces if trace.manifest.settled and "temperature" in trace.manifest.sampling]
    if not settled:
        return []
    first, *others = [trace.columns("requests", "request_id", "prompt_ids", "output_ids") for trace in settled]
    for trace, requests in zip(settled[1:], others, strict=True):
        both = first.join(requests, on=["request_id", "prompt_ids"], nulls_equal=True, suffix="_other")
        both = both.filter(pl.col("output_ids").is_not_null() & pl.col("output_ids_other").is_not_null())
        unequal = sum(
            a != b for a, b in zip(both["output_ids"].to_list(), both["output_ids_other"].to_list(), strict=True)
        )
        if unequal:
            why = describe_divergence(settled[0], trace)
            kind = "sampled" if trace.manifest.sampling["temperature"] else "greedy"
            found.append(f"{unequal} {kind} outputs of {trace.path} differ from those of {settled[0].path}{why}")
    return found


def _origin(trace: Trace) -> str:
    return ORIGIN_WORDS[trace.manifest.origin]


def _settings(trace: Trace) -> dict[str, str]:
    """Return what may vary between arms; the controller only where the placement decides."""
    manifest = trace.manifest
    settings = {"SL": str(manifest.sl), "concurrency": str(manifest.concurrency)}
    if manifest.placement is None or manifest.placement.get("lag_steps") is None:
        return settings
    controller = manifest.controller
    predictor = "with predictor" if controller.get("predictor") else "without predictor"
    told = f"draft {controller.get('draft_ms', 0.0)} ms, gain {controller.get('min_gain', 0.0)}"
    return {**settings, "controller": f"{predictor}, {told}"}
