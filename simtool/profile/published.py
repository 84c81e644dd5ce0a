"""A profile from figures that others published, written down with the source of every number in a TOML file.

It is no measurement: its costs carry no residuals, so a replay at them has no noise, and its provenance says for
each cost whether it was published, derived from published figures, or assumed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from simtool.errors import ProfileError
from simtool.files.reading import UnreadableError, read_toml_table
from simtool.profile.cost import Cost
from simtool.profile.profile import HostCost, Profile, Provenance, StepCosts, WorkCost
from simtool.step.controller import LinearPredictor
from simtool.step.cost_features import FEATURES, PREFILL_FEATURES
from simtool.step.ops import CATALOGUE, Op
from simtool.step.placement import PREFILL_ORDER
from simtool.units import NS_PER_US
from simtool.version import __version__

KINDS = ("published", "derived", "assumed")
_SMALL = "uploads and copies"

_TEXTS = ("op", "work", "kind", "why", "per_us", "range")
_WORKS = {work.name for op in CATALOGUE.values() for work in op.works}

_Table = Mapping[str, Any]
_LATENCIES = ("wake_us", "launch_us", "queue_us")
_NO_FACTORS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True)
class AssumedFigure:
    """A figure that nobody published, and the factors between which the true one may lie.

    name: of the op or device work, or of a latency (wake_us, launch_us, queue_us). us: what it is put at for one of
    each that it grows with. low, high: factors.
    """

    name: str
    us: float
    low: float
    high: float


def assumed_figures(path: Path) -> list[AssumedFigure]:
    """Return the assumed figures of a file that constructed_profile reads, with their ranges; raises ProfileError."""
    table, found = _read(path), []
    for key, figures in (("op", table["host"]), ("work", table["device"])):
        for figure in figures:
            if "range" in figure:
                us = figure.get("us", 0.0) or sum(figure.get("per_us", {}).values())
                found.append(AssumedFigure(figure[key], us, *figure["range"]))
    if "range" in table["latency"]:
        found += [AssumedFigure(name, table["latency"][name], *table["latency"]["range"]) for name in _LATENCIES]
    return found


def constructed_profile(path: Path, created: str, factors: Mapping[str, float] = _NO_FACTORS) -> Profile:
    """Build a profile from a TOML file of figures; created: ISO date.

    factors: by the name of an assumed figure, what to multiply it with. Raises ProfileError naming the file when it
    cannot be read, or when a figure has an unknown name or no source.
    """
    table = _read(path)
    try:
        return _build(_scaled(table, factors), path, created)
    except KeyError as error:
        raise ProfileError(f"{path}: lacks {error}; see docs/profile-figures.md") from error
    except (TypeError, AttributeError) as error:
        raise ProfileError(f"{path}: mistypes a figure ({error}); see docs/profile-figures.md") from error


def _scaled(table: _Table, factors: Mapping[str, float]) -> _Table:
    """The table with the figures of these names times their factors; raises KeyError for one that is not there."""
    if not factors:
        return table
    latency = {**table["latency"], **{n: table["latency"][n] * factors[n] for n in _LATENCIES if n in factors}}
    host = [_times(figure, factors.get(figure["op"])) for figure in table["host"]]
    device = [_times(figure, factors.get(figure["work"])) for figure in table["device"]]
    known = {*(figure["op"] for figure in table["host"]), *(figure["work"] for figure in table["device"]), *_LATENCIES}
    for name in set(factors) - known:
        raise KeyError(name)
    return {**table, "host": host, "device": device, "latency": latency}


def _times(figure: _Table, factor: float | None) -> _Table:
    if factor is None:
        return figure
    slopes = {name: us * factor for name, us in figure.get("per_us", {}).items()}
    return {**figure, **{key: figure[key] * factor for key in ("us", "post_us") if key in figure}, "per_us": slopes}


def _read(path: Path) -> _Table:
    try:
        return read_toml_table(path)
    except UnreadableError as error:
        raise ProfileError(f"{path}: {error}; expected name, executors, host and device figures in TOML") from error


def _build(table: _Table, path: Path, created: str) -> Profile:
    host = {figure["op"]: figure for figure in table["host"]}
    device = {figure["work"]: figure for figure in table["device"]}
    latency, predictor = table["latency"], table.get("predictor")
    figures = {**host, **device, "latency": latency, **({"predictor": predictor} if predictor else {})}
    for name, figure in figures.items():
        _check(path, name, figure)
    unknown = set(host) - set(CATALOGUE) - {"loop_gap"}
    if odd := sorted(set(device) - _WORKS - {_SMALL}):
        raise ProfileError(
            f"{path}: device figure of unknown work {odd[0]!r}; expected some of {', '.join(sorted(_WORKS))}"
        )
    if unknown:
        raise ProfileError(f"{path}: host figure of unknown op {sorted(unknown)[0]!r}; see `simtool placements`")
    sources = [
        {"cost": name, **{key: value for key, value in figure.items() if key not in ("op", "work")}}
        for name, figure in figures.items()
    ]
    prefill = [op for op in PREFILL_ORDER if op.name in host]
    decode = [CATALOGUE[name] for name in host if name in CATALOGUE and not name.endswith("prefill")]
    return Profile(
        name=table["name"],
        device=table["machine"]["device"],
        device_name=table["machine"]["device_name"],
        executors=table["executors"],
        prefill=_steps(prefill, host, device, latency, PREFILL_FEATURES),
        decode=_steps(decode, host, device, latency, FEATURES),
        loop_gap=_cost(host["loop_gap"]),
        predictor=LinearPredictor(*(predictor[name] for name in LinearPredictor.__dataclass_fields__))
        if predictor
        else None,
        provenance=Provenance(
            f"constructed from {path.name}",
            created,
            __version__,
            warnings=("constructed from published figures; not measured",),
            sources=tuple(sources),
        ),
        models={str(role): dict(model) for role, model in table.get("models", {}).items()},
    )


def _check(path: Path, name: str, figure: _Table) -> None:
    if figure.get("kind") not in KINDS or not figure.get("why"):
        raise ProfileError(f"{path}: {name}: says neither kind ({', '.join(KINDS)}) nor why; every figure must")
    _check_range(path, name, figure)
    numbers = {key: value for key, value in figure.items() if key not in _TEXTS} | dict(figure.get("per_us", {}))
    for key, value in numbers.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not (0 <= value < math.inf or key == "launch_us"):
            raise ProfileError(f"{path}: {name}: {key} is {value!r}; expected a number of 0 or more")
    for feature in figure.get("per_us", {}):
        if feature not in FEATURES:
            raise ProfileError(f"{path}: {name} grows with unknown {feature!r}; expected {', '.join(FEATURES)}")


def _check_range(path: Path, name: str, figure: _Table) -> None:
    """A range belongs to an assumed figure, and holds what the figure is put at."""
    if "range" not in figure:
        return
    ends = figure["range"]
    numbers = isinstance(ends, list) and len(ends) == 2 and all(isinstance(end, int | float) for end in ends)
    if figure["kind"] != "assumed" or not numbers or not 0 < ends[0] <= 1 <= ends[1] < math.inf:
        raise ProfileError(
            f"{path}: {name}: range is {ends!r}, and the figure is {figure['kind']}; expected two factors around 1 "
            "of an assumed figure"
        )


def _steps(ops: Sequence[Op], host: _Table, device: _Table, latency: _Table, known: Collection[str]) -> StepCosts:
    launch, queue = Cost(latency["launch_us"] * NS_PER_US), Cost(latency["queue_us"] * NS_PER_US)
    wake = Cost(latency["wake_us"] * NS_PER_US)
    costs = {}
    for op in ops:
        figure, launches = host[op.name], {work.name: launch for work in op.works}
        pre = _cost(figure, known)
        post = Cost(figure.get("post_us", 0.0) * NS_PER_US)
        costs[op.name] = HostCost(pre, post, wake, launches) if op.blocks else HostCost(pre, launches=launches)
    works = {work.name: device.get(work.name, device[_SMALL]) for op in ops for work in op.works}
    return StepCosts(costs, {name: WorkCost(_cost(figure, known), queue) for name, figure in works.items()})


def _cost(figure: _Table, known: Collection[str] = FEATURES) -> Cost:
    slopes = {name: us * NS_PER_US for name, us in figure.get("per_us", {}).items() if name in known}
    return Cost(figure.get("us", 0.0) * NS_PER_US, slopes)
