"""Laws that hold whatever the numbers are: other inputs, outcomes that follow from the first."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN, with_lag
from simtool.study.runner import Setting, run_cells
from simtool.trace.trace import Trace
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace

_COSTS = constant_costs(pre=1_000, duration=5_000)
_PLACEMENTS = ("static", "this-step", "lag", "lag-overlap")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return source_trace(tmp_path_factory.mktemp("laws") / "source", random_work(5, 4, 6, tokens=12))


def test_static_is_the_same_under_any_lag(source: Trace) -> None:
    """A placement without a decision reads no confidence, so there is no age to give it; the others differ in rows."""
    profile = profile_of(_COSTS)
    static = replay(source, profile, Scenario(BUILT_IN["static"], 2)).tables["rows"]
    assert static["prefix_len"].unique().to_list() == [source.manifest.sl]
    for lag in (1, 3, 8):
        other = replay(source, profile, Scenario(with_lag(BUILT_IN["lag"], lag), 2)).tables["rows"]
        assert other.filter(~pl.col("fresh"))["prefix_len"].unique().to_list() == [source.manifest.sl]


def test_one_process_or_two(source: Trace) -> None:
    setting = Setting(source, profile_of(_COSTS), 2)
    jobs = [(setting, BUILT_IN[name]) for name in _PLACEMENTS]
    one, two = (run_cells(jobs, processes=count) for count in (1, 2))
    for (mine,), (other,) in zip(one, two, strict=True):
        assert mine.tokens_per_s == other.tokens_per_s
        assert mine.idle_ns == other.idle_ns


def test_a_table_says_what_the_replay_says(source: Trace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One row of a sweep is one replay: the same steady tok/s in the table and in the replay's own figures."""
    from simtool.profile.storage import save_profile  # noqa: PLC0415

    save_profile(profile_of(_COSTS), tmp_path / "p.json")
    sound = save_as_live(replay(source, profile_of(_COSTS), Scenario(BUILT_IN["lag"], 2)), tmp_path / "sound")
    (cell,) = run_cells([(Setting(sound, profile_of(_COSTS), 2), BUILT_IN["lag"])])[0]
    costs = ["--profile", str(tmp_path / "p.json"), "--allow-other-model"]
    out = tmp_path / "sweep.csv"
    arguments = ["sweep", str(sound.path), *costs, "--policy", "lag", "--baseline", "lag", "--jobs", "1"]
    assert run([*arguments, "--out", str(out)]) == 0, capsys.readouterr().err
    assert pl.read_csv(out)["tokens_per_s"].to_list() == [pytest.approx(cell.tokens_per_s, rel=1e-12)]
