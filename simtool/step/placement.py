"""A placement: the order of the host's work in a step, and the age of the confidence its decision reads.

A placement is data. The live engine and the replay both run `for slot in placement.order`, so what is measured
and what is simulated cannot drift apart. An order that breaks a data dependency is refused when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from simtool.errors import PlacementError, UsageError, did_you_mean
from simtool.files.names import why_no_name
from simtool.files.reading import UnreadableError, quoted, read_toml_table
from simtool.files.writing import expanded
from simtool.step.handed_on import given_ahead
from simtool.step.legality import REBINDS, check
from simtool.step.ops import CATALOGUE, Op, for_next_step, plain
from simtool.step.policies.catalogue import POLICIES, parse_policy, policy_from_dict
from simtool.step.policies.policy import Policy
from simtool.step.policies.xllm import XllmController
from simtool.step.slot import COLD, NEXT, NOTHING, Slot

_KEYS = ("name", "order", "lag_steps", "sync", "policy")
_REBINDS_SUFFIX = "+rebind"


#: Several times as many as there are ops.
_MOST_SLOTS = 256


@dataclass(frozen=True)
class Placement:
    """An ordered list of slots and a lag.

    lag_steps: None for a placement without a decision (static); 0 reads this step's confidence; k >= 1 reads the
    confidence stored k decode steps ago. Ops may sync (see `with_sync`): that changes when they end, not what is legal.
    policy: which rule decides; None: xLLM's controller at that lag. With a policy, lag_steps is the age of what the
    host decides on. Raises PlacementError when the order breaks a data dependency.
    """

    name: str
    order: tuple[Slot, ...]
    lag_steps: int | None
    policy: Policy | None = None

    def __post_init__(self) -> None:
        # a name may say whose it is, as in xllm-2280/lag; no path is made of it but through file_stem
        parts = self.name.split("/")
        reason = next(filter(None, map(why_no_name, parts)), None if len(parts) <= 2 else "holds path separators")
        if reason:
            raise PlacementError(
                f"placement name {quoted(self.name)} {reason}, and traces are named after it; choose another name"
            )
        if len(self.order) > _MOST_SLOTS:
            raise PlacementError(f"{self.name}: {len(self.order)} slots; expected at most {_MOST_SLOTS}")
        check(self)
        if self.policy is not None:
            _check_ages(self, self.policy)

    @property
    def decides(self) -> bool:
        """Whether a controller runs in the step."""
        return self.lag_steps is not None

    @property
    def runs_ahead(self) -> bool:
        """Whether a step launches work for the next one."""
        return any(slot.ahead for slot in self.order)

    @property
    def keeps_drafts(self) -> bool:
        """Whether a draft waits for its sequence whatever the batch becomes, for prefills draft too: none is cold."""
        return self.runs_ahead and not any(slot.cold for slot in self.order)

    @cached_property
    def handed_on(self) -> frozenset[str]:
        """The next step's data that a step gives where it launches ahead."""
        return given_ahead(op for slot in self.order for op in (slot.pruned, slot.full) if op is not None)

    @property
    def splits_on_device(self) -> bool:
        """Whether the host knows only how many drafts a step verifies, and the device whose."""
        return any(slot.full is not None and slot.full.name == "decide_budget" for slot in self.order)

    @property
    def needs_simpy(self) -> bool:
        """Whether only the simulator that is read can replay it, and not the compiled one."""
        return self.runs_ahead or self.splits_on_device or self.policy is not None

    @property
    def rebinds(self) -> bool:
        """Whether it binds host lengths to captured graphs."""
        return any(op.name in REBINDS for op in self.ops(pruned=False))

    @property
    def sync(self) -> tuple[str, ...]:
        """The ops that block though the algorithm does not ask for it: `NAME`, or `NAME|-` in pruned steps only."""
        return tuple(dict.fromkeys(text for slot in self.order for text in slot.sync))

    @property
    def rule(self) -> Policy:
        """What decides."""
        return self.policy or XllmController(self.lag_steps or 0)

    @property
    def splits_for_free(self) -> bool:
        """Whether a share depends on this step's confidence, and no op reads it or splits by it."""
        return self.policy is not None and self.policy.split_steps == 0 and bool(self.lag_steps)

    @property
    def file_stem(self) -> str:
        """Its name as part of a file's name."""
        return re.sub(r"[/:=,@]", "-", self.name)

    def gives(self, datum: str) -> bool:
        """Whether every step gives that datum."""
        kinds = (True, False) if self.decides else (False,)
        return all(any(datum in op.gives for op in self.ops(pruned=pruned)) for pruned in kinds)

    def ops(self, *, pruned: bool, warm: bool = False, ahead: bool = True) -> Iterator[Op]:
        """Yield the ops of one kind of step, in host order.

        warm: the step before launched work for it. ahead: it launches work for the next one itself (`launches_ahead`).
        """
        for slot in self.order:
            op = slot.pick(pruned=pruned)
            if op is not None and not (warm and slot.cold) and (ahead or not op.ahead):
                yield op

    def ever_runs(self) -> frozenset[Op]:
        """Return the ops of every kind of step that it can make: with a decision also those of pruned steps."""
        kinds = (True, False) if self.decides else (False,)
        return frozenset(op for pruned in kinds for op in self.ops(pruned=pruned))

    def to_dict(self) -> dict[str, object]:
        """Return the form that `parse_placement` reads and a manifest stores."""
        table: dict[str, object] = {
            "name": self.name,
            "order": [str(slot) for slot in self.order],
            "lag_steps": self.lag_steps,
        }
        table |= {"sync": list(self.sync)} if self.sync else {}
        return {**table, "policy": self.policy.to_dict()} if self.policy else table


