"""Continuous batching: who runs in which slot of which step. Live engine and replay share it.

In a closed loop nothing here reads a clock: who is admitted when follows from emitted tokens alone, which is why
a replay can repeat a live run's steps exactly. KV blocks are reserved whole at admission, so a running request
never runs out and never has to be preempted; a request that could never fit is refused before it starts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from simtool.errors import CapacityError, UsageError


@dataclass(frozen=True)
class Request:
    """What is asked for. prompt_tokens and max_new_tokens in tokens; arrival_ns on the run's clock."""

    request_id: str
    prompt_tokens: int
    max_new_tokens: int
    arrival_ns: int = 0


@dataclass
class ActiveRequest:
    """A running request. position: index of its anchor (last committed token) in prompt + output."""

    request: Request
    slot: int
    blocks: tuple[int, ...]
    output_tokens: int = 0

    @property
    def position(self) -> int:
        """Anchor position: meaningful once the first token is out."""
        return self.request.prompt_tokens + self.output_tokens - 1

    @property
    def remaining(self) -> int:
        """Tokens this request may still emit."""
        return self.request.max_new_tokens - self.output_tokens


@dataclass
class BlockPool:
    """KV cache blocks of block_size tokens, handed out lowest id first so that runs repeat.

    first_block: id of the first, for runs that share one cache.
    """

    num_blocks: int
    block_size: int
    first_block: int = 0
    _free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        if self.num_blocks < 1 or self.block_size < 1:
            raise UsageError(f"KV pool of {self.num_blocks} blocks x {self.block_size} tokens; both must be >= 1")
        self._free = list(range(self.first_block + self.num_blocks - 1, self.first_block - 1, -1))

    @property
    def free(self) -> int:
        """Blocks not in use."""
        return len(self._free)

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks hold that many tokens."""
        return -(-tokens // self.block_size)

    def take(self, count: int) -> tuple[int, ...]:
        """Take blocks out of the pool, lowest ids first; raises CapacityError where fewer are free."""
        if count > len(self._free):
            raise CapacityError(f"{count} KV blocks asked for, {len(self._free)} free; admit fewer requests")
        return tuple(self._free.pop() for _ in range(count))

    def give_back(self, blocks: Iterable[int]) -> None:
        """Return blocks to the pool."""
        self._free.extend(blocks)
        self._free.sort(reverse=True)


class Scheduler:
    """First come, first served into `concurrency` slots, while KV blocks last.

    lookahead: tokens past the last emitted one that a verify may write (N drafts + the bonus row). first_slot: for
    runs that share one device.
    """

    def __init__(self, concurrency: int, pool: BlockPool, lookahead: int, first_slot: int = 0) -> None:
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}; expected 1 or more")
        self.pool = pool
        self.lookahead = lookahead
        self.running: list[ActiveRequest] = []
        self._waiting: deque[Request] = deque()
        self._free_slots = list(range(first_slot + concurrency - 1, first_slot - 1, -1))

    def add(self, request: Request) -> None:
        """Queue a request; raises CapacityError when it could never fit."""
        blocks = self._blocks_needed(request)
        if blocks > self.pool.num_blocks:
            raise CapacityError(
                f"request {request.request_id}: {request.prompt_tokens} prompt + {request.max_new_tokens} new tokens "
                f"need {blocks} KV blocks and the cache has {self.pool.num_blocks}; shorten it or raise --kv-blocks"
            )
        if request.prompt_tokens < 1 or request.max_new_tokens < 1:
            raise UsageError(
                f"request {request.request_id}: {request.prompt_tokens} prompt, {request.max_new_tokens} new tokens; "
                "both must be >= 1"
            )
        self._waiting.append(request)

    @property
    def idle(self) -> bool:
        """True when nothing runs and nothing waits."""
        return not self.running and not self._waiting

    @property
    def next_arrival_ns(self) -> int | None:
        """Arrival of the first waiting request, or None."""
        return self._waiting[0].arrival_ns if self._waiting else None

    def all_arrived(self, now_ns: int) -> bool:
        """Whether nobody in the queue is still to come; requests were added in the order of their arrival."""
        return not self._waiting or self._waiting[-1].arrival_ns <= now_ns

    def can_admit(self, now_ns: int) -> bool:
        """Whether the first waiting request has arrived and fits: then the next step is a prefill."""
        if not self._waiting or not self._free_slots or self._waiting[0].arrival_ns > now_ns:
            return False
        return self._blocks_needed(self._waiting[0]) <= self.pool.free

    def admit(self, now_ns: int) -> list[ActiveRequest]:
        """Move arrived requests into free slots, in order, and return those admitted now."""
        admitted = []
        while self.can_admit(now_ns):
            blocks = self.pool.take(self._blocks_needed(self._waiting[0]))
            sequence = ActiveRequest(self._waiting.popleft(), self._free_slots.pop(), blocks)
            self.running.append(sequence)
            admitted.append(sequence)
        return admitted

    def retire(self, sequence: ActiveRequest) -> None:
        """Free a finished sequence's slot and blocks."""
        self.running.remove(sequence)
        self.pool.give_back(sequence.blocks)
        self._free_slots.append(sequence.slot)
        self._free_slots.sort(reverse=True)

    def _blocks_needed(self, request: Request) -> int:
        return self.pool.blocks_for(request.prompt_tokens + request.max_new_tokens + self.lookahead)
