"""What makes an order of ops a decode step: its members, each once, and every datum given before it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from simtool.errors import PlacementError
from simtool.step.ops import CATALOGUE, Op
from simtool.step.slot import Slot

_ONCE = (
    "schedule",
    "read_states",
    "build_query",
    "launch_draft",
    "launch_target",
    "launch_verify",
    "read_tokens",
    "write_context",
    "finish",
)
_SAMPLES = {"launch_sample", "launch_tokens"}
_MAX_LAG_STEPS = 8

#: What binds host lengths to a captured graph, and the launch that it must come before.
REBINDS = {"rebind_draft": "launch_draft", "rebind_target": "launch_target"}

#: What an op gives besides at lag >= 1, where it hands out the confidence that earlier steps stored.
GIVEN_AT_LAG = {"read_states": "decision_confidence"}


class Ordered(Protocol):
    """What is judged of a placement."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def order(self) -> tuple[Slot, ...]: ...  # noqa: D102
    @property
    def lag_steps(self) -> int | None: ...  # noqa: D102
    @property
    def decides(self) -> bool: ...  # noqa: D102
    def ops(self, *, pruned: bool) -> Iterator[Op]: ...  # noqa: D102


def check(placement: Ordered) -> None:
    """Raise PlacementError when the order breaks a data dependency or lacks an op, with the name of what is missing."""
    lag = placement.lag_steps
    if lag is not None and not 0 <= lag <= _MAX_LAG_STEPS:
        raise PlacementError(f"{placement.name}: lag_steps is {lag}; expected 0 to {_MAX_LAG_STEPS}")
    for pruned in (True, False) if placement.decides else (False,):
        _check_order(placement, pruned)
    seen_decide = False
    for slot in placement.order:
        seen_decide = seen_decide or (slot.full is not None and slot.full.name == "decide")
        if slot.pruned is not slot.full and not seen_decide:
            raise PlacementError(f"{placement.name}: {slot} depends on the prune, so 'decide' must come before it")


def _check_order(placement: Ordered, pruned: bool) -> None:
    ops = list(placement.ops(pruned=pruned))
    _check_members(placement, [op.name for op in ops], "pruned" if pruned else "full-width")
    given = _check_data(placement, ops)
    if pruned and "varlen_batch" not in given:
        raise PlacementError(f"{placement.name}: a pruned step verifies without 'build_varlen'; add it after 'decide'")


def _check_members(placement: Ordered, names: list[str], kind: str) -> None:
    """Every op that a step cannot do without, none twice, and rebinds before their launches."""
    required = list(_ONCE)
    if placement.decides:
        required.append("decide")
    if placement.lag_steps:
        required.append("store_confidence")
    for name in required:
        if name not in names:
            raise PlacementError(f"{placement.name}: a {kind} step never runs {name!r}; add it to the order")
    if not _SAMPLES.intersection(names):
        raise PlacementError(
            f"{placement.name}: a {kind} step never runs 'launch_sample'; add it to the order (or 'launch_tokens', "
            "where no decision needs a confidence)"
        )
    if set(names) >= _SAMPLES:
        raise PlacementError(f"{placement.name}: a {kind} step samples twice; keep 'launch_sample' or 'launch_tokens'")
    for name in names:
        if names.count(name) > 1:
            raise PlacementError(f"{placement.name}: a {kind} step runs {name!r} twice; keep one")
    if not placement.decides and "decide" in names:
        raise PlacementError(f"{placement.name}: runs 'decide' without lag_steps; say how old its confidence is")
    for rebind, launch in REBINDS.items():
        if rebind in names and names.index(rebind) > names.index(launch):
            raise PlacementError(f"{placement.name}: {rebind!r} comes after {launch!r}; the graph would run unbound")


def _check_data(placement: Ordered, ops: list[Op]) -> set[str]:
    """Needs come before their readers, and nothing that was read is replaced; returns all that is given."""
    given: set[str] = set()
    readers: dict[str, str] = {}
    for op in ops:
        for need in op.needs:
            if need not in given:
                raise PlacementError(_missing(placement, op, need, [op.name for op in ops]))
            readers[need] = op.name
        for stale in (name for name in op.gives if name in readers):
            raise PlacementError(f"{placement.name}: {op.name!r} replaces {stale}, which {readers[stale]!r} has read")
        given.update(op.gives)
        if op.name in GIVEN_AT_LAG and placement.lag_steps:
            given.add(GIVEN_AT_LAG[op.name])
    return given


def _missing(placement: Ordered, op: Op, need: str, names: list[str]) -> str:
    givers = [giver.name for giver in CATALOGUE.values() if need in giver.gives]
    later = [giver for giver in givers if giver in names]
    where = f"{later[0]!r} gives it, but only later" if later else f"add {' or '.join(map(repr, givers))} before it"
    return f"{placement.name}: {op.name!r} needs {need}: {where}"