def parse_placement(name: str, order: str | list[str], lag_steps: int | None, sync: Iterable[str] = ()) -> Placement:
    """Make a placement from slot texts such as "decide" or "build_varlen|build_dense" (pruned|full width).

    next:OP runs for the next step; cold:OP only in a step that nothing was launched ahead for.
    sync: see `with_sync`.
    """
    texts = order.split() if isinstance(order, str) else order
    return with_sync(Placement(name, tuple(_slot(name, text) for text in texts), lag_steps), sync)


def with_sync(placement: Placement, sync: Iterable[str]) -> Placement:
    """Return the placement with these ops blocking (see `ops.syncing`).

    sync: op names; `NAME|-`: in pruned steps only, `-|NAME`: in full-width steps only. Raises PlacementError for an op
    that the placement never runs there, or that cannot sync.
    """
    order = placement.order
    for text in sync:
        pruned, bar, full = (part.strip() for part in text.partition("|"))
        name = full if pruned == NOTHING else pruned
        in_full = not bar or full != NOTHING
        in_pruned = pruned != NOTHING if placement.decides else in_full
        changed = tuple(slot.syncing(name, pruned=in_pruned, full=in_full) for slot in order)
        if changed == order:
            raise PlacementError(f"{placement.name}: sync names {text!r}, which it never runs so, or names it twice")
        order = changed
    return replace(placement, order=order)


def without_sync(placement: Placement, names: Collection[str] | None = None) -> Placement:
    """Return the placement with the ops of these names not blocking (None: none does): each as if it were pinned."""

    def pinned(op: Op | None) -> Op | None:
        return plain(op) if op and (names is None or op.name in names) else op

    order = tuple(replace(slot, pruned=pinned(slot.pruned), full=pinned(slot.full)) for slot in placement.order)
    return replace(placement, order=order)


def load_placement(path: Path) -> Placement:
    """Read a TOML file with `name` (optional: the file's stem), `order` (list or text), `lag_steps`, `sync`, `policy`.

    Raises PlacementError when it cannot be read, or calls another order, lag or sync by a built-in's name.
    """
    try:
        table = read_toml_table(path)
    except UnreadableError as error:
        raise PlacementError(
            f"{path}: {error}; expected a placement file: name, order and lag_steps in TOML"
        ) from error
    placement = placement_from_dict({"name": path.stem, **table}, source=str(path))
    meant = _built_in(placement.name)
    if meant is not None and (placement.order, placement.lag_steps) != (meant.order, meant.lag_steps):
        same_order = list(map(str, placement.order)) == list(map(str, meant.order))
        what = "order" if not same_order else "sync" if placement.sync != meant.sync else "lag_steps"
        raise PlacementError(
            f"{path}: name is {placement.name!r}, a built-in placement, but its {what} is not the built-in's; choose "
            "another name"
        )
    return placement


