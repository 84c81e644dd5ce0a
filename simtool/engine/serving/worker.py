"""One decode step, live: one method per op, run in the order that the placement gives.

The host builds plain lists and never touches a model tensor; the device runs behind `Device`. What an op waits for
follows from the catalogue: device work launched by an op goes behind the device work of the ops that gave its needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from simtool.engine.devices.protocol import Device, Download, Event, HostArray
from simtool.engine.serving.decode_state import DecodeStates
from simtool.engine.serving.recorder import Recorder
from simtool.step.controller import ControllerSettings, decide
from simtool.step.graph_buckets import pick_bucket
from simtool.step.ops import CATALOGUE, Op
from simtool.step.placement import PREFILL_ORDER, Placement, launches_ahead
from simtool.step.policies.policy import Aged, Decider, StepView
from simtool.step.scheduler import ActiveRequest, Scheduler
from simtool.step.temperatures import calibrated

#: What the host reads of a verdict.
_VERDICT = ("tokens", "accepted", "sound")


@dataclass(frozen=True)
class BlockShape:
    """The drafted block: N drafts from `width` rows, filled with `mask_token`."""

    num_speculative_tokens: int
    width: int
    mask_token: int


@dataclass
class StepState:
    """What the ops of one step hand on to each other. Lists are per sequence unless their name says rows.

    warm: the step before launched work for it. ahead: it launches work for the next. sent: copies under way.
    """

    index: int
    prefill: bool
    now_ns: int
    warm: bool = False
    ahead: bool = False
    flow: int = 0
    syncs: bool = False
    after: list[Event] = field(default_factory=list)
    giver: dict[str, Event] = field(default_factory=dict)
    sequences: list[ActiveRequest] = field(default_factory=list)
    anchors: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    confidence: list[Sequence[float] | None] = field(default_factory=list)
    sent: dict[str, Download] = field(default_factory=dict)
    older: dict[int, list[Sequence[float] | None]] = field(default_factory=dict)
    view: StepView | None = None
    prefix_lens: list[int] = field(default_factory=list)
    pruned: bool = False
    budget: int = 0
    cu_rows: list[int] = field(default_factory=list)
    emitted: list[list[int]] = field(default_factory=list)
    accepted: list[int] = field(default_factory=list)
    observed: Mapping[str, Any] = field(default_factory=dict)
    tokens_ns: int = 0
    graph_bucket: int | None = None


class Worker:
    """Runs steps. `tokens[request_id]` is prompt + output so far; `keys[request_id]` seeds its random numbers.

    decider: of the placement's policy; None: the controller of xLLM decides.
    """

    def __init__(
        self,
        device: Device,
        scheduler: Scheduler,
        block: BlockShape,
        placement: Placement,
        controller: ControllerSettings,
        recorder: Recorder,
    ) -> None:
        self.device, self.scheduler, self.block = device, scheduler, block
        self.placement, self.controller, self.recorder = placement, controller, recorder
        self.decider = placement.policy.start() if placement.policy else None
        self._ages = placement.policy.ages if placement.policy else ()
        self.cache = DecodeStates(depth=max(placement.lag_steps or 0, *self._ages, 0))
        self.tokens: dict[str, list[int]] = {}
        self.keys: dict[str, int] = {}
        self.stop_tokens: frozenset[int] = frozenset()
        self.finished: list[tuple[ActiveRequest, str]] = []
        self._coming: StepState | None = None
        self._methods: dict[str, Callable[[StepState], None]] = {name: getattr(self, name) for name in CATALOGUE}

    def step(self, index: int, now_ns: int) -> StepState:
        """Run one step, prefill when a request can be admitted and decode otherwise."""
        s = StepState(index, self.scheduler.can_admit(now_ns), now_ns)
        coming, self._coming = self._coming, None
        for op in self._ops(s):
            of = s
            if op.ahead:
                of = self._coming = self._coming or StepState(index + 1, False, now_ns, sequences=s.sequences)
            of.flow = self.recorder.begin_op(op)
            of.after = [of.giver[need] for need in op.needs if need in of.giver]
            of.after += [s.giver[need] for need in op.prior if op.ahead and need in s.giver]
            of.syncs = op.syncs
            self._methods[op.name](of)
            self._sync(of)
            if op.works:
                of.giver.update(dict.fromkeys(op.gives, of.after[-1]))
            if op.name == "schedule" and coming is not None and coming.sequences == s.sequences:
                s.warm, s.giver, s.sent = True, coming.giver, coming.sent
        return s

    def _ops(self, s: StepState) -> Iterator[Op]:
        if s.prefill:
            yield from PREFILL_ORDER
            return
        for slot in self.placement.order:
            op = slot.pick(pruned=s.pruned)
            if op is None or (s.warm and slot.cold) or (op.ahead and not self._goes_ahead(s)):
                continue
            yield op

    def _goes_ahead(self, s: StepState) -> bool:
        """Whether this step launches for the next: settled once, when its first op for that is due."""
        if not s.ahead:
            s.ahead = launches_ahead([sequence.remaining for sequence in s.sequences], s.prefix_lens)
        return s.ahead

    # --- the ops, in the order of the catalogue -------------------------------------------------------------

    def schedule(self, s: StepState) -> None:
        """Pick the batch: the newly admitted for a prefill, everyone running for a decode."""
        s.sequences = self.scheduler.admit(s.now_ns) if s.prefill else list(self.scheduler.running)

    def read_states(self, s: StepState) -> None:
        """Anchor and position of each slot; at lag k also the confidence stored k steps ago, if it is fresh."""
        n, lag = self.block.num_speculative_tokens, self.placement.lag_steps
        for sequence in s.sequences:
            slot, request_id = sequence.slot, sequence.request.request_id
            state = self.cache.read(slot, request_id)
            s.anchors.append(state.token)
            s.positions.append(state.position)
            s.prefix_lens.append(n)
            s.confidence.append(self.cache.lagged_confidence(slot, request_id, lag) if lag else None)
            for age in filter(None, self._ages):
                s.older.setdefault(age, []).append(self.cache.lagged_confidence(slot, request_id, age))

    def decide(self, s: StepState) -> None:
        """Prefix lengths from whatever confidence this placement has by now."""
        n = self.block.num_speculative_tokens
        if self.decider is None:
            s.prefix_lens = decide(s.confidence, s.positions, n, self.controller)
        else:
            s.prefix_lens = self._ask(s, self.decider)
        s.pruned = any(prefix < n for prefix in s.prefix_lens)

    def decide_budget(self, s: StepState) -> None:
        """How many drafts the batch verifies: what would be offered on the confidence at hand, no matter whose."""
        self.decide(s)
        s.budget = sum(s.prefix_lens)
        s.prefix_lens = [self.block.num_speculative_tokens] * len(s.sequences)  # what each may be given

    def build_budget(self, s: StepState) -> None:
        """One row a sequence, with pages for the widest prefix that it may be given."""
        n, pool = self.block.num_speculative_tokens, self.scheduler.pool
        ends = [position + n + 1 for position in s.positions]
        width = max(map(pool.blocks_for, ends))
        tables = []
        for sequence, end in zip(s.sequences, ends, strict=True):
            used = sequence.blocks[: pool.blocks_for(end)]
            tables.append([*used, *[0] * (width - len(used))])
        s.cu_rows = [0, s.budget + len(s.sequences)]  # all that is known before the device has split
        arrays: dict[str, HostArray] = {
            "budget_anchors": s.anchors,
            "budget_positions": s.positions,
            "budget_block_tables": tables,
            "budget_drafts": [s.budget],
        }
        self._upload(s, "build_budget", arrays)

    def split_budget(self, s: StepState) -> None:
        """The budget to the likeliest drafts of this step."""
        self._launch(s, "split_budget")

    def compact_rows(self, s: StepState) -> None:
        """The validate rows of that split."""
        self._launch(s, "compact_rows")

    def build_query(self, s: StepState) -> None:
        """The drafter's rows: each anchor and its masks."""
        ids: list[int] = []
        positions: list[int] = []
        masks = [self.block.mask_token] * (self.block.width - 1)
        for anchor, position in zip(s.anchors, s.positions, strict=True):
            ids.append(anchor)
            ids.extend(masks)
            positions.extend(range(position, position + self.block.width))
        slots = [sequence.slot for sequence in s.sequences]
        arrays = {"query_ids": ids, "query_positions": positions, "query_slots": slots, "context_lens": s.positions}
        self._upload(s, "build_query", {**arrays, **self._keys(s)})

    def advance_query(self, s: StepState) -> None:
        """The drafter's rows of the next block, by the device: it has the new anchors already."""
        self._launch(s, "advance_query")

    def launch_draft(self, s: StepState) -> None:
        """The draft forward."""
        self._launch(s, "draft")

    def build_dense(self, s: StepState) -> None:
        """The validate batch at full width."""
        self._build_validate(s, "build_dense", [self.block.num_speculative_tokens] * len(s.sequences))

    def build_varlen(self, s: StepState) -> None:
        """The validate batch of the rows that survive the prune."""
        self._build_validate(s, "build_varlen", s.prefix_lens)

    def launch_sample(self, s: StepState) -> None:
        """The drafter's sampling and confidence."""
        self._launch(s, "sample")

    def launch_tokens(self, s: StepState) -> None:
        """The drafter's sampling alone, where no decision reads a confidence."""
        self._launch(s, "sample_tokens")

    def read_confidence(self, s: StepState) -> None:
        """This step's confidence, at the price of waiting for the drafter."""
        s.confidence = list(self._read(s, "read_confidence", ("confidence",))["confidence"].tolist())

    def send_confidence(self, s: StepState) -> None:
        """The copy of this step's confidence, under way."""
        self._send(s, "read_confidence", ("confidence",))

    def await_confidence(self, s: StepState) -> None:
        """This step's confidence, once its copy is here."""
        s.confidence = list(self._await(s, "read_confidence")["confidence"].tolist())

    def keep_confidence(self, s: StepState) -> None:
        """This step's confidence, once its copy is here, for the decisions of later steps."""
        self._store(s, self._await(s, "read_confidence")["confidence"].tolist())

    def fill_dense(self, s: StepState) -> None:
        """Drafted tokens into every row but the anchors'."""
        self._launch(s, "fill_dense")

    def fill_varlen(self, s: StepState) -> None:
        """Index lists for the ragged rows, then the scatter of the drafted tokens."""
        self.build_fill_index(s)
        self._launch(s, "fill_varlen")

    def build_fill_index(self, s: StepState) -> None:
        """Where each offered draft comes from in the block, and which validate row it goes to."""
        n = self.block.num_speculative_tokens
        source: list[int] = []
        destination: list[int] = []
        row = 0
        for i, prefix in enumerate(s.prefix_lens):
            for k in range(prefix):
                source.append(i * n + k)
                destination.append(row + 1 + k)
            row += prefix + 1
        self._upload(s, "fill_varlen_index", {"fill_source": source, "fill_destination": destination})

    def scatter_fill(self, s: StepState) -> None:
        """The scatter alone; its index lists were built earlier."""
        self._launch(s, "fill_varlen")

    def rebind_draft(self, s: StepState) -> None:
        """The block's lengths to the graph of the draft forward."""
        self.device.rebind("draft")

    def rebind_target(self, s: StepState) -> None:
        """The validate rows' lengths to the graph of the target forward."""
        self.device.rebind("target")

    def launch_target(self, s: StepState) -> None:
        """The target forward over the validate rows."""
        s.graph_bucket = pick_bucket(self.device.info.graphs.target, s.cu_rows[-1])
        self._launch(s, "target")

    def launch_verify(self, s: StepState) -> None:
        """Rejection sampling and the cut at the prefix length."""
        self._launch(s, "verify")

    def read_tokens(self, s: StepState) -> None:
        """The emitted tokens, cut at the length limit and at a stop token."""
        self._publish(s, self._read(s, "read_tokens", self._verdict(s)))

    def send_tokens(self, s: StepState) -> None:
        """The copy of the emitted tokens, under way."""
        self._send(s, "read_tokens", self._verdict(s))

    def await_tokens(self, s: StepState) -> None:
        """The emitted tokens, once their copy is here."""
        self._publish(s, self._await(s, "read_tokens"))

    def _verdict(self, s: StepState) -> tuple[str, ...]:
        """What the host reads of a verdict: of a split on the device that too."""
        return (*_VERDICT, "prefix_lens") if s.pruned and self.placement.splits_on_device else _VERDICT

    def _publish(self, s: StepState, arrays: Mapping[str, Any]) -> None:
        if "prefix_lens" in arrays:
            s.prefix_lens = arrays["prefix_lens"].tolist()
            s.cu_rows = list(accumulate((prefix + 1 for prefix in s.prefix_lens), initial=0))
        if not arrays["sound"].all():
            self.device.find_unsound()
        s.tokens_ns = self.recorder.now_ns()
        s.accepted = arrays["accepted"].tolist()
        for sequence, row, accepted in zip(s.sequences, arrays["tokens"].tolist(), s.accepted, strict=True):
            s.emitted.append(self._cut(row[: accepted + 1], sequence.remaining))

    def store_confidence(self, s: StepState) -> None:
        """This step's confidence, for the decisions of later steps."""
        self._store(s, self._read(s, "store_confidence", ("confidence",))["confidence"].tolist())

    def _store(self, s: StepState, values: Sequence[Sequence[float]]) -> None:
        for sequence, confidence in zip(s.sequences, values, strict=True):
            self.cache.store_confidence(sequence.slot, sequence.request.request_id, confidence)

    def write_context(self, s: StepState) -> None:
        """Taps of the rows just verified (or of the whole prompt) into the draft's context KV."""
        rows: list[int] = []
        slots: list[int] = []
        positions: list[int] = []
        for i, sequence in enumerate(s.sequences):
            count = sequence.request.prompt_tokens if s.prefill else len(s.emitted[i])
            start = 0 if s.prefill else s.positions[i]
            rows.extend(range(s.cu_rows[i], s.cu_rows[i] + count))
            slots.extend([sequence.slot] * count)
            positions.extend(range(start, start + count))
        arrays = {"context_rows": rows, "context_slots": slots, "context_positions": positions}
        self._upload(s, "write_context", arrays)
        event = self._launch(s, "context_kv")
        with self.recorder.waiting():
            self.device.wait(event)

    def extend_context(self, s: StepState) -> None:
        """Taps of all validated rows: a later block reads those that stood, and the others are written over by then."""
        self._launch(s, "context_all")

    def finish(self, s: StepState) -> None:
        """Commit the emitted tokens; retire whoever reached a stop token or the length limit."""
        if self.decider is not None and s.view is not None:
            self.decider.learn(s.view, s.prefix_lens, s.accepted)
        for sequence, emitted in zip(s.sequences, s.emitted, strict=True):
            request_id = sequence.request.request_id
            self.tokens[request_id].extend(emitted)
            sequence.output_tokens += len(emitted)
            self.cache.commit(sequence.slot, request_id, emitted[-1], sequence.position)
            if emitted[-1] in self.stop_tokens:
                self._retire(sequence, "stop")
            elif sequence.remaining == 0:
                self._retire(sequence, "length")

    def build_prefill(self, s: StepState) -> None:
        """The prompt rows of everyone just admitted."""
        ids: list[int] = []
        positions: list[int] = []
        slot_mapping: list[int] = []
        s.cu_rows = [0]
        for sequence in s.sequences:
            prompt = self.tokens[sequence.request.request_id]
            ids.extend(prompt)
            positions.extend(range(len(prompt)))
            slot_mapping.extend(self._cache_slot(sequence, position) for position in range(len(prompt)))
            s.cu_rows.append(len(ids))
        arrays = {"prefill_ids": ids, "prefill_positions": positions, "prefill_slot_mapping": slot_mapping}
        self._upload(s, "build_prefill", {**arrays, "prefill_cu_rows": s.cu_rows, **self._keys(s)})

    def launch_prefill(self, s: StepState) -> None:
        """The target forward over the prompts and the choice of each first token."""
        self._launch(s, "prefill")

    # --- shared parts ---------------------------------------------------------------------------------------

    def _ask(self, s: StepState, decider: Decider) -> list[int]:
        """Let the policy decide; an order that reads this step's confidence has nobody else to keep it for later."""
        s.view = StepView(
            drafts=self.block.num_speculative_tokens,
            kv_lens=s.positions,
            keys=[sequence.request.request_id for sequence in s.sequences],
            aged={age: self._aged(s.older[age] if age else s.confidence) for age in self._ages},
            settings=self.controller,
            graph_rows=self.device.info.graphs.target,
        )
        lengths = decider.decide(s.view)
        if not self.placement.lag_steps and any(self._ages):
            for sequence, confidence in zip(s.sequences, s.confidence, strict=True):
                self.cache.store_confidence(sequence.slot, sequence.request.request_id, confidence or ())
        return lengths

    def _aged(self, confidence: Sequence[Sequence[float] | None]) -> Aged:
        own = [i for i, row in enumerate(confidence) if row is not None]
        rows = [row for row in confidence if row is not None]
        shape = (len(rows), self.block.num_speculative_tokens)
        known = calibrated(np.array(rows, np.float64).reshape(shape), self.controller.temperatures)
        return Aged(own, known, len(confidence))

    def _build_validate(self, s: StepState, work: str, prefix_lens: Sequence[int]) -> None:
        """Per-row metadata: each row is a q=1 decode row with its own kv length and block table."""
        ids: list[int] = []
        positions: list[int] = []
        slot_mapping: list[int] = []
        kv_lens: list[int] = []
        tables: list[list[int]] = []
        s.cu_rows = [0]
        pool = self.scheduler.pool
        ends = [position + prefix + 1 for position, prefix in zip(s.positions, prefix_lens, strict=True)]
        width = max(map(pool.blocks_for, ends))
        for sequence, anchor, position, end in zip(s.sequences, s.anchors, s.positions, ends, strict=True):
            used = sequence.blocks[: pool.blocks_for(end)]
            padding = [0] * (width - len(used))
            for row_position in range(position, end):
                ids.append(anchor if row_position == position else 0)
                positions.append(row_position)
                slot_mapping.append(self._cache_slot(sequence, row_position))
                kv_lens.append(row_position + 1)
                tables.append([*used, *padding])
            s.cu_rows.append(len(ids))
        arrays: dict[str, HostArray] = {
            "validate_ids": ids,
            "validate_positions": positions,
            "validate_slot_mapping": slot_mapping,
            "validate_kv_lens": kv_lens,
            "validate_block_tables": tables,
            "validate_cu_rows": s.cu_rows,
        }
        self._upload(s, work, arrays)

    def _cache_slot(self, sequence: ActiveRequest, position: int) -> int:
        size = self.scheduler.pool.block_size
        return sequence.blocks[position // size] * size + position % size

    def _keys(self, s: StepState) -> dict[str, HostArray]:
        return {"sample_keys": [self.keys[sequence.request.request_id] for sequence in s.sequences]}

    def _cut(self, emitted: list[int], remaining: int) -> list[int]:
        emitted = emitted[:remaining]
        for i, token in enumerate(emitted):
            if token in self.stop_tokens:
                return emitted[: i + 1]
        return emitted

    def _retire(self, sequence: ActiveRequest, reason: str) -> None:
        self.scheduler.retire(sequence)
        self.finished.append((sequence, reason))

    def _upload(self, s: StepState, work: str, arrays: Mapping[str, HostArray]) -> None:
        s.after.append(self.device.upload(work, s.flow, arrays, tuple(s.after)))

    def _launch(self, s: StepState, work: str) -> Event:
        self._sync(s)
        event = self.device.launch(work, s.flow, tuple(s.after))
        s.after.append(event)
        return event

    def _sync(self, s: StepState) -> None:
        """Where the op's implementation blocks, wait for what it reads and has uploaded: once, before any kernel."""
        if s.syncs:
            s.syncs = False
            with self.recorder.waiting():
                for event in _last(s.after, s.flow):
                    self.device.wait(event)

    def _send(self, s: StepState, work: str, names: tuple[str, ...]) -> None:
        s.sent[work] = self.device.download(work, s.flow, names, tuple(s.after))
        s.after.append(s.sent[work].event)

    def _await(self, s: StepState, work: str) -> dict[str, Any]:
        with self.recorder.waiting():
            return s.sent[work].wait()

    def _read(self, s: StepState, work: str, names: tuple[str, ...]) -> dict[str, Any]:
        download = self.device.download(work, s.flow, names, tuple(s.after))
        s.after.append(download.event)
        with self.recorder.waiting():
            return download.wait()


def _last(events: Sequence[Event], flow: int) -> list[Event]:
    """The events that stand for all of these: an upload of this op waits for the others, and a lane runs in order."""
    if events and events[-1].flow == flow:
        return [events[-1]]
    return list({event.lane: event for event in sorted(events, key=lambda event: event.index)}.values())
