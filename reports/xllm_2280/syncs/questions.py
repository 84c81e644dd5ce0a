"""The questions as differences between two variants at one lag: the same steps, the same tokens, other times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simtool.study.runner import Cell, mean, mean_step_ns, mean_tokens_per_s


@dataclass(frozen=True)
class Question:
    """What is asked: by how much the step of `slower` is longer than that of `faster`, as a share of the former.

    at_least: the share from which the answer is yes; by_tokens: tokens per second instead of step time, for variants
    that do not emit the same tokens in a step.
    """

    text: str
    slower: str
    faster: str
    at_least: float
    by_tokens: bool = False


@dataclass(frozen=True)
class CellFigures:
    """What one variant comes to: mean step at the full batch in ns, tokens per second, share of time without device
    work."""

    step_ns: float
    tokens_per_s: float
    idle_share: float

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> CellFigures:
        """Average one variant's replays."""
        return cls(
            mean_step_ns(cells),
            mean_tokens_per_s(cells),
            mean(cells, lambda cell: cell.idle_share),
        )


QUESTIONS = (
    Question("the syncs cost lag-overlap's step 0.5 % or more", "lag-overlap", "both pinned", 0.005),
    Question("pinning fill's two lists alone shortens it by 0.5 % or more", "lag-overlap", "fill pinned", 0.005),
    Question("pinning verify's indices alone shortens it by 0.5 % or more", "lag-overlap", "verify pinned", 0.005),
    Question("with the syncs, lag-overlap's step is shorter than lag's", "lag", "lag-overlap", 0.0),
    Question("without the syncs, lag-overlap's step is shorter than lag's", "plain lag", "plain lag-overlap", 0.0),
    Question("building the lists early, all pinned, gains 0.1 % or more over pinning alone",
             "both pinned", "early index, both pinned", 0.001),
    Question("with the syncs, lag-overlap gives more tokens/s than this-step", "this-step", "lag-overlap", 0.0, True),
    Question("with both pinned, lag-overlap gives more tokens/s than this-step", "this-step", "both pinned", 0.0, True),
)  # fmt: skip

NEEDED = tuple(dict.fromkeys(key for question in QUESTIONS for key in (question.slower, question.faster)))


def effect(question: Question, found: Mapping[str, CellFigures]) -> float:
    """Return the gain of the faster over the slower, as a share; negative where it is not faster."""
    slower, faster = found[question.slower], found[question.faster]
    if question.by_tokens:
        return faster.tokens_per_s / slower.tokens_per_s - 1
    return 1 - faster.step_ns / slower.step_ns


def holds(question: Question, share: float) -> bool:
    """Return whether the answer is yes."""
    return share > question.at_least
