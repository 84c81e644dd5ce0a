"""What if an op cost something else: `decide=0`, `fill_varlen=x0.5`, `build_varlen=+200us`, `device.target=4ms`; and
what if it did not block: `unsync=fill_varlen`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from simtool.errors import UsageError, did_you_mean
from simtool.files.reading import quoted
from simtool.profile.absorbed import with_op
from simtool.profile.cost import Cost
from simtool.profile.profile import HostCost, Profile, StepCosts, WorkCost
from simtool.step.idle_effects import IDLE_FEATURES, idle_doublings
from simtool.step.ops import CATALOGUE, priced_name
from simtool.step.placement import PREFILL_ORDER, Placement
from simtool.units import NS_PER_MS, NS_PER_S, NS_PER_US, format_ns

_UNITS = {"ns": 1, "us": NS_PER_US, "ms": NS_PER_MS, "s": NS_PER_S}
_UNSYNC = "unsync"
_MOST_FACTOR = 1e6
_MOST_TIME_NS = 1_000 * NS_PER_S
_NUMBER = r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
_FACTOR = re.compile(rf"x{_NUMBER}")
_TIME = re.compile(rf"([+-]?){_NUMBER}(ns|us|ms|s)")

_Change = Callable[[Cost], Cost]


def with_changes(profile: Profile, texts: Sequence[str]) -> Profile:
    """Return the profile with every change applied, in order; a time set for a cost must come before what shifts it.

    Raises UsageError as `with_change`, and for a change that a later one would undo.
    """
    earlier: dict[tuple[str, str], str] = {}
    for text in texts:
        changed = with_change(profile, text)
        name, _, value = text.partition("=")
        if name == _UNSYNC:
            profile = changed
            continue
        cost = ("loop", name) if name == "loop_gap" else _resolve(changed, name)
        if cost in earlier and value[0] not in "x+-":
            raise UsageError(f"{text!r} undoes {earlier[cost]!r}; give {name} one time, changes to it after that")
        earlier[cost], profile = text, changed
    return profile


def with_change(profile: Profile, text: str) -> Profile:
    """Return the profile with one change, `NAME=VALUE`, applied and noted in its provenance.

    NAME: a host op, device work, or loop_gap; `device.NAME` or `host.NAME` where both have the name (a bare name means
    the host op). VALUE: a time (`0`, `300us`: instead of what was measured), `+200us` or `-50us`, or a factor `x0.5`.
    A time set or added counts once an op: before its wait. A cost is never below 0: where more is taken off than it is,
    the provenance says so. `unsync=OP`: the op does not block where its implementation does, as if what it uploads were
    pinned. Raises UsageError on anything else.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is not a change; expected NAME=VALUE, such as decide=0 or fill_varlen=x0.5")
    if name == _UNSYNC:
        return _pinned(profile, text, value)
    change, rest = _parse(text, value)
    profile = _with_absent(profile, name, value)
    lane, bare = ("loop", name) if name == "loop_gap" else _resolve(profile, name)
    note = text + _clamped(_costs(profile, lane, bare), text)
    profile = replace(profile, provenance=profile.provenance.changed(note))
    if lane == "loop":
        return replace(profile, loop_gap=change(profile.loop_gap))
    if lane == "host":
        return _each_kind(profile, lambda steps: replace(steps, host=_in_host(steps.host, bare, change, rest)))
    return _each_kind(profile, lambda steps: replace(steps, device=_in_device(steps.device, bare, change)))


def _with_absent(profile: Profile, name: str, value: str) -> Profile:
    """An op that no recording ran can be given a time, by its host cost; its device work is free unless known."""
    bare = name.removeprefix("host.")
    known = {priced_name(key) for steps in (profile.prefill, profile.decode) for key in steps.host}
    if bare not in CATALOGUE or bare in known or value[:1] in ("x", "+", "-"):
        return profile
    note = f"{bare} was not recorded: it costs what --set gives it"
    return replace(profile, decode=with_op(profile.decode, CATALOGUE[bare]), provenance=profile.provenance.warned(note))


def check_effect(profile: Profile, changes: Sequence[str], placements: Sequence[Placement]) -> None:
    """Raise UsageError for a change of a cost that no step of any of the placements has."""
    ops = set(PREFILL_ORDER).union(*(placement.ever_runs() for placement in placements))
    paid = {"host": {op.name for op in ops}, "device": {work.name for op in ops for work in op.works}}
    for text in changes:
        name, _, value = text.partition("=")
        if name == "loop_gap":
            continue
        if name == _UNSYNC:
            _check_syncs(text, value, placements)
            continue
        lane, bare = _resolve(profile, name)
        if bare not in paid[lane]:
            names = ", ".join(placement.name for placement in placements)
            raise UsageError(
                f"{text!r} has no effect: {names} never runs {bare}; leave it out, or take a placement that does"
            )


def _check_syncs(text: str, name: str, placements: Sequence[Placement]) -> None:
    if not any(op.syncs and op.name == name for placement in placements for op in placement.ever_runs()):
        names = ", ".join(placement.name for placement in placements)
        raise UsageError(
            f"{text!r} has no effect: {name} never syncs in {names}; leave it out, or take a placement that says sync"
        )


