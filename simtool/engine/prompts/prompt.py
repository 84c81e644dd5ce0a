"""A prompt to serve."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Prompt:
    """One request to serve. key seeds its random numbers; arrival_ns counts from the start of the run."""

    request_id: str
    prompt_ids: tuple[int, ...]
    max_new_tokens: int
    kind: str = "prompt"
    arrival_ns: int = 0
    key: int = 0
