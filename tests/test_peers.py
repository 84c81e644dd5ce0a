"""docs/peers.md: its errors by hand, and what a peer is told of a run adds up to that run."""

import json

import polars as pl
import pytest

from benchmarks.peers import frontier, inference_lab
from benchmarks.peers.live import SETTINGS, Said
from benchmarks.peers.page import LIVE, OURS, QUESTIONS, Answer, _errors, page

SL7 = SETTINGS[0]


def test_errors_by_hand_and_runs_that_costs_were_taken_from_count_in_none():
    told = {
        (LIVE, "static"): 1000.0,
        (LIVE, "this-step"): 1000.0,
        (LIVE, "lag"): 900.0,
        (OURS, "static"): 1100.0,
        (OURS, "this-step"): 5000.0,
        (OURS, "lag"): 880.0,
    }
    answers = [Answer(who, "sl7", arm, Said(steady=None, tokens_per_s=speed)) for (who, arm), speed in told.items()]
    by_title = {each.title: each for each in QUESTIONS}
    (speed, where), *more = _errors(answers, by_title["tokens/s of the run"], OURS)
    assert speed == pytest.approx(880 / 900 - 1)
    assert where == "lag, SL 7, 8 at once"
    assert more == []
    ((gain, _),) = _errors(answers, by_title["tokens/s of the run over static's, %"], OURS)
    assert gain == pytest.approx(-20 + 10)
    assert _errors(answers, by_title["mean decode step, ms"], OURS) == []
    text = page(answers)
    assert "off by 2.2 % on average (2.2 % at 8 at once)" in text
    assert "off by 10.0 points, its sign right in\n  1 of 1 arms whose live difference is 1 % or more." in text


def test_what_frontier_plays_back_is_what_the_run_did(tmp_path):
    judged = SL7.trace("lag")
    served = frontier._served(judged)
    frontier._write_acceptance(judged, served, tmp_path)
    told = json.loads((tmp_path / "acceptance.json").read_text())
    committed = told["per_request_committed_tokens_per_iteration"]
    offered = told["per_request_scheduled_draft_tokens_per_iteration"]
    for index, tokens in enumerate(served["output_tokens"]):
        assert sum(committed[str(index)]) == tokens - 1
        assert all(c <= 1 + p for c, p in zip(committed[str(index)], offered[str(index)], strict=True))


def test_what_inference_lab_is_told_of_the_drafts_and_steps(tmp_path):
    source = SL7.trace("static")
    inference_lab._write_bank(source, tmp_path / "bank.csv")
    bank = pl.read_csv(tmp_path / "bank.csv")
    assert bank.columns == ["commits", "category", *(f"a{k}" for k in range(7))]
    assert bank["commits"].to_list() == source.table("rows")["accepted"].to_list()
    for waiting in (True, False):
        inference_lab._write_table(SL7, waiting=waiting, path=tmp_path / "table.csv")
        table = pl.read_csv(tmp_path / "table.csv")
        assert table.height == 8 * 8
        assert table.sort("batch_size", "num_draft_tokens")["step_seconds"].min() > 0
    full = table.filter(batch_size=8, num_draft_tokens=8)["step_seconds"].item()
    assert full > table.filter(batch_size=8, num_draft_tokens=1)["step_seconds"].item()
