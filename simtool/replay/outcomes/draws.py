"""Where drawn requests find the recorded blocks, without the outcomes being written out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from simtool.replay.drawn import DrawnTrace
from simtool.replay.outcomes.blocks import Blocks, Found, read_blocks
from simtool.step.scheduler import Request


def read_drawn(trace: DrawnTrace, requests: Sequence[Request]) -> tuple[Blocks, Found]:
    """Return the recorded blocks, and where each is drafted for the requests that drew them."""
    prompts = trace.recorded.table("requests").select("request_id", "prompt_tokens").sort("request_id")
    donors = [Request(name, prompt, 1) for name, prompt in prompts.iter_rows()]
    blocks, known = read_blocks(trace.recorded, donors)
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
    at = np.repeat(low - np.cumsum(taken) + taken, taken) + np.arange(int(taken.sum()))
    found = Found(
        request=np.repeat(request.astype(np.int32), taken),
        anchor=known.anchor[at] + np.repeat((first - prompt[donor]).astype(np.int32), taken),
        block=known.block[at],
        match_run=known.match_run[at],
        known=known.known[at],
    )
    return blocks, found


def _numbered(requests: Sequence[Request], name: str, number: str) -> pl.DataFrame:
    names = pl.Series(name, [request.request_id for request in requests], dtype=pl.String)
    return names.to_frame().with_row_index(number)