def placement_from_dict(table: Mapping[str, object], source: str = "placement") -> Placement:
    """Build a placement from a parsed table.

    Raises PlacementError, which names the source, for unknown keys, wrong types and an order that is not legal.
    """
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise PlacementError(f"{source}: unknown key {unknown[0]!r}; expected {', '.join(_KEYS)}")
    name, order, lag_steps, sync = table.get("name"), table.get("order"), table.get("lag_steps"), table.get("sync", [])
    if not isinstance(name, str) or not name:
        raise PlacementError(f"{source}: name is {quoted(name)}; expected a text")
    texts = order.split() if isinstance(order, str) else order
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise PlacementError(f"{source}: order is {quoted(order)}; expected a list of op names")
    if lag_steps is not None and (not isinstance(lag_steps, int) or isinstance(lag_steps, bool)):
        raise PlacementError(f"{source}: lag_steps is {quoted(lag_steps)}; expected a whole number, or leave it out")
    if not isinstance(sync, list) or not all(isinstance(text, str) for text in sync):
        raise PlacementError(f"{source}: sync is {sync!r}; expected a list of op names")
    return replace(parse_placement(name, texts, lag_steps, sync), policy=_policy(source, table.get("policy")))


def resolve_placement(text: str) -> Placement:
    """Return a built-in by name, or the placement in the TOML file at that path; NAME+rebind: as `with_rebinds`.

    POLICY, or PLACEMENT@POLICY, with parameters as `parse_policy` takes them: as `with_policy`. Raises PlacementError
    for an unknown name and as `load_placement`, UsageError as `parse_policy`.
    """
    if text.endswith(_REBINDS_SUFFIX):
        return with_rebinds(resolve_placement(text.removesuffix(_REBINDS_SUFFIX)))
    if text in NAMED:
        return NAMED[text]
    if text.endswith(".toml"):
        return load_placement(expanded(Path(text)))
    order, at, policy = text.rpartition("@")
    if at or policy.partition(":")[0] in POLICIES:
        return with_policy(resolve_placement(order) if at else None, parse_policy(policy))
    known = ", ".join(NAMED)
    hint = did_you_mean(text, [*NAMED, *POLICIES])
    raise PlacementError(
        f"unknown placement {text!r}; expected one of {known}, the path of a .toml file, or a policy "
        f"(simtool policies lists them){hint}"
    )


def with_policy(placement: Placement | None, policy: Policy) -> Placement:
    """Return the placement's order with another rule that decides, named PLACEMENT@POLICY; None: the policy's own home.

    A placement that reads this step's confidence decides both total and split on the host. In one that does not, a
    split by this step's confidence is the device's, and the total must be older. Raises PlacementError where it is not.
    """
    order = placement or NAMED[policy.home]
    if order.lag_steps is None:
        raise PlacementError(f"{order.name} decides nothing, so {policy.name} has no place in it; take {policy.home}")
    lag_steps = order.lag_steps
    if lag_steps:
        host = policy.budget_steps if policy.budget_steps is not None else policy.split_steps
        lag_steps = max(host or 0, 1)
    name = policy.text if placement is None else f"{placement.name}@{policy.text}"
    return replace(order, name=name, lag_steps=lag_steps, policy=policy)


def with_lag(placement: Placement, lag_steps: int) -> Placement:
    """Return the same order at another lag, named after it; lag 0 and none need another order, and are refused."""
    if placement.lag_steps is None or placement.lag_steps < 1 or lag_steps < 1:
        raise PlacementError(f"{placement.name}: cannot be run at lag {lag_steps}; take a lag placement and lag >= 1")
    if placement.policy is not None:
        raise PlacementError(
            f"{placement.name}: its policy says how old its confidence is; give {placement.rule.name} its ages"
        )
    if lag_steps == placement.lag_steps:
        return placement
    return Placement(f"{placement.name}-{lag_steps}", placement.order, lag_steps)


