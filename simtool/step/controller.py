"""The adaptive controller: confidence and costs -> how many drafts of each sequence to verify.

Restates xLLM's AdaptiveSpeculativeController (pull request 2231): a greedy scan over draft positions in order of
the probability that the whole prefix is accepted, taking one whenever expected tokens per millisecond improve.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.files.reading import quoted
from simtool.step.step_table import StepTable
from simtool.step.temperatures import calibrated, check_temperatures

#: What a draft or a verify lasts at least, so that no score is infinite.
MIN_MS = 1e-6
#: Far above rounding: what is worse by this share is worse in any order of the sums.
SLACK = 1e-9
#: Drafts from which on the scan adds up a whole array at once: fewer are looked at one by one as quickly.
_WORTH_ADDING_UP = 64


#: What a predictor's terms (a quarter of an hour) and a gain (any, that is how never to prune is asked for) may be.
_MOST_MS, _MOST_GAIN = 1e6, 1e12


def _check_range(name: str, value: object, least: float, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} is {quoted(value)}; expected a number from {least:g} to {most:g}")


class ValidateTimePredictor(Protocol):
    """validate ms = intercept_ms + sum over rows of (query_token_ms + query_prefix_ms x kv length)."""

    @property
    def intercept_ms(self) -> float: ...  # noqa: D102
    @property
    def query_token_ms(self) -> float: ...  # noqa: D102
    @property
    def query_prefix_ms(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class LinearPredictor:
    """A fitted validate-time predictor; all three in milliseconds."""

    intercept_ms: float
    query_token_ms: float
    query_prefix_ms: float

    def __post_init__(self) -> None:
        for name in ("intercept_ms", "query_token_ms", "query_prefix_ms"):
            _check_range(f"predictor.{name}", getattr(self, name), 0, _MOST_MS)


@dataclass(frozen=True)
class ControllerSettings:
    """What the controller knows besides this batch. xLLM passes draft_ms = 0; below 0 either number counts as 0.

    table: what whole steps take, for policies that profile that; None: from the predictor and draft_ms. temperatures:
    of the confidence, by position (see `temperatures.calibrated`); none: it is believed as it is.
    """

    predictor: LinearPredictor | None = None
    draft_ms: float = 0.0
    min_gain: float = 0.0
    table: StepTable | None = None
    temperatures: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check_range("draft_ms", self.draft_ms, -_MOST_MS, _MOST_MS)
        _check_range("min_gain", self.min_gain, -_MOST_GAIN, _MOST_GAIN)
        check_temperatures(self.temperatures)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> ControllerSettings:
        """Build it from what `to_dict` returned; what is absent has its default. Raises UsageError."""
        given = dict(table)
        predictor, steps = given.pop("predictor", None), given.pop("table", None)
        try:
            temperatures = tuple(given.pop("temperatures", ()))
            return cls(
                None if predictor is None else LinearPredictor(**predictor),
                table=None if steps is None else StepTable.from_dict(steps),
                temperatures=temperatures,
                **given,
            )
        except (TypeError, AttributeError) as error:
            expected = "predictor (null, or its three terms in ms), draft_ms and min_gain"
            raise UsageError(f"is {quoted(dict(table))}; expected {expected}") from error

    def to_dict(self) -> dict[str, object]:
        """Return what a manifest keeps: plain JSON values; table and temperatures only where there are any."""
        told: dict[str, object] = {
            "predictor": asdict(self.predictor) if self.predictor else None,
            "draft_ms": self.draft_ms,
            "min_gain": self.min_gain,
        }
        told |= {"table": self.table.to_dict()} if self.table else {}
        return {**told, "temperatures": list(self.temperatures)} if self.temperatures else told


def prefix_lengths(
    confidence: Sequence[Sequence[float]],
    kv_lens: Sequence[float],
    predictor: ValidateTimePredictor | None = None,
    draft_ms: float = 0.0,
    min_gain: float = 0.0,
) -> list[int]:
    """Return the number of drafts to verify for each sequence, 0..N.

    confidence: [batch][N], each P(draft k accepted | those before it accepted). kv_lens: [batch] tokens.
    Without a predictor a verify costs 1 ms whatever its rows.
    """
    if not confidence:
        return []
    return scan_candidates(survival(np.array(confidence, np.float64)), kv_lens, predictor, draft_ms, min_gain)


def survival(confidence: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the probability that the drafts up to and with each are all accepted: [rows, N] from [rows, N].

    A confidence outside [0, 1] counts as the nearer end, a product that is not finite as 0.
    """
    paths: NDArray[np.float64] = np.cumprod(np.clip(confidence.astype(np.float64), 0.0, 1.0), axis=1, dtype=np.float64)
    paths[~np.isfinite(paths)] = 0.0
    return paths


