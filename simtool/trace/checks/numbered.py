"""Rows with the number of their request and the place of their step, so that nothing is joined or sorted by names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from simtool.trace.places import Ints, RequestNumbers
from simtool.trace.trace import Trace

_SERVED = {"request_id": pl.String, "row_emitted": pl.Int64, "first_row": pl.Int32, "last_row": pl.Int32}
_ENDS = (pl.col("step").alias("first_row"), pl.col("step").alias("last_row"))
_SUMS = (pl.col("row_emitted").sum(), pl.col("first_row").min(), pl.col("last_row").max())


def rows_by_request(trace: Trace) -> pl.DataFrame:
    """Return request_id, row_emitted (tokens), first_row and last_row (steps) of each request that has rows."""
    return trace.once("rows by request", _rows_by_request)


def _rows_by_request(trace: Trace) -> pl.DataFrame:
    sums = [pl.DataFrame(schema=_SERVED)]
    for rows in trace.stretches("rows", "request_id", "step", "emitted"):
        here = rows.select("request_id", pl.col("emitted").cast(pl.Int64).alias("row_emitted"), *_ENDS)
        sums.append(here.group_by("request_id").agg(_SUMS))
    return pl.concat(sums).group_by("request_id").agg(_SUMS)


@dataclass(frozen=True)
class NumberedRequests:
    """Every request that the trace tells of, those in `requests` first: request_id, prompt_tokens, output_tokens.

    Of one that only its rows tell of the tokens are null.
    """

    table: pl.DataFrame
    numbers: RequestNumbers


def numbered_requests(trace: Trace) -> NumberedRequests:
    """Return a trace's requests, each once."""
    return trace.once("numbered requests", _numbered_requests)


def _numbered_requests(trace: Trace) -> NumberedRequests:
    told = trace.columns("requests", "request_id", "prompt_tokens", "output_tokens").unique("request_id")
    untold = rows_by_request(trace).select("request_id").join(told, on="request_id", how="anti")
    table = pl.concat([told, untold], how="diagonal")
    return NumberedRequests(table, RequestNumbers(table["request_id"]))


def beside(frame: pl.DataFrame, values: pl.DataFrame, place: Ints) -> pl.DataFrame:
    """Return the frame with the values at a place for each of its rows beside it; null where that is -1."""
    return frame.hstack(pl.concat([values, values.clear(1)])[place])


def steps_of(steps: pl.DataFrame, step: pl.Series) -> Ints:
    """Return the place in a `steps` table of each step; -1 for one that is not in it."""
    if steps.is_empty():
        return np.full(len(step), -1)
    known, wanted = steps["step"].to_numpy(), step.to_numpy()
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, place, -1)


@dataclass(frozen=True)
class Turns:
    """The rows of some steps request by request, each's in the order they have. order: [rows], into the frame.

    number: [rows], of the request, in that order. first, last: [requests], where the rows of each that is here lie.
    """

    order: Ints
    number: Ints
    first: Ints
    last: Ints


def in_turn(number: Ints) -> Turns:
    """Put rows into the order of their requests. number: [rows], of the request of each."""
    order = np.argsort(number, kind="stable")
    mine = number[order]
    first = np.flatnonzero(np.diff(mine, prepend=-1))
    return Turns(order, mine, first, np.append(first[1:], len(mine))[: len(first)] - 1)
