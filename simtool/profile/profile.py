"""A profile: what every op of a step costs on one machine, and where those numbers come from.

Host time of an op: `pre` up to its wait (all of it for an op that never waits), `post` after it. The host learns
that device work is done `wake` after it is. Device work is ready `launch` after the end of `pre` (negative: the host
still returns from the enqueueing call), and follows earlier work on its executor at a distance of `queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from simtool.errors import ProfileError, UsageError
from simtool.files.names import why_no_name
from simtool.files.reading import quoted
from simtool.profile.cost import Cost, check_keys
from simtool.profile.kinds import listed, texts
from simtool.profile.models import Models
from simtool.step.controller import LinearPredictor
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import CATALOGUE, Lane
from simtool.step.placement import Placement
from simtool.step.temperatures import check_temperatures

SCHEMA_VERSION = 1
#: Keys that profiles written before them lack.
_LATER = ("graphs", "models", "pinned", "temperatures")
_ROUNDING_NS = 1.0
_DEVICE_LANES = tuple(lane.value for lane in Lane if lane is not Lane.HOST)


@dataclass(frozen=True)
class HostCost:
    """Costs of one host op. post, wake: only of an op that blocks. launches: device work name -> launch offset."""

    pre: Cost
    post: Cost | None = None
    wake: Cost | None = None
    launches: Mapping[str, Cost] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkCost:
    """Costs of one piece of device work."""

    duration: Cost
    queue: Cost


@dataclass(frozen=True)
class StepCosts:
    """Costs of one kind of step, by op name and by device work name."""

    host: Mapping[str, HostCost] = field(default_factory=dict)
    device: Mapping[str, WorkCost] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    """Where a profile comes from. traces: name, sha256, origin, placement, concurrency of each. created: ISO date.

    changes: what-if changes made to the measured costs, in order. warnings: what the data could not tell.
    proxies: op that no recording ran -> the similar op that lends its cost, in words.
    sources: for costs that were not measured, where each number comes from.
    """

    command: str
    created: str
    simtool_version: str
    traces: tuple[Mapping[str, object], ...] = ()
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: tuple[Mapping[str, object], ...] = ()
    proxies: Mapping[str, str] = field(default_factory=dict)

    def changed(self, text: str) -> Provenance:
        """Return it with one more change."""
        return replace(self, changes=(*self.changes, text))

    def warned(self, text: str) -> Provenance:
        """Return it with one more warning."""
        return replace(self, warnings=(*self.warnings, text))

    def proxies_of(self, placement: Placement) -> list[str]:
        """Return, of ops that this placement runs at a similar op's cost, which and whose, each once."""
        names = {name for op in placement.ever_runs() for name in (op.name, op.priced_as)}
        return list(dict.fromkeys(note for op, note in self.proxies.items() if op in names))

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, under the names that the file format has for them."""
        return {_STORED_AS.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Provenance:
        """Build it from what `to_dict` returned; raises TypeError or ValueError on anything else."""
        fields = {_NAMED.get(name, name): value for name, value in table.items()}
        kinds = {"traces": dict, "sources": dict, "changes": str, "warnings": str}
        for name, kind in kinds.items():
            fields[name] = tuple(listed(fields.get(name, []), kind, f"provenance.{_STORED_AS.get(name, name)}"))
        fields["proxies"] = dict(fields.get("proxies", {}))
        for name in ("command", "created", "simtool_version"):
            listed([fields[name]], str, f"provenance.{name}")
        listed(list(fields["proxies"].values()), str, "provenance.stand_ins")
        return cls(**fields)


#: Fields that the file format knew by another word when its version 1 was set down.
_STORED_AS = {"traces": "bundles", "proxies": "stand_ins"}
_NAMED = {stored: name for name, stored in _STORED_AS.items()}


@dataclass(frozen=True)
class Profile:
    """Cost models of one machine. executors: device lane -> the in-order executor that runs its work.

    graphs: the buckets at which its forwards were captured; none in a profile that does not say.
    models: role (target, draft) -> id and sha256 of what was run; empty in a profile that does not say.
    pinned: ops that do not sync on this machine, whatever a placement says. temperatures: of the drafter's confidence,
    by position; empty: it is believed as it is.
    """

    name: str
    device: str
    device_name: str
    executors: Mapping[str, str]
    prefill: StepCosts
    decode: StepCosts
    loop_gap: Cost
    predictor: LinearPredictor | None
    provenance: Provenance
    graphs: GraphBuckets = field(default_factory=GraphBuckets)
    models: Models = field(default_factory=dict)
    pinned: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_temperatures(self.temperatures)
        if sorted(self.executors) != sorted(_DEVICE_LANES):
            lanes = ", ".join(_DEVICE_LANES)
            raise ProfileError(f"profile {self.name}: executors of {sorted(self.executors)}; expected one for {lanes}")

    def steps(self, kind: str) -> StepCosts:
        """Return the costs of prefill or decode steps."""
        return self.prefill if kind == "prefill" else self.decode

    @property
    def refits(self) -> int:
        """How many refits its costs carry; 0: nothing tells how uncertain the fit is."""
        hosts = [host.pre for steps in (self.prefill, self.decode) for host in steps.host.values()]
        return max((len(cost.refits) for cost in (self.loop_gap, *hosts)), default=0)

    def refitted(self, index: int) -> Profile:
        """Return the profile with every cost at one refit; the controller's predictor stays as it is."""
        return self.each_cost(lambda cost: cost.refitted(index))

    def lent(self, decode: StepCosts, note: str, *ops: str) -> Profile:
        """Return the profile with decode costs in which a similar op lends its own to some; note: which, in words."""
        proxies = {**self.provenance.proxies, **dict.fromkeys(ops, note)}
        return replace(self, decode=decode, provenance=replace(self.provenance, proxies=proxies))

    def each_cost(self, change: Callable[[Cost], Cost]) -> Profile:
        """Return the profile with every one of its costs changed."""
        prefill, decode = (_each_cost(steps, change) for steps in (self.prefill, self.decode))
        return replace(self, prefill=prefill, decode=decode, loop_gap=change(self.loop_gap))

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values."""
        confidence = {"temperatures": list(self.temperatures)} if self.temperatures else {}
        return {
            "schema_version": SCHEMA_VERSION,
            "name": self.name,
            "device": self.device,
            "device_name": self.device_name,
            "executors": dict(self.executors),
            "provenance": self.provenance.to_dict(),
            "predictor": asdict(self.predictor) if self.predictor else None,
            "loop_gap": self.loop_gap.to_dict(),
            "prefill": _steps_to_dict(self.prefill),
            "decode": _steps_to_dict(self.decode),
            "graphs": self.graphs.to_dict(),
            "models": {role: dict(model) for role, model in self.models.items()},
            "pinned": list(self.pinned),
            **confidence,
        }

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], source: str = "profile") -> Profile:
        """Build a profile from parsed JSON; raises ProfileError naming the source."""
        _check_version(table.get("schema_version"), source)
        names = {"schema_version", *cls.__dataclass_fields__}
        if {*_LATER, *table} != names:
            odd = sorted({*_LATER, *table} ^ names)[0]
            raise ProfileError(f"{source}: key {odd!r} is {'unknown' if odd in table else 'absent'}; calibrate it anew")
        predictor, temperatures = table["predictor"], table.get("temperatures", [])
        for name in ("name", "device", "device_name"):
            if not isinstance(table[name], str):
                raise ProfileError(f"{source}: {name} is {quoted(table[name])}; expected a text")
        if reason := why_no_name(table["name"]):
            raise ProfileError(
                f"{source}: name {quoted(table['name'])} {reason}, and files are named after it; rename it"
            )
        try:
            return cls(
                name=table["name"],
                device=table["device"],
                device_name=table["device_name"],
                executors=texts(table["executors"], "executors"),
                prefill=_steps_from_dict(table["prefill"], f"{source}: prefill"),
                decode=_steps_from_dict(table["decode"], f"{source}: decode"),
                loop_gap=_time(table["loop_gap"], f"{source}: loop_gap"),
                predictor=None if predictor is None else LinearPredictor(**predictor),
                provenance=Provenance.from_dict(table["provenance"]),
                graphs=GraphBuckets.from_dict(table.get("graphs")),
                models={str(role): texts(model, f"models.{role}") for role, model in table.get("models", {}).items()},
                pinned=_pinned(table.get("pinned", [])),
                temperatures=tuple(float(each) for each in listed(temperatures, float | int, "temperatures")),
            )
        except UsageError as error:  # of the predictor or the graphs
            raise ProfileError(f"{source}: {error}") from error
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise ProfileError(f"{source}: is not a profile ({error}); calibrate it anew") from error


def _check_version(version: object, source: str) -> None:
    if not isinstance(version, int) or isinstance(version, bool):
        raise ProfileError(f"{source}: schema_version is {version!r}; this is not a profile")
    if version > SCHEMA_VERSION:
        raise ProfileError(
            f"{source}: schema version {version}, and this simtool reads up to {SCHEMA_VERSION}; upgrade simtool"
        )


def _pinned(names: object) -> tuple[str, ...]:
    """Ops that a machine does without waiting; a name that is no op's would pin nothing, unsaid."""
    pinned = listed(names, str, "pinned")
    if unknown := sorted(set(pinned) - set(CATALOGUE)):
        raise ValueError(f"pinned holds {quoted(unknown[0])}, which is no op")
    return tuple(pinned)


