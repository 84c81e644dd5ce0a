"""Acceptance loss as an axis: stale decisions lose what they are told to lose, and nothing else does."""

import re
from pathlib import Path

import polars as pl
import pytest
from xllm_2280.losses import loss_axes
from xllm_2280.regions import regions

from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.replay.step_planner import thinned
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.study.runner import Setting
from tests.replay.synthetic import constant_costs, profile_of, random_work, source_trace

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.0))
COSTS = constant_costs(pre=1_000, duration=5_000)


def test_thinned_loses_the_share_on_average():
    left = [thinned(3, 0.2, "r", anchor) for anchor in range(4_000)]
    assert set(left) == {2, 3}
    assert sum(left) / len(left) == pytest.approx(3 * 0.8, abs=0.03)
    assert all(thinned(3, 0.5, "r", anchor) <= each for anchor, each in enumerate(left))
    assert (thinned(0, 0.5, "r", 1), thinned(3, 1.0, "r", 1)) == (0, 0)


@pytest.mark.parametrize("name", ["static", "this-step", "lag-overlap"])
def test_only_stale_decisions_lose_and_the_tokens_stay(tmp_path, name):
    source = source_trace(tmp_path / "source", random_work(5, 4, 6, tokens=30))
    plain, lossy = (
        replay(source, profile_of(COSTS), Scenario(BUILT_IN[name], 2, CONTROLLER, stale_loss=loss))
        for loss in (0.0, 0.5)
    )
    wanted = source.table("requests").select("request_id", n=pl.col("output_tokens") - 1).sort("request_id")
    for each in (plain, lossy):  # the first token of a request is the prefill's
        emitted = each.tables["rows"].group_by("request_id").agg(n=pl.col("emitted").sum()).sort("request_id")
        assert emitted.rows() == wanted.rows()
    assert plain.tables["requests"]["output_tokens"].equals(lossy.tables["requests"]["output_tokens"])
    lagged = name == "lag-overlap"
    assert (lossy.tables["rows"].height > plain.tables["rows"].height) == lagged
    assert (
        "what-if: decisions on old confidence lose 50% of their accepted drafts" in lossy.manifest.warnings
    ) == lagged
    unfresh = lossy.tables["rows"].filter(~lossy.tables["rows"]["fresh"])
    if lagged:
        runs = source.table("outcomes").select("request_id", "anchor_position", "match_run")
        joined = unfresh.join(runs, on=["request_id", "anchor_position"]).drop_nulls("match_run")
        assert (joined["accepted"] == joined.select(m="match_run")["m"].clip(0, 4)).all()


def test_the_axis_ends_with_the_rivals(tmp_path):
    """Where a decision is dear a lag wins; with every accepted draft taken away it no longer does."""
    source = source_trace(tmp_path / "source", random_work(3, 4, 6, tokens=40))
    costs = constant_costs(pre=1_000, duration=5_000, host_decide=4_000, device_draft=9_000)
    arms = [BUILT_IN[name] for name in ("static", "this-step", "lag-overlap-late", "lag-overlap")]
    where = [Setting(source, profile_of(costs), 2)]
    found = regions(where, arms, processes=1)
    (axis,) = loss_axes(where, found, arms, losses=(0.3, 1.0), processes=1)
    assert [point.stale_loss for point in axis.points] == [0.0, 0.3, 1.0]
    assert axis.points[0].lost == found[0].lost
    losses = [point.lost.mean for point in axis.points]
    assert losses == sorted(losses)
    leads = [point.lead.ratio for point in axis.points]
    assert leads == sorted(leads, reverse=True)
    assert axis.winner(axis.points[-1]) in ("static", "this-step")
    for point in axis.points:
        if abs(point.lost.mean - found[0].affordable.mean) > 0.05:
            assert (point.lead.ratio > 1) == (point.lost.mean < found[0].affordable.mean)


def test_the_sentence_and_the_tables_count_a_lags_leads_alike():
    docs = Path(__file__).parents[2] / "docs"
    said = re.search(
        r"static and this-step in (\d+), behind in (\d+), level in (\d+)", (docs / "answers.md").read_text()
    )
    table = re.search(r"0% taken: ahead (\d+), behind (\d+), a tie (\d+)", (docs / "answers-tables.md").read_text())
    assert said is not None
    assert table is not None
    assert said.groups() == table.groups()
