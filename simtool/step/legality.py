"""What makes an order of ops a decode step: its members, each once, and every datum given before it is read.

A step may launch work for the next one (`next:`). That work reads the next step's data, and of the step before it only
what its order has given by then. A step that finds such work done is warm; any other is cold and runs the `cold:` slots
too. Both must be legal. An order without such slots has no cold step: a draft waits for its sequence, whatever the
batch becomes, and prefills draft too.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Protocol

from simtool.errors import PlacementError
from simtool.step.handed_on import given_ahead, why_missing
from simtool.step.ops import Op
from simtool.step.slot import Slot

#: What every step runs for itself, once: one of each.
_MEMBERS = (
    ("schedule",),
    ("read_states",),
    ("build_query",),
    ("launch_draft",),
    ("launch_target",),
    ("launch_verify",),
    ("read_tokens", "await_tokens"),
    ("write_context", "extend_context"),
    ("finish",),
)
_SAMPLES = ("launch_sample", "launch_tokens")
_STORES = ("store_confidence", "keep_confidence")
#: What a step need not run for itself where the step before may have run it ahead.
_MAY_BE_AHEAD = {"build_query", "launch_draft", "launch_target", "launch_verify", "extend_context", *_SAMPLES}
#: A step decides each prefix length, or only how many drafts there are in all: the device then splits them.
_DECIDES = ("decide", "decide_budget")
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
    @property
    def runs_ahead(self) -> bool: ...  # noqa: D102
    @property
    def keeps_drafts(self) -> bool: ...  # noqa: D102
    def ops(self, *, pruned: bool, warm: bool = False) -> Iterator[Op]: ...  # noqa: D102


def check(placement: Ordered) -> None:
    """Raise PlacementError when the order breaks a data dependency or lacks an op, with the name of what is missing."""
    lag = placement.lag_steps
    if lag is not None and not 0 <= lag <= _MAX_LAG_STEPS:
        raise PlacementError(f"{placement.name}: lag_steps is {lag}; expected 0 to {_MAX_LAG_STEPS}")
    _check_cold(placement)
    kinds = (True, False) if placement.decides else (False,)
    warmths = (True,) if placement.keeps_drafts else (False, True) if placement.runs_ahead else (False,)
    for pruned, warm in product(kinds, warmths):
        _check_order(placement, pruned, warm)
    seen_decide = False
    for slot in placement.order:
        seen_decide = seen_decide or (slot.full is not None and slot.full.name in _DECIDES)
        if slot.pruned is not slot.full and not seen_decide:
            raise PlacementError(f"{placement.name}: {slot} depends on the prune, so 'decide' must come before it")


def _check_cold(placement: Ordered) -> None:
    cold = [slot for slot in placement.order if slot.cold]
    if cold and not placement.runs_ahead:
        raise PlacementError(f"{placement.name}: {cold[0]} would run in every step, as none launches ahead; drop cold:")
    own = {op.name for slot in placement.order for op in (slot.pruned, slot.full) if op and not op.ahead}
    twice = any(op.name in own for slot in placement.order for op in (slot.pruned, slot.full) if op and op.ahead)
    if placement.keeps_drafts and twice:
        raise PlacementError(
            f"{placement.name}: a first step has nothing launched ahead for it; name the ops that it runs itself, as "
            "cold:OP"
        )


def _check_order(placement: Ordered, pruned: bool, warm: bool) -> None:
    ops = list(placement.ops(pruned=pruned, warm=warm))
    _check_members(placement, ops, "pruned" if pruned else "full-width", warm)
    given = _check_data(placement, ops, warm)
    if pruned and not given & {"varlen_batch", "budget_batch"}:
        raise PlacementError(f"{placement.name}: a pruned step verifies without 'build_varlen'; add it after 'decide'")


def _check_members(placement: Ordered, ops: list[Op], kind: str, warm: bool) -> None:
    """Every op that a step cannot do without, none twice, and rebinds before their launches."""
    names = [op.name for op in ops if not op.ahead]
    required = [*_MEMBERS, *((_DECIDES,) if placement.decides else ()), *((_STORES,) if placement.lag_steps else ())]
    for members in required:
        if not set(members) & set(names) and not (warm and set(members) & _MAY_BE_AHEAD):
            other = f" (or {members[1]!r})" if len(members) > 1 and placement.runs_ahead else ""
            raise PlacementError(
                f"{placement.name}: a {kind} step never runs {members[0]!r}{other}; add it to the order"
            )
    if not set(_SAMPLES) & set(names) and not warm:
        raise PlacementError(
            f"{placement.name}: a {kind} step never runs 'launch_sample'; add it to the order (or 'launch_tokens', "
            "where no decision needs a confidence)"
        )
    for group in (_SAMPLES, *(members for members in required if len(members) > 1)):
        if set(names) >= set(group):
            what = "samples twice" if group == _SAMPLES else "does one thing twice"
            raise PlacementError(f"{placement.name}: a {kind} step {what}; keep {group[0]!r} or {group[1]!r}")
    for each in (names, [op.name for op in ops if op.ahead]):
        _check_each(placement, each, kind)
    for decide in (name for name in _DECIDES if name in names and not placement.decides):
        raise PlacementError(f"{placement.name}: runs {decide!r} without lag_steps; say how old its confidence is")


def _check_each(placement: Ordered, names: list[str], kind: str) -> None:
    """None twice for one step, and rebinds before their launches."""
    for name in names:
        if names.count(name) > 1:
            raise PlacementError(f"{placement.name}: a {kind} step runs {name!r} twice; keep one")
    for rebind, launch in REBINDS.items():
        if rebind in names and launch in names and names.index(rebind) > names.index(launch):
            raise PlacementError(f"{placement.name}: {rebind!r} comes after {launch!r}; the graph would run unbound")


def _check_data(placement: Ordered, ops: list[Op], warm: bool) -> set[str]:
    """Needs come before their readers, and nothing that was read is replaced; returns all that is given."""
    own = set(given_ahead(ops)) if warm else set()
    coming: set[str] = set()
    readers: dict[tuple[bool, str], str] = {}
    for op in ops:
        given = coming if op.ahead else own
        for need in op.needs:
            if need not in given:
                raise PlacementError(f"{placement.name}: {why_missing(op, need, ops, own)}")
            readers[op.ahead, need] = op.name
        for need in op.prior if op.ahead else ():
            if need not in own:
                raise PlacementError(f"{placement.name}: {why_missing(op, need, ops, own, prior=True)}")
        for stale in (name for name in op.gives if (op.ahead, name) in readers):
            raise PlacementError(
                f"{placement.name}: {op.name!r} replaces {stale}, which {readers[op.ahead, stale]!r} has read"
            )
        given.update(op.gives)
        if op.name in GIVEN_AT_LAG and placement.lag_steps and not op.ahead:
            given.add(GIVEN_AT_LAG[op.name])
    return own
