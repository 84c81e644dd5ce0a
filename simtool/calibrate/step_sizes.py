"""The steps of a trace and the sizes of each: what the costs of its ops may grow with."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.step.cost_features import DECODE_FEATURES, FEATURES, PREFILL_FEATURES, DecodeShape, prefill_sizes
from simtool.trace.trace import Trace

_DECODE, _PREFILL = (
    np.array([FEATURES.index(name) for name in names]) for names in (DECODE_FEATURES, PREFILL_FEATURES)
)


@dataclass(frozen=True)
class StepSizes:
    """steps: step, kind, start_ns, end_ns, in order. sizes: [FEATURES, steps], not a number where a step has none.

    decode, prefill: [steps], whether the sizes of such a step are known.
    """

    steps: pl.DataFrame
    sizes: NDArray[np.float64]
    decode: NDArray[np.bool_]
    prefill: NDArray[np.bool_]

    def has(self, feature: str, place: int) -> bool:
        """Return whether a step, by its place, has such a size."""
        return (self.decode[place] and feature in DECODE_FEATURES) or (
            self.prefill[place] and feature in PREFILL_FEATURES
        )


def read_step_sizes(trace: Trace) -> StepSizes:
    """Return the steps of a trace with their sizes, reading its rows a stretch at a time."""
    steps = trace.columns("steps", "step", "kind", "start_ns", "end_ns", "batch")
    sizes = np.full((len(FEATURES), len(steps)), np.nan)
    decode, prefill = np.zeros((2, len(steps)), np.bool_)
    numbers, known = _decode_sizes(trace)
    place = steps["step"].search_sorted(pl.Series(numbers, dtype=pl.Int32)).to_numpy()
    there = np.flatnonzero(np.append(steps["step"].to_numpy(), -1)[place] == numbers)  # rows of no step: none
    sizes[np.ix_(_DECODE, place[there])] = known[there].T
    decode[place[there]] = True
    place, known = _prefill_sizes(trace, steps)
    sizes[:, place] = np.nan
    sizes[np.ix_(_PREFILL, place)] = known.T
    decode[place], prefill[place] = False, True
    return StepSizes(steps.drop("batch"), sizes, decode, prefill)


def _decode_sizes(trace: Trace) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """Steps that have rows, and their sizes: [steps, DECODE_FEATURES]."""
    manifest, numbers, values = trace.manifest, array("i"), array("d")
    graphs = manifest.run.graphs
    for rows in trace.stretches("rows", "step", "kv_len", "prefix_len", "emitted"):
        steps = rows.group_by("step", maintain_order=True).agg("kv_len", "prefix_len", "emitted")
        for step, kv_lens, prefix_lens, emitted in steps.iter_rows():
            shape = DecodeShape(
                num_speculative_tokens=manifest.sl,
                block_width=manifest.block_width,
                kv_lens=kv_lens,
                prefix_lens=prefix_lens,
                emitted=emitted,
                graphs=graphs,
            )
            numbers.append(step)
            values.extend(shape.sizes())
    return np.frombuffer(numbers, np.int32), np.frombuffer(values, np.float64).reshape(-1, len(DECODE_FEATURES))


def _prefill_sizes(trace: Trace, steps: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Places of prefill steps, and their sizes; a request belongs to the one in which it got its first token."""
    requests = trace.columns("requests", "first_token_ns", "prompt_tokens").drop_nulls().sort("first_token_ns")
    prompts = requests["prompt_tokens"].to_list()
    prefills = steps.with_row_index("place").filter(pl.col("kind") == "prefill")
    first = requests["first_token_ns"].search_sorted(prefills["start_ns"], "left").to_list()
    last = requests["first_token_ns"].search_sorted(prefills["end_ns"], "right").to_list()
    places, values = array("q"), array("d")
    for place, batch, low, high in zip(prefills["place"], prefills["batch"], first, last, strict=True):
        if max(high - low, 0) == batch:
            places.append(place)
            values.extend(prefill_sizes(prompts[low:high]))
    return np.frombuffer(places, np.int64), np.frombuffer(values, np.float64).reshape(-1, len(PREFILL_FEATURES))