def scan_candidates(
    paths: NDArray[np.float64],
    kv_lens: Sequence[float],
    predictor: ValidateTimePredictor | None,
    draft_ms: float,
    min_gain: float,
) -> list[int]:
    """Return the prefix lengths, as `prefix_lengths`, for the survival of each draft: paths [batch, N]."""
    batch = len(paths)
    row_ms, validate_ms = [0.0] * batch, 1.0
    if predictor is not None:
        token_ms, prefix_ms = predictor.query_token_ms, predictor.query_prefix_ms
        row_ms = [token_ms + prefix_ms * kv for kv in kv_lens]
        # one after the other, as the compiled scan adds them: from Python 3.12 on `sum` of floats makes up for rounding
        validate_ms = predictor.intercept_ms + reduce(add, row_ms, 0.0)
    draft_ms = max(draft_ms, MIN_MS)
    gain = 1.0 + max(min_gain, 0.0)
    tokens = float(batch)
    bar = tokens / (draft_ms + max(validate_ms, MIN_MS)) * gain
    cheapest_ms = min(row_ms) * (1 - SLACK) if validate_ms > MIN_MS else 0.0
    owner, path = _in_order(paths)
    first, chosen = 0, [0] * batch
    if len(path) >= _WORTH_ADDING_UP:
        start = (tokens, draft_ms, validate_ms)
        first, tokens, validate_ms, bar = _taken_in_a_row(path, np.take(row_ms, owner), start, gain, cheapest_ms)
        chosen = np.bincount(owner[:first], minlength=batch).tolist()
    seen, pending = chosen.copy(), [0.0] * batch  # pending: tokens that seen adds to chosen
    for i, likely in zip(owner[first:].tolist(), path[first:].tolist(), strict=True):
        if likely < bar * cheapest_ms:
            break  # this draft and all after it bring less than their row costs: nothing they add raises the score
        seen[i] = k = seen[i] + 1  # survival never grows along a sequence, so its candidates come in order
        pending[i] = gained = pending[i] + likely
        new_validate_ms = validate_ms + row_ms[i] * (k - chosen[i])
        score = (tokens + gained) / (draft_ms + (new_validate_ms if new_validate_ms >= MIN_MS else MIN_MS))
        if score > bar:
            chosen[i], pending[i] = k, 0.0
            tokens, validate_ms, bar = tokens + gained, new_validate_ms, score * gain
    return chosen


def _in_order(paths: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return whose each draft is and its survival, the likeliest draft first: [batch x N] each, of paths [batch, N].

    Among equals shorter prefixes come first, and then earlier sequences.
    """
    batch, drafts = paths.shape
    if batch == 1:
        return np.zeros(drafts, np.int64), paths[0]
    by_draft = paths.T.ravel()
    order = np.argsort(-by_draft, kind="stable")
    return order % batch, by_draft[order]


def _taken_in_a_row(
    path: NDArray[np.float64],
    row_ms: NDArray[np.float64],
    start: tuple[float, float, float],
    gain: float,
    cheapest_ms: float,
) -> tuple[int, float, float, float]:
    """Return how many drafts the scan takes before it leaves the first one out; tokens, validate ms and bar then.

    Most of what is taken comes before that, and there every sum is of the draft before: all are made at once, in the
    scan's own order. path, row_ms: survival of each draft and what its row takes. start: tokens, draft ms, validate ms.
    """
    tokens, draft_ms, validate_ms = start
    sums = np.empty((2, len(path) + 1))
    sums[:, 0], sums[0, 1:], sums[1, 1:] = (tokens, validate_ms), path, row_ms
    all_tokens, all_ms = np.cumsum(sums, axis=1)
    score = all_tokens / (draft_ms + np.maximum(all_ms, MIN_MS))
    bar = score * gain
    stays_out = ~(score[1:] > bar[:-1]) | (path < bar[:-1] * cheapest_ms)
    first = int(stays_out.argmax()) if stays_out.any() else len(path)
    return first, float(all_tokens[first]), float(all_ms[first]), float(bar[first])


def decide(
    confidence: Sequence[Sequence[float] | None],
    kv_lens: Sequence[float],
    num_speculative_tokens: int,
    settings: ControllerSettings,
) -> list[int]:
    """Return prefix lengths for a batch in which None marks a sequence whose confidence is not fresh.

    A sequence without fresh confidence is verified at full width; the controller sees only the others.
    """
    fresh = [i for i, row in enumerate(confidence) if row is not None]
    rows = [row for row in confidence if row is not None]
    known = calibrated(np.array(rows, np.float64), settings.temperatures) if rows else None
    paths = np.zeros((0, num_speculative_tokens)) if known is None else survival(known)
    return decide_paths(paths, fresh, kv_lens, num_speculative_tokens, settings)


def decide_paths(
    paths: NDArray[np.float64],
    fresh: Sequence[int],
    kv_lens: Sequence[float],
    num_speculative_tokens: int,
    settings: ControllerSettings,
) -> list[int]:
    """Return prefix lengths as `decide`; paths: [fresh, N], the survival of each draft of the sequences `fresh`."""
    if len(fresh) == len(kv_lens):
        return scan_candidates(paths, kv_lens, settings.predictor, settings.draft_ms, settings.min_gain)
    lengths = [num_speculative_tokens] * len(kv_lens)
    seen = [kv_lens[i] for i in fresh]
    chosen = scan_candidates(paths, seen, settings.predictor, settings.draft_ms, settings.min_gain) if fresh else []
    for i, length in zip(fresh, chosen, strict=True):
        lengths[i] = length
    return lengths
