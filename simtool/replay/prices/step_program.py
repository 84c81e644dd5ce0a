"""A step with all settled that no size changes: its ops in order, what each waits for, and which costs it pays.

A placement has few: a prefill, a step at full width and a pruned one. Each is made once and then run many times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from simtool.errors import ProfileError
from simtool.profile.cost import FREE, Cost
from simtool.profile.profile import Profile
from simtool.step.idle_effects import IDLE_FEATURES
from simtool.step.ops import PUBLISHES, DeviceWork, Lane, Op
from simtool.step.placement import BUILT_IN

#: The price that every step pays after its ops: the loop's gap.
GAP = 0


@dataclass(frozen=True)
class Price:
    """A cost that every run of the step pays once. name: of the op or work, for what is said about it.

    signed: a distance in time, which may be negative; any other price is at least 0.
    """

    name: str
    cost: Cost
    signed: bool = False

    @property
    def grows(self) -> bool:
        """Whether it also grows with what ran just before, so that only the run itself can tell it."""
        return any(feature in IDLE_FEATURES for feature in self.cost.per_feature_ns)


@dataclass(frozen=True)
class EventSlot:
    """One event of the step. flow: the op that it belongs to, counted from 0. waits: whether the host waits in it."""

    name: str
    lane: Lane
    flow: int
    waits: bool = False


class WorkEntry(NamedTuple):
    """Device work. event: its place among the step's events. offset, queue, duration: places among its prices.

    after: events of work on other executors whose results it reads; its own executor runs in order anyway.
    handed: data that the step before launched ahead for it.
    """

    executor: str
    event: int
    offset: int
    queue: int
    queue_grows: bool
    duration: int
    duration_grows: bool
    after: tuple[int, ...]
    handed: tuple[str, ...] = ()


class WaitEntry(NamedTuple):
    """How an op waits. events: of the work that it waits for. wake, post: places among the step's prices.

    works: what it launches after that, while it is busy for `post`. handed: data that it waits for too, which the step
    before launched ahead.
    """

    events: tuple[int, ...]
    wake: int
    post: int
    works: tuple[WorkEntry, ...] = ()
    handed: tuple[str, ...] = ()


class OpEntry(NamedTuple):
    """One host op. event: its place among the step's events. pre: the place among its prices of the time before it
    waits, or all of its time.
    """

    event: int
    pre: int
    pre_grows: bool
    works: tuple[WorkEntry, ...]
    wait: WaitEntry | None


@dataclass(frozen=True)
class StepProgram:
    """One kind of step. events: in the order in which a trace keeps them, by flow and then by the lane's name.

    prices: the loop's gap first. tokens: the place among the ops that wait of the one that waits for the tokens.
    hands_on: data of the next step -> the event that gives it.
    """

    kind: str
    pruned: bool
    ops: tuple[OpEntry, ...]
    events: tuple[EventSlot, ...]
    prices: tuple[Price, ...]
    tokens: int
    hands_on: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def last_works(self) -> tuple[int, ...]:
        """Return the event of each executor's last work."""
        works = [work for op in self.ops for work in (*op.works, *(op.wait.works if op.wait else ()))]
        return tuple({work.executor: work.event for work in works}.values())

    @property
    def waiting(self) -> tuple[int, ...]:
        """Return the events in which the host waits, in order."""
        return tuple(i for i, slot in enumerate(self.events) if slot.waits)


def compile_step(
    kind: str, ops: Sequence[Op], profile: Profile, *, pruned: bool, handed: frozenset[str] = frozenset()
) -> StepProgram:
    """Return a step of these ops at a profile's costs; raises ProfileError for an op or work without a cost.

    handed: data that the step before, of the same placement, launched ahead for it.
    """
    compiler = _Compiler(kind, profile, _events(ops), handed)
    compiler.price("loop_gap", profile.loop_gap)
    entries = tuple(compiler.op(flow, op) for flow, op in enumerate(ops))
    waiting = [slot.name for slot in compiler.events if slot.waits]
    return StepProgram(
        kind=kind,
        pruned=pruned,
        ops=entries,
        events=compiler.events,
        prices=tuple(compiler.prices),
        tokens=next(i for i, name in enumerate(waiting) if name in PUBLISHES),
        hands_on={datum: given.event for datum, given in compiler.next_giver.items()},
    )


def _events(ops: Sequence[Op]) -> tuple[EventSlot, ...]:
    slots: list[EventSlot] = []
    for flow, op in enumerate(ops):
        works = [EventSlot(work.name, work.lane, flow) for work in op.works]
        slots.extend(sorted([EventSlot(op.name, Lane.HOST, flow, op.blocks), *works], key=lambda slot: slot.lane))
    return tuple(slots)