def _pinned(profile: Profile, text: str, name: str) -> Profile:
    if name not in CATALOGUE:
        raise UsageError(f"{text!r}: {name!r} is no op; expected one that a placement's sync names")
    if name in profile.pinned:
        raise UsageError(f"{text!r} was said before; once is enough")
    return replace(profile, pinned=(*profile.pinned, name), provenance=profile.provenance.changed(text))


def _parse(text: str, value: str) -> tuple[_Change, _Change]:
    """The change of the op's first part, and that of the part after its wait."""
    if factor := _FACTOR.fullmatch(value):
        by = float(factor.group(1))
        if by > _MOST_FACTOR:
            raise UsageError(f"{quoted(text)}: expected a factor of at most {_MOST_FACTOR:g}")
        return (lambda cost: cost.scaled(by)), (lambda cost: cost.scaled(by))
    match = _TIME.fullmatch("0ns" if value == "0" else value)
    if match is None:
        raise UsageError(f"{text!r}: {value!r} is no cost; expected 0, a time such as 300us, +200us, or a factor x0.5")
    sign, number, unit = match.groups()
    time_ns = float(number) * _UNITS[unit]
    if time_ns > _MOST_TIME_NS:
        raise UsageError(f"{quoted(text)}: expected a time of at most {format_ns(_MOST_TIME_NS)}")
    if sign:
        return (lambda cost: cost.shifted(-time_ns if sign == "-" else time_ns)), (lambda cost: cost)
    return (lambda _: Cost(time_ns)), (lambda _: Cost(0.0))


def _clamped(costs: Sequence[Cost], text: str) -> str:
    """What to add to a change that takes off more than a cost is, at some or all of the sizes it was fitted on."""
    value = text.partition("=")[2]
    if not value.startswith("-"):
        return ""
    _, number, unit = _TIME.fullmatch(value).groups()  # type: ignore[union-attr]  # parsed before
    off_ns = float(number) * _UNITS[unit]
    lows, highs = zip(*map(_extremes, costs), strict=True)
    if off_ns > max(highs):
        return f" (clamped to 0: it never costs more than {format_ns(max(0, *highs))})"
    return " (clamped to 0 where it would be below)" if off_ns > min(lows) else ""


def _extremes(cost: Cost) -> tuple[float, float]:
    """The least and the most that a cost is at the sizes it was fitted on, after any wait of up to a second, ns."""
    ranges = {**dict.fromkeys(IDLE_FEATURES, (0.0, idle_doublings(NS_PER_S))), **cost.ranges}
    slopes = {name: slope for name, slope in cost.per_feature_ns.items() if slope}
    ends = [[slope * size for size in ranges.get(name, (0.0, math.inf))] for name, slope in slopes.items()]
    return cost.intercept_ns + sum(map(min, ends)), cost.intercept_ns + sum(map(max, ends))


def _costs(profile: Profile, lane: str, name: str) -> list[Cost]:
    """What a shift changes: the cost in both kinds of step, of an op that waits its part before."""
    if lane == "loop":
        return [profile.loop_gap]
    kinds = (profile.prefill, profile.decode)
    if lane == "host":
        return [steps.host[key].pre for steps in kinds for key in _keys(steps.host, name)]
    return [steps.device[name].duration for steps in kinds if name in steps.device]


def _resolve(profile: Profile, name: str) -> tuple[str, str]:
    kinds = (profile.prefill, profile.decode)
    hosts = sorted({priced_name(key) for steps in kinds for key in steps.host})
    works = sorted({work for steps in kinds for work in steps.device})
    lane, _, bare = name.rpartition(".")
    if lane in ("", "host") and bare in hosts:
        return "host", bare
    if lane in ("", "device") and bare in works:
        return "device", bare
    known = ", ".join([*hosts, *(f"device.{work}" for work in works), "loop_gap"])
    hint = did_you_mean(bare, [*hosts, *works])
    raise UsageError(f"profile {profile.name} has no cost {name!r} to change; it has {known}{hint}")


def _each_kind(profile: Profile, edit: Callable[[StepCosts], StepCosts]) -> Profile:
    return replace(profile, prefill=edit(profile.prefill), decode=edit(profile.decode))


def _in_host(costs: Mapping[str, HostCost], name: str, pre: _Change, post: _Change) -> Mapping[str, HostCost]:
    olds = {key: costs[key] for key in _keys(costs, name)}
    return {
        **costs,
        **{key: replace(old, pre=pre(old.pre), post=post(old.post) if old.post else None) for key, old in olds.items()},
    }


def _keys(costs: Mapping[str, HostCost], name: str) -> list[str]:
    """The keys of an op's costs: as it is, and where it syncs."""
    return [key for key in costs if priced_name(key) == name]


def _in_device(costs: Mapping[str, WorkCost], name: str, change: _Change) -> Mapping[str, WorkCost]:
    if name not in costs:
        return costs
    old = costs[name]
    return {**costs, name: replace(old, duration=change(old.duration))}