def with_rebinds(placement: Placement) -> Placement:
    """Return the placement with each graph's lengths bound right before its launch, named NAME+rebind.

    For devices whose graphs take lengths from the host (npu). Another place may be better: write a placement file.
    Raises PlacementError for one that rebinds already.
    """
    if placement.rebinds:
        raise PlacementError(f"{placement.name}: rebinds already; give it without {_REBINDS_SUFFIX}")
    order: list[Slot] = []
    for slot in placement.order:
        for rebind, launch in REBINDS.items():
            if slot.full is not None and slot.full.name == launch:
                order.append(_slot(placement.name, f"{slot.when}{rebind}"))
        order.append(slot)
    return replace(placement, name=placement.name + _REBINDS_SUFFIX, order=tuple(order))


def _check_ages(placement: Placement, policy: Policy) -> None:
    """The host cannot decide on what it does not have yet; what the device can split by is this step's alone."""
    if placement.lag_steps is None:
        raise PlacementError(f"{placement.name}: has a policy and no lag_steps; say how old its confidence is")
    if placement.splits_on_device:
        raise PlacementError(
            f"{placement.name}: splits on the device by its own rule, and only xLLM's controller gives it a budget so "
            f"far; take {policy.text} alone"
        )
    if not placement.lag_steps:
        return
    if policy.budget_steps == 0:
        raise PlacementError(
            f"{placement.name}: {policy.name} takes the total from this step's confidence, which this order never "
            f"reads; use this-step@{policy.text}"
        )
    if policy.budget_steps is None and policy.split_steps == 0 and not policy.on_device:
        raise PlacementError(
            f"{placement.name}: {policy.name} reads this step's confidence, which this order never does; use "
            f"this-step@{policy.text}, or give it an age of 1 or more"
        )


def _policy(source: str, value: object) -> Policy | None:
    """A manifest's or a file's policy: a text, or a table of a name and parameters."""
    try:
        if value is None or isinstance(value, str):
            return None if value is None else parse_policy(value)
        if isinstance(value, Mapping):
            return policy_from_dict(value)
    except UsageError as error:
        raise PlacementError(f"{source}: {error}") from error
    raise PlacementError(f"{source}: policy is {quoted(value)}; expected a policy's name, or a table with one")


def launches_ahead(remaining: Sequence[int], prefix_lens: Sequence[int]) -> bool:
    """Whether a step launches for the next one, where its placement says so: not while the next batch is in doubt.

    A sequence that may reach its length limit in this step may leave, and work for a batch that changes is thrown
    away. An end by a stop token cannot be foreseen: it costs what was launched. remaining: tokens that each may still
    emit. prefix_lens: drafts that each offers in this step.
    """
    return all(left > prefix + 1 for left, prefix in zip(remaining, prefix_lens, strict=True))


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
    return NAMED.get(name)


def _slot(name: str, text: str) -> Slot:
    ahead, cold = text.startswith(NEXT), text.startswith(COLD)
    pruned, bar, full = text.removeprefix(NEXT if ahead else COLD if cold else "").partition("|")
    first, second = (_op(name, part) for part in (pruned, full if bar else pruned))
    if ahead:
        first, second = (for_next_step(op) if op else None for op in (first, second))
    return Slot(first, second, cold)


def _op(placement: str, text: str) -> Op | None:
    text = text.strip()
    if text == NOTHING:
        return None
    if text not in CATALOGUE:
        hint = did_you_mean(text, CATALOGUE)
        raise PlacementError(f"{placement}: unknown op {text!r}; expected one of {', '.join(CATALOGUE)}{hint}")
    return CATALOGUE[text]


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

#: Ops of a pruned step in which xLLM's code waits: its index lists go up from memory that is not pinned, and the
#: scatter's indices are made straight on the device.
XLLM_SYNC = ("fill_varlen", "launch_verify|-")