@dataclass(frozen=True)
class _Given:
    """Work that is done or under way: on which executor, and the place of its event."""

    executor: str
    event: int


class _Compiler:
    """A step under way: prices so far, and who gave which datum."""

    def __init__(self, kind: str, profile: Profile, events: tuple[EventSlot, ...], handed: frozenset[str]) -> None:
        self.events, self.prices = events, list[Price]()
        self.next_giver: dict[str, _Given] = {}
        self._handed = handed
        self._kind, self._profile, self._costs = kind, profile, profile.steps(kind)
        self._place = {(slot.flow, slot.lane): i for i, slot in enumerate(events)}
        self._giver: dict[str, _Given] = {}

    def price(self, name: str, cost: Cost | None, *, signed: bool = False) -> int:
        """Add a price and return its place; None: free."""
        self.prices.append(Price(name, cost or FREE, signed))
        return len(self.prices) - 1

    def op(self, flow: int, op: Op) -> OpEntry:
        """Add an op. Each of its works is behind what the op needs, and behind the op's earlier work."""
        if op.priced_as not in self._costs.host:
            raise _missing(self._profile, self._kind, op.name)
        cost = self._costs.host[op.priced_as]
        pre = self.price(op.name, cost.pre)
        giver = self.next_giver if op.ahead else self._giver
        inputs = [giver[need] for need in op.needs if need in giver]
        inputs += [self._giver[need] for need in op.prior if op.ahead and need in self._giver]
        handed = tuple(need for need in op.needs if not op.ahead and need not in giver and need in self._handed)
        needed = len(inputs)
        works = []
        for work in op.works:
            given = _Given(self._profile.executors[work.lane], self._place[flow, work.lane])
            works.append(self._work(op, work, cost.launches.get(work.name), given, inputs, handed))
            inputs.append(given)
        if works:
            giver.update(dict.fromkeys(op.gives, inputs[-1]))
        wait, early = None, len(op.early_works)
        if op.blocks:
            awaited = inputs[needed:][:early][-1:] or inputs[:needed]
            events = tuple(dict.fromkeys(given.event for given in awaited))
            wake, post = self.price(op.name, cost.wake), self.price(op.name, cost.post)
            wait = WaitEntry(events, wake, post, tuple(works[early:]), () if works[:early] else handed)
        return OpEntry(
            event=self._place[flow, Lane.HOST],
            pre=pre,
            pre_grows=self.prices[pre].grows,
            works=tuple(works[:early]),
            wait=wait,
        )

    def _work(
        self,
        op: Op,
        work: DeviceWork,
        launch: Cost | None,
        given: _Given,
        inputs: Sequence[_Given],
        handed: tuple[str, ...],
    ) -> WorkEntry:
        if work.name not in self._costs.device:
            raise _unseen(self._profile, self._kind, op.name, work.name)
        cost = self._costs.device[work.name]
        offset = self.price(op.name, launch, signed=True)
        queue, duration = self.price(work.name, cost.queue), self.price(work.name, cost.duration)
        return WorkEntry(
            executor=given.executor,
            event=given.event,
            offset=offset,
            queue=queue,
            queue_grows=self.prices[queue].grows,
            duration=duration,
            duration_grows=self.prices[duration].grows,
            after=tuple(dict.fromkeys(each.event for each in inputs if each.executor != given.executor)),
            handed=handed,
        )


def _unseen(profile: Profile, kind: str, op: str, work: str) -> ProfileError:
    return ProfileError(
        f"profile {profile.name} has the host's time of {op!r} in a {kind} step but no device time of {work!r}: no "
        f"{kind} step that was profiled shows it; profile more of the run, and calibrate anew"
    )


def _missing(profile: Profile, kind: str, op: str) -> ProfileError:
    if not profile.steps(kind).host:
        return ProfileError(
            f"profile {profile.name} has no host costs of {kind} steps: the recordings that it was fitted on "
            f"hold no {kind} step with host events; take a profile of one that does (record or import it whole, "
            "simtool calibrate, --profile)"
        )
    if kind == "prefill":
        return ProfileError(
            f"profile {profile.name} has no cost of {op!r} in a prefill step, which every placement runs; "
            "pool a recording into it whose prefill steps have that event"
        )
    runs = [p.name for p in BUILT_IN.values() if any(op in str(slot).split("|") for slot in p.order)]
    pool = f"pool a recording of {' or '.join(runs)} into it" if runs else "pool a recording that runs it into it"
    return ProfileError(
        f"profile {profile.name} has no cost of {op!r} in a {kind} step; {pool}, or give it one: --set {op}=100us"
    )
