"""The running sequences of a replay, column by column: what planning a step reads and what a step moves on."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import compress

from simtool.step.scheduler import ActiveRequest


@dataclass(slots=True)
class Seats:
    """[batch] each, in batch order. Lists are replaced, never changed, so that a plan may keep them.

    request: index. base: what makes an anchor an outcome's place. end: the place past its last anchor. place: of its
    next anchor. seen: places of its last outcomes, as many as the lag is long.
    """

    active: list[ActiveRequest] = field(default_factory=list)
    request: list[int] = field(default_factory=list)
    slot: list[int] = field(default_factory=list)
    base: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    seen: list[deque[int]] = field(default_factory=list)

    def join(self, active: ActiveRequest, request: int, base: int, visits: int, lag: int) -> None:
        """Add a request that gets its first token now and has so many anchors to visit."""
        place = base + active.request.prompt_tokens
        self.active = [*self.active, active]
        self.request, self.slot = [*self.request, request], [*self.slot, active.slot]
        self.base, self.end = [*self.base, base], [*self.end, place + visits]
        self.place, self.seen = [*self.place, place], [*self.seen, deque(maxlen=lag)]

    def advance(self, emitted: Sequence[int]) -> None:
        """Move each on by the tokens that it got."""
        for active, tokens in zip(self.active, emitted, strict=True):
            active.output_tokens += tokens
        self.place = [place + tokens for place, tokens in zip(self.place, emitted, strict=True)]

    def leave(self, requests: Sequence[int]) -> list[ActiveRequest]:
        """Take out those requests and return them."""
        stays = [request not in requests for request in self.request]
        left = [active for active, stay in zip(self.active, stays, strict=True) if not stay]
        self.active, self.seen = list(compress(self.active, stays)), list(compress(self.seen, stays))
        self.request, self.slot = list(compress(self.request, stays)), list(compress(self.slot, stays))
        self.base, self.end = list(compress(self.base, stays)), list(compress(self.end, stays))
        self.place = list(compress(self.place, stays))
        return left
