"""Outcomes of one anchor, visited and filled, become one: the timed run's block, with the match run that is known."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from simtool.files import stored_rows
from simtool.replay.outcomes.blocks import DraftProbs, read_found
from simtool.step.scheduler import Request
from simtool.trace import table_file
from simtool.trace.frames import sort_frame
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace
from tests.replay.synthetic import random_work, source_trace


def drawn_twice(trace: Trace, seed: int) -> pl.DataFrame:
    """Outcomes: some anchors visited, some filled, some both, and a third of the match runs unknown."""
    rng = np.random.default_rng(seed)
    both = pl.concat([trace.table("outcomes").with_columns(source=pl.lit(name)) for name in ("visited", "filled")])
    both = both.with_columns(confidence=pl.Series(rng.random((both.height, 3)).tolist(), dtype=pl.List(pl.Float32)))
    runs = pl.when(pl.Series(rng.random(both.height) < 0.67)).then(pl.col("match_run"))
    return sort_frame(TABLES["outcomes"], both.with_columns(match_run=runs).sample(fraction=0.7, seed=seed))


@pytest.mark.parametrize("rows", [1 << 17, 1])  # of a stretch: all requests at once, or one after another
@pytest.mark.parametrize("seed", range(20))
def test_blocks_are_found_as_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, rows: int) -> None:
    monkeypatch.setattr(table_file, "STRETCH_ROWS", rows)
    trace = source_trace(tmp_path / "source", random_work(seed, 3, 6))
    trace._frames["outcomes"] = table = drawn_twice(trace, seed)
    requests = [Request(f"r{i}", 1, 1) for i in (4, 0, 5, 2)]  # of six: the others' outcomes are of no use here
    expected: dict[tuple[int, int], tuple[list[float], int | None]] = {}
    for row in table.sort("source", descending=True, maintain_order=True).iter_rows(named=True):
        number = [i for i, request in enumerate(requests) if request.request_id == row["request_id"]]
        if number:
            key = (number[0], row["anchor_position"])
            block, run = expected.get(key, (row["confidence"], None))
            expected[key] = block, row["match_run"] if run is None else run
    blocks, found = read_found(trace, requests)
    told = zip(found.match_run.tolist(), found.known.tolist(), strict=True)
    got = zip(blocks.confidence[found.block].tolist(), [run if known else None for run, known in told], strict=True)
    keys = zip(found.request.tolist(), found.anchor.tolist(), strict=True)
    assert sorted(zip(keys, got, strict=True)) == sorted(expected.items())


@pytest.mark.parametrize("near", [1 << 22, 0])  # numbers that stay in memory
@pytest.mark.parametrize("rows", [1 << 17, 1])
@pytest.mark.parametrize("there", ["all", "some", "none", "fewer"])
def test_draft_probabilities_are_those_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str, rows: int, near: int
) -> None:
    monkeypatch.setattr(stored_rows, "_MOST_NEAR", near)
    monkeypatch.setattr(table_file, "STRETCH_ROWS", rows)
    trace = source_trace(tmp_path / "source", random_work(1, 3, 6))
    table, rng = trace.table("outcomes"), np.random.default_rng(1)
    probs: list[list[float] | None] = rng.random((table.height, 3)).tolist()
    for row in {"all": (), "some": (5, 11), "none": range(table.height), "fewer": ()}[there]:
        probs[row] = None
    if there == "fewer":
        probs[7] = [0.5]
    given = pl.Series("draft_prob", probs, dtype=pl.List(pl.Float32))
    trace._frames["outcomes"] = table.with_columns(given)
    wanted = np.array([table.height - 1, 0, 7, 7, 5], np.int32)
    assert DraftProbs(trace).of(wanted).to_list() == given.gather(wanted).to_list()
