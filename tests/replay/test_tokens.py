"""Which tokens a replay emits, and what it does where the trace cannot tell."""

from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from simtool.errors import CapacityError, TraceError, UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, with_lag
from simtool.trace.trace import replace_table
from tests.replay.synthetic import Asked, Work, constant_costs, profile_of, random_work, source_trace

PROFILE = profile_of(constant_costs(pre=10, duration=5))
PRUNES = ControllerSettings(LinearPredictor(0.0, 1.0, 0.0))


def run(source, placement="static", concurrency=2, **settings):
    chosen = BUILT_IN[placement] if isinstance(placement, str) else placement
    return replay(source, PROFILE, Scenario(chosen, concurrency, **settings))


def flat_work(confidence, match_run, *asked):
    drafts = len(confidence)
    outcomes = {(r.name, at): (list(confidence), match_run) for r in asked for at in range(r.prompt, r.prompt + 99)}
    return Work(drafts, asked, outcomes)


def test_every_placement_emits_every_token(tmp_path):
    source = source_trace(tmp_path / "s", random_work(3, 4, 7))
    for placement in BUILT_IN.values():
        tables = run(source, placement, controller=PRUNES).tables
        emitted = dict(tables["rows"].group_by("request_id").agg(pl.col("emitted").sum()).iter_rows())
        for name, total in tables["requests"].select("request_id", "output_tokens").iter_rows():
            assert emitted.get(name, 0) + 1 == total


def test_the_last_block_is_cut_where_the_output_ends(tmp_path):
    """Three drafts match each step: 4 tokens a step, 1 from the prefill, 2 left over for the last of 7."""
    source = source_trace(tmp_path / "s", flat_work([1.0, 1.0, 1.0], 3, Asked("a", 5, 7, 9)))
    rows = run(source).tables["rows"]
    assert rows["anchor_position"].to_list() == [5, 9]
    assert rows["accepted"].to_list() == [3, 3]
    assert rows["emitted"].to_list() == [4, 2]


@pytest.mark.parametrize(("lag", "stale_steps"), [(1, 1), (2, 2), (3, 3)])
def test_a_request_is_verified_whole_until_its_own_confidence_is_old_enough(tmp_path, lag, stale_steps):
    """The second request takes over the first one's slot, and must not decide with its confidence."""
    work = flat_work([0.0, 0.0], 0, Asked("a", 5, 8, 8), Asked("b", 5, 8, 8))
    placement = with_lag(BUILT_IN["lag"], lag)
    rows = run(source_trace(tmp_path / "s", work), placement, concurrency=1, controller=PRUNES).tables["rows"]
    for name in "ab":
        own = rows.filter(pl.col("request_id") == name)
        assert own["slot"].unique().to_list() == [0]
        assert own["fresh"].to_list() == [False] * stale_steps + [True] * (7 - stale_steps)
        assert own["prefix_len"].to_list() == [2] * stale_steps + [0] * (7 - stale_steps)


def test_lag_two_decides_with_the_confidence_of_two_steps_ago(tmp_path):
    """Only anchor 6 is sure of itself. No draft matches, so step k decodes anchor 5 + k: lag 2 offers them at 8."""
    outcomes = {("a", at): ([1.0, 1.0] if at == 6 else [0.0, 0.0], 0) for at in range(5, 20)}
    source = source_trace(tmp_path / "s", Work(2, (Asked("a", 5, 8, 8),), outcomes))
    free = ControllerSettings(LinearPredictor(1.0, 0.01, 0.0))
    rows = run(source, with_lag(BUILT_IN["lag"], 2), controller=free).tables["rows"]
    offered = dict(rows.select("anchor_position", "prefix_len").iter_rows())
    assert offered == {5: 2, 6: 2, 7: 0, 8: 2, 9: 0, 10: 0, 11: 0}


def test_strict_names_the_missing_anchor_and_the_remedy(tmp_path):
    work = random_work(3, 4, 2)
    name, anchor = next((r.name, r.prompt) for r in work.requests if r.total > 1)
    work = replace(work, outcomes={key: value for key, value in work.outcomes.items() if key != (name, anchor)})
    source = source_trace(tmp_path / "s", work)
    with pytest.raises(TraceError, match=rf"request {name} has no outcome at anchor {anchor}.*simtool fill.*resample"):
        run(source)


def test_resample_takes_the_nearest_anchor_and_counts_it(tmp_path):
    asked = Asked("a", 5, 9, 9)
    outcomes = {("a", 5): ([0.5, 0.5], 0), ("a", 7): ([1.0, 1.0], 2), ("a", 12): ([0.0, 0.0], 0)}
    source = source_trace(tmp_path / "s", Work(2, (asked,), outcomes))
    result = run(source, outcomes="resample")
    rows = result.tables["rows"].select("anchor_position", "accepted").rows()
    # 5 as recorded; 6 is as near to 5 as to 7 and takes the lower; 7 as recorded; 10 takes 12's.
    assert rows == [(5, 0), (6, 0), (7, 2), (10, 0), (11, 0), (12, 0)]
    assert result.manifest.details["anchors_substituted"] == 3
    assert any("50.0% of the anchors" in warning for warning in result.manifest.warnings)


