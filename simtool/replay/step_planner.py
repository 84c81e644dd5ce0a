"""The tokens of a replay: which step comes next, whom it serves, and what each sequence gets out of it.

Nothing here takes time. In a closed loop nothing here reads the clock either, so the steps of a replay under the
recorded placement are the recorded steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from math import floor

from simtool.errors import TraceError
from simtool.replay.keyed_rng import uniform
from simtool.replay.outcomes.outcomes import Outcomes
from simtool.replay.scenario import Scenario
from simtool.replay.seats import Seats
from simtool.step.controller import decide_paths
from simtool.step.cost_features import DecodeShape, prefill_sizes
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.ops import Op
from simtool.step.placement import PREFILL_ORDER, launches_ahead
from simtool.step.policies.policy import Aged, Decider, StepView
from simtool.step.policies.ranking import best_first
from simtool.step.scheduler import ActiveRequest, Scheduler

#: Steps that are planned at once where nothing depends on the clock.
_MOST_AHEAD = 64


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


@dataclass(slots=True)
class StepPlan:
    """What one step will do: a prefill of those admitted, or a decode of the rows.

    sizes: what costs grow with, in the order of the kind's features. key: names the step's work alike under every
    placement, for noise. admitted, finished: indices of requests that get their first and their last token in it.
    slots: those that the admitted got. warm: the step before launched work for it, and it serves those sequences.
    ahead: it launches work for the next.
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
    slots: Sequence[int] = ()
    pruned: bool = False
    warm: bool = False
    ahead: bool = False
    graph_bucket: int | None = None


@dataclass(frozen=True)
class Block:
    """The drafted block: N drafts from `width` draft rows; graphs: the buckets that batches are padded to."""

    drafts: int
    width: int
    graphs: GraphBuckets = field(default_factory=GraphBuckets)