_XLLM = (
    parse_placement(
        "xllm-2280/static",
        f"{_HEAD} build_query launch_draft build_dense launch_tokens fill_dense {_TAIL} {_END}",
        None,
    ),
    parse_placement(
        "xllm-2280/this-step",
        f"{_HEAD} build_query launch_draft build_dense launch_sample read_confidence decide "
        f"build_varlen|- fill_varlen|fill_dense {_TAIL} {_END}",
        0,
        XLLM_SYNC,
    ),
    parse_placement(
        "xllm-2280/lag",
        f"{_HEAD} build_query launch_draft build_dense launch_sample decide "
        f"build_varlen|- fill_varlen|fill_dense {_TAIL} write_context store_confidence finish",
        1,
        XLLM_SYNC,
    ),
    parse_placement(
        "xllm-2280/lag-overlap",
        f"{_HEAD} decide build_query launch_draft build_varlen|build_dense launch_sample "
        f"fill_varlen|fill_dense {_TAIL} write_context store_confidence finish",
        1,
        XLLM_SYNC,
    ),
)

#: The arms of the pull request as the code runs them: with its syncs, static without a confidence, and the confidence
#: stored once the context is written.
XLLM_ARMS: Mapping[str, Placement] = MappingProxyType({placement.name: placement for placement in _XLLM})

_LAUNCHED_AHEAD = "next:advance_query next:launch_draft next:launch_sample"
_PUBLISHED = "launch_target launch_verify send_tokens extend_context"

_AHEAD = (
    parse_placement(
        "static-ahead",
        f"{_HEAD} cold:build_query cold:launch_draft build_dense cold:launch_sample fill_dense {_PUBLISHED} "
        f"{_LAUNCHED_AHEAD} await_tokens finish",
        None,
    ),
    parse_placement(
        "this-step-ahead",
        f"{_HEAD} cold:build_query cold:launch_draft build_dense cold:launch_sample cold:send_confidence "
        f"await_confidence decide build_varlen|- fill_varlen|fill_dense {_PUBLISHED} "
        f"{_LAUNCHED_AHEAD} next:send_confidence await_tokens finish",
        0,
    ),
    parse_placement(
        "lag-ahead",
        f"{_HEAD} cold:build_query cold:launch_draft decide build_varlen|build_dense cold:launch_sample "
        f"cold:send_confidence fill_varlen|fill_dense {_PUBLISHED} "
        f"{_LAUNCHED_AHEAD} next:send_confidence await_tokens keep_confidence finish",
        1,
    ),
)

#: The host decides how many drafts a step verifies, from confidence two steps old; the device says whose, by this
#: step's.
DEVICE_SPLIT = parse_placement(
    "device-split",
    f"{_HEAD} build_query launch_draft decide_budget build_budget|build_dense launch_sample split_budget|- "
    f"compact_rows|fill_dense {_TAIL} store_confidence {_END}",
    2,
)

#: Arms that launch the next draft before the tokens of the step are on the host (docs/cross-step.md).
AHEAD_ARMS: Mapping[str, Placement] = MappingProxyType({placement.name: placement for placement in _AHEAD})

#: vLLM's order: the draft comes last, for the step after, and the tokens are read behind it. A draft waits for its
#: sequence, and a prefill drafts as well, so no step is without. As it is, and where a decision would stand in it.
_DRAFT_LAST = "launch_target launch_verify extend_context next:advance_query next:launch_draft next:launch_sample"

_VLLM = (
    parse_placement("vllm/static", f"{_HEAD} build_dense fill_dense {_DRAFT_LAST} read_tokens finish", None),
    parse_placement(
        "vllm/this-step",
        f"{_HEAD} read_confidence decide build_varlen|build_dense fill_varlen|fill_dense {_DRAFT_LAST} read_tokens "
        "finish",
        0,
    ),
)

VLLM_ARMS: Mapping[str, Placement] = MappingProxyType({placement.name: placement for placement in _VLLM})

#: All that go by a name.
NAMED: Mapping[str, Placement] = MappingProxyType(
    {**BUILT_IN, **XLLM_ARMS, **AHEAD_ARMS, DEVICE_SPLIT.name: DEVICE_SPLIT, **VLLM_ARMS}
)

#: The four arms of xLLM pull request 2280, in the order it introduces them.
PULL_REQUEST_ARMS = ("static", "this-step", "lag", "lag-overlap")

#: A prefill step's order. It makes no decision and drafts nothing, so the decode legality rules do not apply.
PREFILL_ORDER: tuple[Op, ...] = tuple(
    CATALOGUE[name]
    for name in ("schedule", "build_prefill", "launch_prefill", "read_tokens", "write_context", "finish")
)