def test_resample_matches_on_confidence_where_only_the_match_run_is_unknown(tmp_path):
    asked = Asked("a", 5, 9, 9)
    outcomes: Any = {("a", at): ([0.0, 0.0], 0) for at in range(6, 14)} | {("a", 9): ([1.0, 1.0], 2)}
    source = source_trace(tmp_path / "s", Work(2, (asked,), outcomes | {("a", 5): ([0.9, 0.9], None)}))
    result = run(source, outcomes="resample")
    assert result.tables["rows"].row(0, named=True)["accepted"] == 2
    assert result.manifest.details["anchors_substituted"] == 1


def test_an_unknown_match_run_at_the_end_of_the_output_is_no_gap(tmp_path):
    """The recorder leaves it open when every token that was left matched; the output ends there either way."""
    outcomes: Any = {("a", 5): ([0.5, 0.5, 0.5], 0), ("a", 6): ([0.5, 0.5, 0.5], None)}
    source = source_trace(tmp_path / "s", Work(3, (Asked("a", 5, 4, 4),), outcomes))
    result = run(source)
    assert result.tables["rows"]["emitted"].to_list() == [1, 2]
    assert result.manifest.details["anchors_substituted"] == 0


def test_visited_confidence_wins_and_the_filled_match_run_completes_it(tmp_path):
    source = source_trace(tmp_path / "s", flat_work([0.25, 0.25], 2, Asked("a", 5, 9, 9)))
    table = source.table("outcomes")
    visited = table.filter(pl.col("anchor_position") == 5).with_columns(
        pl.lit("visited").alias("source"),
        pl.lit(None, pl.Int32).alias("match_run"),
        pl.lit([0.75, 0.75], pl.List(pl.Float32)).alias("confidence"),
    )
    source = replace_table(source, "outcomes", pl.concat([visited, table]))
    row = run(source).tables["rows"].row(0, named=True)
    assert (row["confidence"], row["accepted"]) == ([0.75, 0.75], 2)


def test_kv_blocks_bound_the_batch(tmp_path):
    """Two requests of one block each (prompt 4 + 6 new + 3 ahead <= 16) and room for one."""
    work = flat_work([0.0, 0.0], 0, Asked("a", 4, 6, 6), Asked("b", 4, 6, 6))
    source = source_trace(tmp_path / "s", work)
    assert run(source).tables["steps"]["batch"].max() == 2
    assert run(source, kv_blocks=1).tables["steps"]["batch"].max() == 1
    big = source_trace(tmp_path / "big", flat_work([0.0], 0, Asked("a", 40, 6, 6)))
    with pytest.raises(CapacityError, match="request a"):
        run(big, kv_blocks=1)


def test_arrivals(tmp_path):
    asked = (Asked("a", 4, 3, 3, arrival_ns=7_000), Asked("b", 4, 3, 3, arrival_ns=900_007_000))
    source = source_trace(tmp_path / "s", flat_work([0.0, 0.0], 0, *asked))
    assert run(source).tables["requests"]["arrival_ns"].to_list() == [0, 0]
    recorded = run(source, arrivals=Arrivals("trace")).tables
    assert recorded["requests"]["arrival_ns"].to_list() == [0, 900_000_000]
    assert recorded["requests"]["admitted_ns"].to_list() == [0, 900_000_000]
    one, same, other = (run(source, arrivals=Arrivals("poisson", 50.0), seed=s).tables["requests"] for s in (1, 1, 2))
    assert one.equals(same)
    assert not one.equals(other)


def test_unfinished_requests_are_not_replayed(tmp_path):
    source = source_trace(tmp_path / "s", flat_work([0.0], 0, Asked("a", 4, 3, 3), Asked("b", 4, 3, 3)))
    cut = pl.when(pl.col("request_id") == "a").then(None).otherwise("finished_ns").alias("finished_ns")
    source = replace_table(source, "requests", source.table("requests").with_columns(cut))
    assert run(source).tables["requests"]["request_id"].to_list() == ["b"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"concurrency": 0}, "concurrency is 0"),
        ({"outcomes": "guess"}, "outcomes is 'guess'; expected one of strict, resample"),
        ({"noise": "white"}, "noise is 'white'"),
        ({"kv_blocks": 0}, "KV cache of 0 blocks"),
    ],
)
def test_bad_scenarios_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        Scenario(BUILT_IN["static"], **{"concurrency": 1} | settings)


@pytest.mark.parametrize(("kind", "rate"), [("poisson", None), ("closed", 3.0), ("poisson", 0.0), ("sometimes", None)])
def test_bad_arrivals_are_refused(kind, rate):
    with pytest.raises(UsageError):
        Arrivals(kind, rate)


def test_a_trace_without_outcomes_says_how_to_get_them(tmp_path):
    source = source_trace(tmp_path / "s", random_work(3, 4, 7))
    source = replace_table(source, "outcomes", source.table("outcomes").clear())
    for mode in ("strict", "resample"):
        with pytest.raises(TraceError, match=r"has no outcome at anchor .* run `simtool fill"):
            run(source, outcomes=mode)