def _each_cost(steps: StepCosts, change: Callable[[Cost], Cost]) -> StepCosts:
    host = {
        name: HostCost(
            change(cost.pre),
            change(cost.post) if cost.post else None,
            change(cost.wake) if cost.wake else None,
            {work: change(offset) for work, offset in cost.launches.items()},
        )
        for name, cost in steps.host.items()
    }
    device = {name: WorkCost(change(cost.duration), change(cost.queue)) for name, cost in steps.device.items()}
    return StepCosts(host, device)


def _steps_to_dict(costs: StepCosts) -> dict[str, object]:
    return {
        "host": {
            name: {
                "pre": cost.pre.to_dict(),
                "post": cost.post.to_dict() if cost.post else None,
                "wake": cost.wake.to_dict() if cost.wake else None,
                "launches": {work: launch.to_dict() for work, launch in cost.launches.items()},
            }
            for name, cost in costs.host.items()
        },
        "device": {
            name: {"duration": cost.duration.to_dict(), "queue": cost.queue.to_dict()}
            for name, cost in costs.device.items()
        },
    }


def _time(table: object, source: str) -> Cost:
    """A cost that is a time, not a distance between two: it is never below 0 at the sizes it was fitted on."""
    cost = Cost.from_dict(table, source)
    if cost.least_ns() < -_ROUNDING_NS:
        raise ProfileError(f"{source}: comes to {cost.least_ns():g} ns; a time is 0 or more")
    return cost


def _steps_from_dict(table: Mapping[str, Any], source: str) -> StepCosts:
    def optional(cost: object, what: str) -> Cost | None:
        return None if cost is None else _time(cost, what)

    check_keys(table, {"host", "device"}, source)
    for name, op in table["host"].items():
        check_keys(op, {"pre", "post", "wake", "launches"}, f"{source}.{name}")
    for name, work in table["device"].items():
        check_keys(work, {"duration", "queue"}, f"{source}.{name}")

    host = {
        name: HostCost(
            _time(op["pre"], f"{source}.{name}.pre"),
            optional(op["post"], f"{source}.{name}.post"),
            optional(op["wake"], f"{source}.{name}.wake"),
            {work: Cost.from_dict(cost, f"{source}.{name}.{work}") for work, cost in op["launches"].items()},
        )
        for name, op in table["host"].items()
    }
    device = {
        name: WorkCost(
            _time(work["duration"], f"{source}.{name}.duration"),
            Cost.from_dict(work["queue"], f"{source}.{name}.queue"),
        )
        for name, work in table["device"].items()
    }
    return StepCosts(host, device)
