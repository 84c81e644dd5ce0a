"""DecodeState of each slot, under the request-id freshness gate (xLLM's EmbeddingCache, host side).

A slot outlives the requests that use it. Everything read from it is checked against the reader's request id, so a
recycled slot can never lend a new request the confidence of the old one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from simtool.errors import SimtoolError


@dataclass
class DecodeState:
    """What a slot knows of its request: the anchor, its position, and the confidences of the last steps."""

    request_id: str
    token: int
    position: int
    confidences: deque[Sequence[float]] = field(default_factory=deque)


class DecodeStates:
    """One DecodeState a slot. depth: how many past steps' confidences are kept (the largest lag in use)."""

    def __init__(self, depth: int) -> None:
        self._depth = max(depth, 1)
        self._states: dict[int, DecodeState] = {}

    def commit(self, slot: int, request_id: str, token: int, position: int) -> None:
        """Set the anchor; a new request id starts a new state with no confidence."""
        state = self._states.get(slot)
        if state is None or state.request_id != request_id:
            self._states[slot] = DecodeState(request_id, token, position, deque(maxlen=self._depth))
        else:
            state.token, state.position = token, position

    def read(self, slot: int, request_id: str) -> DecodeState:
        """Return the slot's state; raises SimtoolError when it is not this request's (an engine fault)."""
        state = self._states.get(slot)
        if state is None or state.request_id != request_id:
            held = "nothing" if state is None else f"request {state.request_id}"
            raise SimtoolError(f"slot {slot} holds {held}, asked for request {request_id}; commit a token first")
        return state

    def store_confidence(self, slot: int, request_id: str, confidence: Sequence[float]) -> None:
        """Keep this step's confidence [N] for later steps of the same request."""
        self.read(slot, request_id).confidences.append(confidence)

    def lagged_confidence(self, slot: int, request_id: str, lag_steps: int) -> Sequence[float] | None:
        """Return the confidence stored `lag_steps` decode steps ago, or None when this request has none so old."""
        state = self._states.get(slot)
        if state is None or state.request_id != request_id or len(state.confidences) < lag_steps:
            return None
        return state.confidences[-lag_steps]
