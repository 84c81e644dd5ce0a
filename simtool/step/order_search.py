"""Every legal host order, and the legal ways to move one op of a given order.

The enumeration walks the catalogue's data dependencies, so it can only produce orders that Placement accepts. Two
orders that differ only behind read_tokens are one: there the device has nothing left, each remaining op runs alone,
and a sum does not care about its order. The prune keeps the tail of the built-in placements.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from simtool.errors import PlacementError, UsageError
from simtool.step.placement import (
    BUILT_IN,
    Placement,
    parse_placement,
    with_sync,
)
from simtool.step.slot import Slot

_HEAD = ("schedule", "read_states")
_DRAFT = ("build_query", "launch_draft", "launch_sample")
_VERIFY = ("launch_target", "launch_verify", "read_tokens")
_SLOTS = {str(slot): slot for placement in BUILT_IN.values() for slot in placement.order}
_TAIL = ("store_confidence", "write_context", "finish")
_FILLS = (("fill_varlen|fill_dense",), ("build_fill_index|-", "scatter_fill|fill_dense"))


@dataclass(frozen=True)
class Orders:
    """The legal orders at one lag. enumerated: all of them; placements: one of each kind that timing can tell apart."""

    enumerated: int
    placements: tuple[Placement, ...]


def legal_orders(lag_steps: int | None, sync: Sequence[str] = ()) -> Orders:
    """Enumerate the legal orders at a lag (None: without a decision), pruned of symmetric ones.

    The validate batch of a full-width step is built and filled where that of a pruned step is. Orders that a
    built-in has already keep its name; the others are numbered. sync: ops that block wherever an order runs them, as
    `Placement.sync` says it: an order with a split fill has no fill_varlen that could.
    """
    seen: dict[tuple[str, ...], Placement] = {}
    enumerated = 0
    for slots in _slot_sets(lag_steps):
        for order in _arrange(slots, lag_steps):
            enumerated += 1
            head = order[: order.index("read_tokens") + 1]
            kept = (*head, *(slot for slot in slots if slot in _TAIL))
            if kept not in seen:
                found = parse_placement(_name(kept, lag_steps, len(seen)), list(kept), lag_steps)
                seen[kept] = syncing_where_run(found, sync)
    return Orders(enumerated, tuple(seen.values()))


@dataclass(frozen=True)
class Move:
    """One op at another place of an order. where: in words, such as "before decide"; placement: the order with it."""

    op: str
    where: str
    placement: Placement


def moves(placement: Placement, op: str) -> list[Move]:
    """Return the placement with the slot of one op at every other place that is legal, named after where that is.

    Raises UsageError when the placement does not run the op.
    """
    runs = [{one.name for one in (slot.pruned, slot.full) if one is not None} for slot in placement.order]
    places = [i for i, names in enumerate(runs) if op in names]
    if not places:
        raise UsageError(f"{placement.name} does not run {op!r}; expected one of its ops")
    slot = placement.order[places[0]]
    rest = [other for other in placement.order if other is not slot]
    found = []
    for place in range(len(rest) + 1):
        order = (*rest[:place], slot, *rest[place:])
        where = f"before {rest[place]}" if place < places[0] else f"after {rest[place - 1]}"
        if order != placement.order and (moved := _legal(placement, order, f"{op} moved {where}")):
            found.append(Move(op, where, moved))
    return found


def to_toml(placement: Placement) -> str:
    """Return a placement as the text that `load_placement` reads."""
    lag = "" if placement.lag_steps is None else f"lag_steps = {placement.lag_steps}\n"
    order = "".join(f'    "{slot}",\n' for slot in placement.order)
    sync = f"sync = {json.dumps(list(placement.sync))}\n" if placement.sync else ""
    return f"name = {json.dumps(placement.name)}\n{lag}order = [\n{order}]\n{sync}"


def syncing_where_run(placement: Placement, sync: Sequence[str]) -> Placement:
    """Return the placement with those of the ops that it runs blocking, named after it where any does."""
    runs = {op.name for op in placement.ever_runs()}
    here = [text for text in sync if runs.intersection(text.split("|")) and (placement.decides or "|" not in text)]
    return replace(with_sync(placement, here), name=f"{placement.name}, with syncs") if here else placement


def _slot_sets(lag_steps: int | None) -> Iterator[tuple[str, ...]]:
    if lag_steps is None:
        yield (*_HEAD, *_DRAFT, "build_dense", "fill_dense", *_VERIFY, "write_context", "finish")
        return
    read = ("read_confidence",) if lag_steps == 0 else ()
    store = ("store_confidence",) if lag_steps else ()
    for fill in _FILLS:
        yield (*_HEAD, *_DRAFT, *read, "decide", "build_varlen|build_dense", *fill, *_VERIFY, *store,
               "write_context", "finish")  # fmt: skip


def _arrange(slots: tuple[str, ...], lag_steps: int | None) -> Iterator[tuple[str, ...]]:
    """Yield every order of the slots in which each finds what it needs, in a pruned step and in a full one."""

    def extend(order: tuple[str, ...], given: frozenset[str]) -> Iterator[tuple[str, ...]]:
        if len(order) == len(slots):
            yield order
            return
        for text in slots:
            slot = _SLOTS[text]
            if text not in order and _needs(slot) <= given:
                stored = {"decision_confidence"} if text == "read_states" and lag_steps else set()
                yield from extend((*order, text), given | _gives(slot) | stored)

    return extend((), frozenset())


def _needs(slot: Slot) -> frozenset[str]:
    needs = {need for op in (slot.pruned, slot.full) if op for need in op.needs}
    return frozenset(needs | ({"prefix_lengths"} if slot.pruned is not slot.full else set()))


def _gives(slot: Slot) -> frozenset[str]:
    return frozenset(datum for op in (slot.pruned, slot.full) if op for datum in op.gives)


def _name(order: tuple[str, ...], lag_steps: int | None, index: int) -> str:
    for placement in BUILT_IN.values():
        if placement.lag_steps == lag_steps and tuple(map(str, placement.order)) == order:
            return placement.name
    return f"{'static' if lag_steps is None else f'lag{lag_steps}'}-order-{index + 1}"


def _legal(placement: Placement, order: tuple[Slot, ...], suffix: str) -> Placement | None:
    try:
        return replace(placement, name=f"{placement.name}, {suffix}", order=order)
    except PlacementError:
        return None
