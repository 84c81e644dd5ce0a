"""The tokens of a replay: which step comes next, whom it serves, and what each sequence gets out of it.

Nothing here takes time. In a closed loop nothing here reads the clock either, so the steps of a replay under the
recorded placement are the recorded steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

from simtool.replay.keyed_rng import uniform
from simtool.replay.outcomes import Outcomes
from simtool.replay.scenario import Scenario
from simtool.step.controller import decide_paths
from simtool.step.cost_features import DecodeShape, prefill_sizes
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import Op
from simtool.step.placement import PREFILL_ORDER
from simtool.step.scheduler import ActiveRequest, Scheduler


@dataclass(slots=True)
class DecodeRows:
    """The sequences of a decode step, in batch order: [batch] each.

    request: index. place: of the outcome at its anchor. fresh: the decision had the sequence's own confidence.
    """

    request: list[int]
    slot: list[int]
    place: list[int]
    prefix_len: list[int]
    accepted: list[int]
    emitted: list[int]
    fresh: list[bool]

    def columns(self) -> tuple[list[int], ...]:
        """Return the columns in the order above."""
        return self.request, self.slot, self.place, self.prefix_len, self.accepted, self.emitted, self.fresh  # type: ignore[return-value]  # flags are whole numbers


@dataclass(slots=True)
class StepPlan:
    """What one step will do: a prefill of those admitted, or a decode of the rows.

    sizes: what costs grow with, in the order of the kind's features. key: names the step's work alike under every
    placement, for noise. admitted, finished: indices of requests that get their first and their last token in it.
    """

    kind: str
    ops: tuple[Op, ...]
    sizes: Sequence[float]
    key: tuple[str, int]
    batch: int
    validate_rows: int
    admitted: list[int]
    finished: list[int]
    rows: DecodeRows | None = None
    pruned: bool = False
    graph_bucket: int | None = None


@dataclass(frozen=True)
class Block:
    """The drafted block: N drafts from `width` draft rows; graphs: the buckets that batches are padded to."""

    drafts: int
    width: int
    graphs: GraphBuckets = field(default_factory=GraphBuckets)


@dataclass(slots=True)
class _Seat:
    """A running sequence. request: index. base: of its anchors' places. end: the place past its last anchor.

    seen: places of its last outcomes, as many as the lag is long.
    """

    running: ActiveRequest
    request: int
    base: int
    end: int
    place: int
    seen: deque[int]


class StepPlanner:
    """Plans steps from the scheduler, the outcomes and the placement.

    looked_up, substituted: count the anchors asked for and those made up for.
    """

    def __init__(self, scheduler: Scheduler, outcomes: Outcomes, block: Block, scenario: Scenario) -> None:
        self.scheduler, self.outcomes = scheduler, outcomes
        self.looked_up, self.substituted = 0, 0
        self._block, self._controller = block, scenario.controller
        self._lag, self._decides = scenario.placement.lag_steps, scenario.placement.decides
        self._ops = {pruned: tuple(scenario.placement.ops(pruned=pruned)) for pruned in (False, True)}
        self._stale_loss = scenario.stale_loss if scenario.placement.lag_steps else 0.0
        self._match_run = outcomes.match_run.data
        self._index = {request.request_id: i for i, request in enumerate(outcomes.requests)}
        self._seats: list[_Seat] = []

    @property
    def substituted_share(self) -> float:
        """Share of the anchors asked for that were made up for."""
        return self.substituted / self.looked_up if self.looked_up else 0.0

    def sleep_until_ns(self) -> int:
        """Return when the next step can start at the earliest: 0 unless all wait for a request to arrive."""
        arrival_ns = self.scheduler.next_arrival_ns
        return 0 if self.scheduler.running or arrival_ns is None else arrival_ns

    def plan(self, now_ns: int) -> StepPlan:
        """Return the next step: a prefill of everyone admitted now, or a decode of everyone running."""
        admitted = self.scheduler.admit(now_ns)
        return self._prefill(admitted) if admitted else self._decode()

    def commit(self, plan: StepPlan) -> None:
        """Give each sequence its tokens, and retire those that have them all."""
        if plan.rows is None:
            for seat in self._seats[-plan.batch :]:
                seat.running.output_tokens = 1
        else:
            for seat, emitted in zip(self._seats, plan.rows.emitted, strict=True):
                seat.running.output_tokens += emitted
                seat.place += emitted
        if plan.finished:
            done = set(plan.finished)
            for seat in self._seats:
                if seat.request in done:
                    self.scheduler.retire(seat.running)
            self._seats = [seat for seat in self._seats if seat.request not in done]

    def _prefill(self, admitted: list[ActiveRequest]) -> StepPlan:
        seats = [self._seat(running) for running in admitted]
        self._seats = [*self._seats, *seats]
        prompts = [running.request.prompt_tokens for running in admitted]
        return StepPlan(
            kind="prefill",
            ops=PREFILL_ORDER,
            sizes=prefill_sizes(prompts),
            key=(admitted[0].request.request_id, prompts[0]),
            batch=len(admitted),
            validate_rows=sum(prompts),
            admitted=[seat.request for seat in seats],
            finished=[seat.request for seat in seats if seat.place == seat.end],
        )

    def _seat(self, running: ActiveRequest) -> _Seat:
        request = self._index[running.request.request_id]
        base = int(self.outcomes.base[request])
        place = base + running.request.prompt_tokens
        end = place + int(self.outcomes.visits[request])
        return _Seat(running, request, base, end, place, deque(maxlen=self._lag or 0))

    def _decode(self) -> StepPlan:
        seats, drafts = self._seats, self._block.drafts
        places = [seat.place for seat in seats]
        anchors = [seat.place - seat.base for seat in seats]
        self._look_up(places)
        prefixes, fresh = self._decide(places, anchors)
        accepted = [min(p, self._match_run[at]) for p, at in zip(prefixes, places, strict=True)]
        if self._stale_loss:
            accepted = [self._thinned(*each) for each in zip(accepted, fresh, seats, strict=True)]
        left = [seat.end - seat.place for seat in seats]
        emitted = [a + 1 if a < most else most for a, most in zip(accepted, left, strict=True)]
        shape = DecodeShape(drafts, self._block.width, anchors, prefixes, emitted, self._block.graphs)
        return StepPlan(
            kind="decode",
            ops=self._ops[pruned := min(prefixes) < drafts],
            sizes=shape.sizes(),
            key=(seats[0].running.request.request_id, anchors[0]),
            batch=len(seats),
            validate_rows=sum(prefixes) + len(seats),
            admitted=[],
            finished=[seat.request for seat, e, most in zip(seats, emitted, left, strict=True) if e == most],
            rows=DecodeRows(
                request=[seat.request for seat in seats],
                slot=[seat.running.slot for seat in seats],
                place=places,
                prefix_len=prefixes,
                accepted=accepted,
                emitted=emitted,
                fresh=fresh,
            ),
            pruned=pruned,
            graph_bucket=shape.graph_bucket,
        )

    def _look_up(self, places: list[int]) -> None:
        """Count the outcomes asked for and those made up for; raises TraceError for one that is not known."""
        self.looked_up += len(places)
        if not self.outcomes.complete:
            for seat, at in zip(self._seats, places, strict=True):
                if not self.outcomes.known[at]:
                    raise self.outcomes.missing(seat.request, at - seat.base)
        if self.outcomes.any_substituted:
            self.substituted += int(self.outcomes.substituted[places].sum())

    def _decide(self, places: list[int], anchors: list[int]) -> tuple[list[int], list[bool]]:
        """The prefix lengths, and whose decision had its own confidence: none without a decision or one so old."""
        drafts, batch = self._block.drafts, len(places)
        if not self._decides:
            return [drafts] * batch, [False] * batch
        fresh, read = [True] * batch, places
        if lag := self._lag:
            seen = [seat.seen for seat in self._seats]
            fresh = [len(each) == lag for each in seen]
            read = [each[0] for each in seen if len(each) == lag]
            for each, place in zip(seen, places, strict=True):
                each.append(place)
        own = [i for i, each in enumerate(fresh) if each]
        return decide_paths(self.outcomes.paths(read), own, anchors, drafts, self._controller), fresh

    def _thinned(self, accepted: int, fresh: bool, seat: _Seat) -> int:
        if not fresh:
            return accepted
        return thinned(accepted, self._stale_loss, seat.running.request.request_id, seat.place - seat.base)


def thinned(accepted: int, loss: float, request_id: str, anchor: int) -> int:
    """Return the accepted drafts less a share of them, in whole drafts.

    A random number that belongs to the anchor rounds the fraction, up or down: over many anchors the mean is
    accepted x (1 - loss), the same anchor loses alike under every order, and a higher loss never leaves more.
    """
    return floor(accepted * (1 - loss) + uniform("stale loss", request_id, anchor))
