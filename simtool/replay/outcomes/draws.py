"""Where drawn requests find the recorded blocks, without the outcomes being written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.replay.outcomes.blocks import Blocks, Found, Take, read_found
from simtool.replay.outcomes.drawn import DrawnTrace
from simtool.step.scheduler import Request

#: Outcomes that are found at a time, about.
_PART = 1 << 18
_Wholes = NDArray[np.int64]


def read_drawn(trace: DrawnTrace, requests: Sequence[Request], take: Take) -> Blocks:
    """Return the recorded blocks, and hand on where each is drafted for the requests that drew them."""
    prompts = trace.recorded.table("requests").select("request_id", "prompt_tokens").sort("request_id")
    donors = [Request(name, prompt, 1) for name, prompt in prompts.iter_rows()]
    blocks, known = read_found(trace.recorded, donors)
    draws = (
        trace.draws.join(_numbered(requests, "request_id", "request"), on="request_id")
        .join(_numbered(donors, "donor", "from"), on="donor")
        .sort("request", "first_anchor")
    )
    request, donor, first, anchors = (
        draws[name].cast(pl.Int64).to_numpy() for name in ("request", "from", "first_anchor", "anchors")
    )
    prompt = prompts["prompt_tokens"].cast(pl.Int64).to_numpy()
    span = int(known.anchor.max(initial=0)) + 1
    places = known.request.astype(np.int64) * span + known.anchor  # in order, by donor and then anchor
    low = np.searchsorted(places, donor * span + prompt[donor])
    taken = np.searchsorted(places, donor * span + np.minimum(prompt[donor] + anchors, span)) - low
    behind = first - prompt[donor]
    for some in _parts(request, taken):
        count = taken[some]
        at = np.repeat(low[some] - np.cumsum(count) + count, count) + np.arange(int(count.sum()))
        found = Found(
            request=np.repeat(request[some].astype(np.int32), count),
            anchor=known.anchor[at] + np.repeat(behind[some].astype(np.int32), count),
            block=known.block[at],
            match_run=known.match_run[at],
            known=known.known[at],
        )
        take(found, blocks)
    return blocks


def _parts(request: _Wholes, taken: _Wholes) -> Iterator[slice]:
    """Cut draws, sorted by request, between requests. taken: outcomes of each draw."""
    begins = np.flatnonzero(np.diff(request, prepend=-1))
    part = (np.cumsum(taken) - taken)[begins] // _PART
    for low, high in pairwise([*begins[np.flatnonzero(np.diff(part, prepend=-1))].tolist(), len(request)]):
        yield slice(low, high)


def _numbered(requests: Sequence[Request], name: str, number: str) -> pl.DataFrame:
    names = pl.Series(name, [request.request_id for request in requests], dtype=pl.String)
    return names.to_frame().with_row_index(number)
