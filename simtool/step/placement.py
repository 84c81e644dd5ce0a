"""A placement: the order of the host's work in a step, and the age of the confidence its decision reads.

A placement is data. The live engine and the replay both run `for slot in placement.order`, so what is measured
and what is simulated cannot drift apart. An order that breaks a data dependency is refused when it is made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from simtool.errors import PlacementError, did_you_mean
from simtool.files.writing import expanded
from simtool.step.ops import CATALOGUE, Op

_NOTHING = "-"
_ONCE = (
    "schedule",
    "read_states",
    "build_query",
    "launch_draft",
    "launch_sample",
    "launch_target",
    "launch_verify",
    "read_tokens",
    "write_context",
    "finish",
)
_MAX_LAG_STEPS = 8

#: What binds host lengths to a captured graph, and the launch that it must come before.
_REBINDS = {"rebind_draft": "launch_draft", "rebind_target": "launch_target"}
_REBINDS_SUFFIX = "+rebind"


@dataclass(frozen=True)
class Slot:
    """One place in the order: the op of a pruned step and the op of a full-width step (either may be absent)."""

    pruned: Op | None
    full: Op | None

    def pick(self, *, pruned: bool) -> Op | None:
        """Return the op to run here, or None when this kind of step has nothing to do."""
        return self.pruned if pruned else self.full

    def __str__(self) -> str:
        pruned, full = (op.name if op else _NOTHING for op in (self.pruned, self.full))
        return pruned if pruned == full else f"{pruned}|{full}"


@dataclass(frozen=True)
class Placement:
    """An ordered list of slots and a lag.

    lag_steps: None for a placement without a decision (static); 0 reads this step's confidence; k >= 1 reads the
    confidence stored k decode steps ago. Raises PlacementError when the order breaks a data dependency.
    """

    name: str
    order: tuple[Slot, ...]
    lag_steps: int | None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def decides(self) -> bool:
        """Whether a controller runs in the step."""
        return self.lag_steps is not None

    @property
    def rebinds(self) -> bool:
        """Whether it binds host lengths to captured graphs."""
        return any(op.name in _REBINDS for op in self.ops(pruned=False))

    def ops(self, *, pruned: bool) -> Iterator[Op]:
        """Yield the ops of one kind of step, in host order."""
        for slot in self.order:
            op = slot.pick(pruned=pruned)
            if op is not None:
                yield op

    def ever_runs(self) -> frozenset[Op]:
        """Return the ops of every kind of step that it can make: with a decision also those of pruned steps."""
        kinds = (True, False) if self.decides else (False,)
        return frozenset(op for pruned in kinds for op in self.ops(pruned=pruned))

    def to_dict(self) -> dict[str, object]:
        """Return the form that `parse_placement` reads and a manifest stores."""
        return {"name": self.name, "order": [str(slot) for slot in self.order], "lag_steps": self.lag_steps}


def parse_placement(name: str, order: str | list[str], lag_steps: int | None) -> Placement:
    """Make a placement from slot texts such as "decide" or "build_varlen|build_dense" (pruned|full width)."""
    texts = order.split() if isinstance(order, str) else order
    return Placement(name, tuple(_slot(name, text) for text in texts), lag_steps)


def load_placement(path: Path) -> Placement:
    """Read a TOML file with `name` (optional: the file's stem), `order` (list or text) and `lag_steps`.

    Raises PlacementError when it cannot be read, or calls another order or lag by a built-in's name.
    """
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise PlacementError(f"{path}: cannot be read ({error.strerror}); give a placement file in TOML") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlacementError(f"{path}: not TOML ({error}); expected name, order and lag_steps") from error
    placement = placement_from_dict({"name": path.stem, **table}, source=str(path))
    meant = _built_in(placement.name)
    if meant is not None and (placement.order, placement.lag_steps) != (meant.order, meant.lag_steps):
        what = "order" if placement.order != meant.order else "lag_steps"
        raise PlacementError(
            f"{path}: name is {placement.name!r}, a built-in placement, but its {what} is not the built-in's; choose "
            "another name"
        )
    return placement


def placement_from_dict(table: Mapping[str, object], source: str = "placement") -> Placement:
    """Build a placement from a parsed table; unknown keys and wrong types are errors that name the source."""
    unknown = sorted(set(table) - {"name", "order", "lag_steps"})
    if unknown:
        raise PlacementError(f"{source}: unknown key {unknown[0]!r}; expected name, order, lag_steps")
    name, order, lag_steps = table.get("name"), table.get("order"), table.get("lag_steps")
    if not isinstance(name, str) or not name:
        raise PlacementError(f"{source}: name is {name!r}; expected a text")
    texts = order.split() if isinstance(order, str) else order
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise PlacementError(f"{source}: order is {order!r}; expected a list of op names")
    if lag_steps is not None and (not isinstance(lag_steps, int) or isinstance(lag_steps, bool)):
        raise PlacementError(f"{source}: lag_steps is {lag_steps!r}; expected a whole number, or leave it out")
    return parse_placement(name, texts, lag_steps)


def resolve_placement(text: str) -> Placement:
    """Return a built-in by name, or the placement in the TOML file at that path; NAME+rebind: as `with_rebinds`."""
    if text.endswith(_REBINDS_SUFFIX):
        return with_rebinds(resolve_placement(text.removesuffix(_REBINDS_SUFFIX)))
    if text in BUILT_IN:
        return BUILT_IN[text]
    if text.endswith(".toml"):
        return load_placement(expanded(Path(text)))
    known = ", ".join(BUILT_IN)
    hint = did_you_mean(text, BUILT_IN)
    raise PlacementError(f"unknown placement {text!r}; expected one of {known}, or the path of a .toml file{hint}")


def with_lag(placement: Placement, lag_steps: int) -> Placement:
    """Return the same order at another lag, named after it; lag 0 and none need another order, and are refused."""
    if placement.lag_steps is None or placement.lag_steps < 1 or lag_steps < 1:
        raise PlacementError(f"{placement.name}: cannot be run at lag {lag_steps}; take a lag placement and lag >= 1")
    if lag_steps == placement.lag_steps:
        return placement
    return Placement(f"{placement.name}-{lag_steps}", placement.order, lag_steps)


def with_rebinds(placement: Placement) -> Placement:
    """Return the placement with each graph's lengths bound right before its launch, named NAME+rebind.

    For devices whose graphs take lengths from the host (npu). Another place may be better: write a placement file.
    """
    if placement.rebinds:
        raise PlacementError(f"{placement.name}: rebinds already; give it without {_REBINDS_SUFFIX}")
    order: list[Slot] = []
    for slot in placement.order:
        order.extend(_slot(placement.name, rebind) for rebind, launch in _REBINDS.items() if str(slot) == launch)
        order.append(slot)
    return Placement(placement.name + _REBINDS_SUFFIX, tuple(order), placement.lag_steps)


def _built_in(name: str) -> Placement | None:
    """Return what a name of the built-ins stands for, also one that `with_lag` or `with_rebinds` gives them."""
    base, _, lag = name.rpartition("-")
    try:
        if name.endswith(_REBINDS_SUFFIX):
            plain = _built_in(name.removesuffix(_REBINDS_SUFFIX))
            return with_rebinds(plain) if plain else None
        if lag.isdecimal() and (lagged := _built_in(base)):
            return with_lag(lagged, int(lag))
    except PlacementError:
        return None
    return BUILT_IN.get(name)


def _slot(name: str, text: str) -> Slot:
    pruned, bar, full = text.partition("|")
    return Slot(_op(name, pruned), _op(name, full if bar else pruned))


def _op(placement: str, text: str) -> Op | None:
    text = text.strip()
    if text == _NOTHING:
        return None
    if text not in CATALOGUE:
        hint = did_you_mean(text, CATALOGUE)
        raise PlacementError(f"{placement}: unknown op {text!r}; expected one of {', '.join(CATALOGUE)}{hint}")
    return CATALOGUE[text]


def _check(placement: Placement) -> None:
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


def _check_order(placement: Placement, pruned: bool) -> None:
    ops = list(placement.ops(pruned=pruned))
    _check_members(placement, [op.name for op in ops], "pruned" if pruned else "full-width")
    given = _check_data(placement, ops)
    if pruned and "varlen_batch" not in given:
        raise PlacementError(f"{placement.name}: a pruned step verifies without 'build_varlen'; add it after 'decide'")


def _check_members(placement: Placement, names: list[str], kind: str) -> None:
    """Every op that a step cannot do without, none twice, and rebinds before their launches."""
    required = list(_ONCE)
    if placement.decides:
        required.append("decide")
    if placement.lag_steps:
        required.append("store_confidence")
    for name in required:
        if name not in names:
            raise PlacementError(f"{placement.name}: a {kind} step never runs {name!r}; add it to the order")
    for name in names:
        if names.count(name) > 1:
            raise PlacementError(f"{placement.name}: a {kind} step runs {name!r} twice; keep one")
    if not placement.decides and "decide" in names:
        raise PlacementError(f"{placement.name}: runs 'decide' without lag_steps; say how old its confidence is")
    for rebind, launch in _REBINDS.items():
        if rebind in names and names.index(rebind) > names.index(launch):
            raise PlacementError(f"{placement.name}: {rebind!r} comes after {launch!r}; the graph would run unbound")


def _check_data(placement: Placement, ops: list[Op]) -> set[str]:
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
        if op.name == "read_states" and placement.lag_steps:
            given.add("decision_confidence")
    return given


def _missing(placement: Placement, op: Op, need: str, names: list[str]) -> str:
    givers = [giver.name for giver in CATALOGUE.values() if need in giver.gives]
    later = [giver for giver in givers if giver in names]
    where = f"{later[0]!r} gives it, but only later" if later else f"add {' or '.join(map(repr, givers))} before it"
    return f"{placement.name}: {op.name!r} needs {need}: {where}"


_HEAD = "schedule read_states"
_TAIL = "launch_target launch_verify read_tokens"
_END = "write_context finish"

_BUILT_IN = (
    parse_placement(
        "static",
        f"{_HEAD} build_query launch_draft build_dense launch_sample fill_dense {_TAIL} {_END}",
        None,
    ),
    parse_placement(
        "this-step",
        f"{_HEAD} build_query launch_draft build_dense launch_sample read_confidence decide "
        f"build_varlen|- fill_varlen|fill_dense {_TAIL} {_END}",
        0,
    ),
    parse_placement(
        "lag",
        f"{_HEAD} build_query launch_draft build_dense launch_sample decide "
        f"build_varlen|- fill_varlen|fill_dense {_TAIL} store_confidence {_END}",
        1,
    ),
    parse_placement(
        "lag-overlap",
        f"{_HEAD} decide build_query launch_draft build_varlen|build_dense launch_sample "
        f"fill_varlen|fill_dense {_TAIL} store_confidence {_END}",
        1,
    ),
    parse_placement(
        "lag-overlap-late",
        f"{_HEAD} build_query launch_draft decide build_varlen|build_dense launch_sample "
        f"fill_varlen|fill_dense {_TAIL} store_confidence {_END}",
        1,
    ),
    parse_placement(
        "lag-overlap-index",
        f"{_HEAD} build_query launch_draft decide build_varlen|build_dense build_fill_index|- launch_sample "
        f"scatter_fill|fill_dense {_TAIL} store_confidence {_END}",
        1,
    ),
)

BUILT_IN: Mapping[str, Placement] = MappingProxyType({placement.name: placement for placement in _BUILT_IN})

#: The four arms of xLLM pull request 2280, in the order it introduces them.
PULL_REQUEST_ARMS = ("static", "this-step", "lag", "lag-overlap")

#: A prefill step's order. It makes no decision and drafts nothing, so the decode legality rules do not apply.
PREFILL_ORDER: tuple[Op, ...] = tuple(
    CATALOGUE[name]
    for name in ("schedule", "build_prefill", "launch_prefill", "read_tokens", "write_context", "finish")
)
