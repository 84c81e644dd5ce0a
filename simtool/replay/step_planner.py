"""The tokens of a replay: which step comes next, whom it serves, and what each sequence gets out of it.

Nothing here takes time. In a closed loop nothing here reads the clock either, so the steps of a replay under the
recorded placement are the recorded steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor

from simtool.replay.keyed_rng import uniform
from simtool.replay.outcomes import Outcome, Outcomes
from simtool.replay.scenario import Scenario
from simtool.step.controller import decide
from simtool.step.cost_features import DecodeShape, prefill_features
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import Op
from simtool.step.placement import PREFILL_ORDER
from simtool.step.scheduler import ActiveRequest, Scheduler


@dataclass(frozen=True)
class RowPlan:
    """One sequence in a decode step. position: of its anchor. fresh: the decision had its own confidence."""

    sequence: ActiveRequest
    position: int
    outcome: Outcome
    prefix_len: int
    accepted: int
    emitted: int
    fresh: bool


@dataclass(frozen=True)
class StepPlan:
    """What one step will do. Exactly one of admitted (prefill) and rows (decode) is filled.

    features: sizes that costs grow with. key: names the step's work alike under every placement, for noise.
    """

    kind: str
    ops: tuple[Op, ...]
    features: Mapping[str, float]
    key: tuple[str, int]
    validate_rows: int
    admitted: tuple[ActiveRequest, ...] = ()
    rows: tuple[RowPlan, ...] = ()
    pruned: bool = False
    graph_bucket: int | None = None

    @property
    def sequences(self) -> list[ActiveRequest]:
        """The sequences of the step, in batch order."""
        return list(self.admitted) or [row.sequence for row in self.rows]


@dataclass(frozen=True)
class Block:
    """The drafted block: N drafts from `width` draft rows; graphs: the buckets that batches are padded to."""

    drafts: int
    width: int
    graphs: GraphBuckets = field(default_factory=GraphBuckets)


class StepPlanner:
    """Plans steps from the scheduler, the outcomes and the placement. totals: tokens that each request will emit."""

    def __init__(
        self,
        scheduler: Scheduler,
        outcomes: Outcomes,
        totals: Mapping[str, int],
        block: Block,
        scenario: Scenario,
    ) -> None:
        self.scheduler, self.outcomes = scheduler, outcomes
        self._totals, self._block = totals, block
        self._placement, self._controller = scenario.placement, scenario.controller
        self._stale_loss = scenario.stale_loss if scenario.placement.lag_steps else 0.0
        self._stored: dict[str, deque[Sequence[float]]] = {}

    def sleep_until_ns(self) -> int:
        """Return when the next step can start at the earliest: 0 unless all wait for a request to arrive."""
        arrival_ns = self.scheduler.next_arrival_ns
        return 0 if self.scheduler.running or arrival_ns is None else arrival_ns

    def plan(self, now_ns: int) -> StepPlan:
        """Return the next step: a prefill of everyone admitted now, or a decode of everyone running."""
        admitted = self.scheduler.admit(now_ns)
        return self._prefill(admitted) if admitted else self._decode(self.scheduler.running)

    def commit(self, plan: StepPlan) -> list[str]:
        """Give each sequence its tokens, retire those that have them all, and return the retired requests' ids."""
        emitted = [1] * len(plan.admitted) or [row.emitted for row in plan.rows]
        finished = []
        for sequence, count in zip(plan.sequences, emitted, strict=True):
            sequence.output_tokens += count
            request_id = sequence.request.request_id
            if sequence.output_tokens == self._totals[request_id]:
                self.scheduler.retire(sequence)
                self._stored.pop(request_id, None)
                finished.append(request_id)
        return finished

    def _prefill(self, admitted: list[ActiveRequest]) -> StepPlan:
        prompts = [sequence.request.prompt_tokens for sequence in admitted]
        key = (admitted[0].request.request_id, prompts[0])
        return StepPlan("prefill", PREFILL_ORDER, prefill_features(prompts), key, sum(prompts), tuple(admitted))

    def _decode(self, running: list[ActiveRequest]) -> StepPlan:
        outcomes = [self._outcome(sequence) for sequence in running]
        confidence = [self._seen(s, outcome) for s, (outcome, _) in zip(running, outcomes, strict=True)]
        positions = [sequence.position for sequence in running]
        prefixes = [self._block.drafts] * len(running)
        if self._placement.decides:
            prefixes = decide(confidence, positions, self._block.drafts, self._controller)
        rows = []
        for i, (sequence, (outcome, match_run)) in enumerate(zip(running, outcomes, strict=True)):
            fresh = confidence[i] is not None
            accepted = min(prefixes[i], match_run)
            if fresh and self._stale_loss:
                accepted = thinned(accepted, self._stale_loss, sequence.request.request_id, positions[i])
            emitted = min(accepted + 1, self._left(sequence))
            rows.append(RowPlan(sequence, positions[i], outcome, prefixes[i], accepted, emitted, fresh))
            self._store(sequence, outcome)
        return self._decode_step(rows)

    def _decode_step(self, rows: list[RowPlan]) -> StepPlan:
        prefixes = [row.prefix_len for row in rows]
        pruned = any(prefix < self._block.drafts for prefix in prefixes)
        emitted = [row.emitted for row in rows]
        block = self._block
        kv_lens = [row.position for row in rows]
        shape = DecodeShape(block.drafts, block.width, kv_lens, prefixes, emitted, block.graphs)
        return StepPlan(
            "decode",
            tuple(self._placement.ops(pruned=pruned)),
            shape.features(),
            (rows[0].sequence.request.request_id, rows[0].position),
            sum(prefixes) + len(rows),
            rows=tuple(rows),
            pruned=pruned,
            graph_bucket=shape.graph_bucket,
        )

    def _outcome(self, sequence: ActiveRequest) -> tuple[Outcome, int]:
        return self.outcomes.at(sequence.request.request_id, sequence.position, self._left(sequence))

    def _left(self, sequence: ActiveRequest) -> int:
        return self._totals[sequence.request.request_id] - sequence.output_tokens

    def _seen(self, sequence: ActiveRequest, outcome: Outcome) -> Sequence[float] | None:
        """The confidence that the decision reads: none without a decision, or when the request has none so old."""
        lag = self._placement.lag_steps
        if not lag:
            return outcome.confidence if lag == 0 else None
        stored = self._stored.get(sequence.request.request_id)
        return stored[0] if stored is not None and len(stored) == lag else None

    def _store(self, sequence: ActiveRequest, outcome: Outcome) -> None:
        """Keep this step's confidence under the request's own id, which is all that the freshness gate asks for."""
        if lag := self._placement.lag_steps:
            self._stored.setdefault(sequence.request.request_id, deque(maxlen=lag)).append(outcome.confidence)


def thinned(accepted: int, loss: float, request_id: str, anchor: int) -> int:
    """Return the accepted drafts less a share of them, in whole drafts.

    A random number that belongs to the anchor rounds the fraction, up or down: over many anchors the mean is
    accepted x (1 - loss), the same anchor loses alike under every order, and a higher loss never leaves more.
    """
    return floor(accepted * (1 - loss) + uniform("stale loss", request_id, anchor))