class StepPlanner:
    """Plans steps from the scheduler, the outcomes and the placement.

    looked_up, substituted: count the anchors asked for and those made up for. decider: of the placement's policy; None:
    the controller of xLLM decides, by a shorter way to the same numbers.
    """

    def __init__(self, scheduler: Scheduler, outcomes: Outcomes, block: Block, scenario: Scenario) -> None:
        self.scheduler, self.outcomes = scheduler, outcomes
        self.looked_up, self.substituted = 0, 0
        self._block, self._controller = block, scenario.controller
        self._lag, self._decides = scenario.placement.lag_steps, scenario.placement.decides
        placement = scenario.placement
        self.decider = placement.policy.start() if placement.policy else None
        self._rule = placement.rule
        self._memory = max(self._lag or 0, *self._rule.ages, 0)
        self._runs_ahead, self._keeps_drafts = placement.runs_ahead, placement.keeps_drafts
        self._ahead_of: list[int] | None = None  # the sequences that the last step launched ahead for
        self._ops = {
            (pruned, warm, ahead): tuple(placement.ops(pruned=pruned, warm=warm, ahead=ahead))
            for pruned, warm, ahead in product((False, True), repeat=3)
        }
        self._splits_on_device = scenario.placement.splits_on_device
        self._stale_loss = scenario.stale_loss if scenario.placement.lag_steps else 0.0
        self._match_run = outcomes.match_run.data
        self._index = {request.request_id: i for i, request in enumerate(outcomes.requests)}
        self._seats = Seats()

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return self.scheduler.idle

    def sleep_until_ns(self) -> int:
        """Return when the next step can start at the earliest: 0 unless all wait for a request to arrive."""
        arrival_ns = self.scheduler.next_arrival_ns
        return 0 if self.scheduler.running or arrival_ns is None else arrival_ns

    def plan_ahead(self, now_ns: int) -> list[StepPlan]:
        """Return the next steps, one at least, and give their tokens: as far as the clock has no say, and no farther.

        It has one while some request is still to arrive: who is admitted then depends on how long steps take.
        """
        plans = [self._plan(now_ns)]
        while len(plans) < _MOST_AHEAD and not self.idle and self.scheduler.all_arrived(now_ns):
            try:
                plans.append(self._plan(now_ns))
            except TraceError:  # an outcome is lacking: told when all before it is done
                break
        return plans

    def _plan(self, now_ns: int) -> StepPlan:
        """The next step: a prefill of everyone admitted now, or a decode of everyone running."""
        admitted = self.scheduler.admit(now_ns)
        plan = self._prefill(admitted) if admitted else self._decode()
        self._give_tokens(plan)
        return plan

    def _give_tokens(self, plan: StepPlan) -> None:
        """Each sequence gets its tokens, and those that have them all retire."""
        if plan.rows is None:
            for active in self._seats.active[-plan.batch :]:
                active.output_tokens = 1
        else:
            self._seats.advance(plan.rows.emitted)
        if plan.finished:
            for active in self._seats.leave(plan.finished):
                self.scheduler.retire(active)

    def _prefill(self, admitted: list[ActiveRequest]) -> StepPlan:
        requests = [self._index[active.request.request_id] for active in admitted]
        self._ahead_of = None
        for active, request in zip(admitted, requests, strict=True):
            base = int(self.outcomes.base[request])
            self._seats.join(active, request, base, int(self.outcomes.visits[request]), self._memory)
        prompts = [active.request.prompt_tokens for active in admitted]
        return StepPlan(
            kind="prefill",
            ops=PREFILL_ORDER,
            sizes=prefill_sizes(prompts),
            key=(admitted[0].request.request_id, prompts[0]),
            batch=len(admitted),
            validate_rows=sum(prompts),
            admitted=requests,
            slots=[active.slot for active in admitted],
            finished=[request for request in requests if not self.outcomes.visits[request]],
        )

    def _decode(self) -> StepPlan:
        seats, drafts = self._seats, self._block.drafts
        places = seats.place
        anchors = [place - base for place, base in zip(places, seats.base, strict=True)]
        self._look_up(places)
        view = self._view(places, anchors) if self.decider else None
        prefixes, fresh = self._ask(self.decider, view) if self.decider and view else self._decide(places, anchors)
        if self._splits_on_device and sum(prefixes) < drafts * len(places):
            prefixes = best_first(self.outcomes.paths(places)).split(sum(prefixes))
        accepted = [min(p, self._match_run[place]) for p, place in zip(prefixes, places, strict=True)]
        if self._stale_loss:
            accepted = self._thinned(accepted, fresh, anchors)
        if self.decider and view:
            self.decider.learn(view, prefixes, accepted)
        left = [end - place for end, place in zip(seats.end, places, strict=True)]
        emitted = [a + 1 if a < most else most for a, most in zip(accepted, left, strict=True)]
        shape = DecodeShape(
            num_speculative_tokens=drafts,
            block_width=self._block.width,
            kv_lens=anchors,
            prefix_lens=prefixes,
            emitted=emitted,
            graphs=self._block.graphs,
        )
        pruned, warm, ahead = min(prefixes) < drafts, False, False
        if self._keeps_drafts:
            warm = ahead = True
        elif self._runs_ahead:
            warm = seats.request == self._ahead_of
            ahead = launches_ahead([active.remaining for active in seats.active], prefixes)
            self._ahead_of = seats.request if ahead else None
        return StepPlan(
            kind="decode",
            ops=self._ops[pruned, warm, ahead],
            sizes=shape.sizes(),
            key=(seats.active[0].request.request_id, anchors[0]),
            batch=len(places),
            validate_rows=sum(prefixes) + len(places),
            admitted=[],
            finished=[r for r, e, most in zip(seats.request, emitted, left, strict=True) if e == most],
            rows=DecodeRows(
                request=seats.request,
                slot=seats.slot,
                place=places,
                prefix_len=prefixes,
                accepted=accepted,
                emitted=emitted,
                fresh=fresh,
            ),
            pruned=pruned,
            warm=warm,
            ahead=ahead,
            graph_bucket=shape.graph_bucket,
        )

    def _look_up(self, places: list[int]) -> None:
        """Count the outcomes asked for and those made up for; raises TraceError for one that is not known."""
        self.looked_up += len(places)
        if not self.outcomes.complete:
            for request, place in zip(self._seats.request, places, strict=True):
                if not self.outcomes.known[place]:
                    raise self.outcomes.missing(request, place - int(self.outcomes.base[request]))
        if self.outcomes.any_substituted:
            self.substituted += int(self.outcomes.substituted[places].sum())

    def _decide(self, places: list[int], anchors: list[int]) -> tuple[list[int], list[bool]]:
        """The prefix lengths, and whose decision had its own confidence: none without a decision or one so old."""
        drafts, batch = self._block.drafts, len(places)
        if not self._decides:
            return [drafts] * batch, [False] * batch
        fresh, own, read = [True] * batch, list(range(batch)), places
        if lag := self._lag:
            seen = self._seats.seen
            fresh = [len(each) == lag for each in seen]
            own, read = [i for i, each in enumerate(fresh) if each], [each[0] for each in seen if len(each) == lag]
            for each, place in zip(seen, places, strict=True):
                each.append(place)
        return decide_paths(self.outcomes.paths(read), own, anchors, drafts, self._controller), fresh

    def _view(self, places: list[int], anchors: list[int]) -> StepView:
        """What the policy may see of this step."""
        truth = [int(self._match_run[place]) for place in places] if self._rule.needs_truth else None
        return StepView(
            drafts=self._block.drafts,
            kv_lens=anchors,
            keys=self._seats.request,
            aged={age: self._aged(age, places) for age in self._rule.ages},
            settings=self._controller,
            graph_rows=self._block.graphs.target,
            match_runs=truth,
        )

    def _aged(self, age: int, places: list[int]) -> Aged:
        """Confidence of an age, of those that have one: of age 0 this step's, of age k that of k decode steps ago."""
        if not age:
            return Aged(range(len(places)), self.outcomes.confidence(places), len(places))
        seen = self._seats.seen
        own = [i for i, each in enumerate(seen) if len(each) >= age]
        return Aged(own, self.outcomes.confidence([seen[i][-age] for i in own]), len(places))

    def _ask(self, decider: Decider, view: StepView) -> tuple[list[int], list[bool]]:
        """The policy's prefix lengths, and who had confidence as old as the host's decision reads."""
        seats, lag = self._seats, self._lag or 0
        lengths, fresh = decider.decide(view), [len(each) >= lag for each in seats.seen]
        for each, place in zip(seats.seen, seats.place, strict=True):
            each.append(place)
        return lengths, fresh

    def _thinned(self, accepted: list[int], fresh: list[bool], anchors: list[int]) -> list[int]:
        names = [active.request.request_id for active in self._seats.active]
        each = zip(accepted, fresh, names, anchors, strict=True)
        return [thinned(a, self._stale_loss, name, at) if own else a for a, own, name, at in each]


def thinned(accepted: int, loss: float, request_id: str, anchor: int) -> int:
    """Return the accepted drafts less a share of them, in whole drafts.

    A random number that belongs to the anchor rounds the fraction, up or down: over many anchors the mean is
    accepted x (1 - loss), the same anchor loses alike under every order, and a higher loss never leaves more.
    """
    return floor(accepted * (1 - loss) + uniform("stale loss", request_id, anchor))
