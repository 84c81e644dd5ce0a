"""What the page's script knows of a step, as JSON: ops, data and legality from the catalogue, costs from a profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from simtool.profile.cost import Cost
from simtool.profile.profile import Profile, StepCosts
from simtool.report.figures.style import WORK_COLOURS, work_kind
from simtool.step.cost_features import DECODE_FEATURES, PREFILL_FEATURES
from simtool.step.idle_effects import IDLE_FEATURES, IDLE_UNIT_NS
from simtool.step.legality import GIVEN_AT_LAG, REBINDS
from simtool.step.ops import CATALOGUE, Op
from simtool.step.placement import PREFILL_ORDER, Placement

Json = Mapping[str, object]


def step_model(placements: Iterable[Placement]) -> Json:
    """Return the whole catalogue, with the ops of the placements that sync, and the rules of what is a step."""
    ops = {op.priced_as: op for placement in placements for op in placement.ever_runs()}
    return {
        "catalogue": list(CATALOGUE),
        "ops": {key: _op(op) for key, op in {**CATALOGUE, **ops}.items()},
        "prefill": [op.priced_as for op in PREFILL_ORDER],
        "rebinds": dict(REBINDS),
        "givenAtLag": dict(GIVEN_AT_LAG),
        "idleUnitNs": IDLE_UNIT_NS,
    }


def _op(op: Op) -> Json:
    works = [{"name": work.name, "lane": str(work.lane), "colour": _colour(work.name)} for work in op.works]
    return {
        "name": op.name,
        "what": op.what,
        "colour": _colour(op.name),
        "needs": list(op.needs),
        "gives": list(op.gives),
        "works": works,
        "early": len(op.early_works),
        "blocks": op.blocks,
    }


def _colour(name: str) -> str:
    return WORK_COLOURS[work_kind(name)]


def placement_json(placement: Placement) -> Json:
    """Return a placement's slots, each with the keys of its ops; null where a kind of step has nothing to do."""

    def key(op: Op | None) -> str | None:
        return op.priced_as if op else None

    return {
        "name": placement.name,
        "lag": placement.lag_steps,
        "decides": placement.decides,
        "order": [{"name": str(slot), "pruned": key(slot.pruned), "full": key(slot.full)} for slot in placement.order],
        "sync": list(placement.sync),
    }


def costs_json(draws: Sequence[Profile], placements: Iterable[Placement]) -> Json:
    """Return what the placements' ops and a prefill cost: the fit itself first, then each draw of it."""
    ops = {op for placement in placements for op in placement.ever_runs()}
    return {
        "executors": dict(draws[0].executors),
        "gap": _cost([each.loop_gap for each in draws], DECODE_FEATURES),
        "costs": {
            "prefill": _steps([each.prefill for each in draws], PREFILL_ORDER, PREFILL_FEATURES),
            "decode": _steps([each.decode for each in draws], ops, DECODE_FEATURES),
        },
    }


def _steps(draws: Sequence[StepCosts], ops: Iterable[Op], features: Sequence[str]) -> Json:
    host: dict[str, Json] = {}
    works: set[str] = set()
    for op in sorted(ops, key=lambda op: op.priced_as):
        costs = [each.host[op.priced_as] for each in draws]
        names = [work.name for work in op.works]
        host[op.priced_as] = {
            "pre": _cost([each.pre for each in costs], features),
            "post": _cost([each.post for each in costs], features),
            "wake": _cost([each.wake for each in costs], features),
            "launches": {name: _cost([each.launches.get(name) for each in costs], features) for name in names},
        }
        works.update(names)
    device = {
        name: {
            "duration": _cost([each.device[name].duration for each in draws], features),
            "queue": _cost([each.device[name].queue for each in draws], features),
        }
        for name in sorted(works)
    }
    return {"host": host, "device": device}


def _cost(draws: Sequence[Cost | None], features: Sequence[str]) -> Json | None:
    """lines: intercept, slope in what ran just before, then a slope a size; sizes: their places among the features."""
    known = [each for each in draws if each is not None]
    if not known or not any(each.intercept_ns or each.per_feature_ns or each.residuals_ns for each in known):
        return None
    names = [name for name in known[0].per_feature_ns if name not in IDLE_FEATURES]
    lines = [_line(each, names) for each in known]
    same = all(line == lines[0] for line in lines)
    return {
        "sizes": [features.index(name) for name in names],
        "lines": lines[:1] if same else lines,
        "residuals": list(known[0].residuals_ns),
    }


def _line(cost: Cost, names: Sequence[str]) -> list[float]:
    slopes = cost.per_feature_ns
    idle = sum(slope for name, slope in slopes.items() if name in IDLE_FEATURES)
    return [cost.intercept_ns, idle, *(slopes.get(name, 0.0) for name in names)]
