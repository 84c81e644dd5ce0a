"""sweep, search, tornado, break-even, lags and answers, from the command line."""

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, load_placement
from simtool.trace.trace import replace_table
from tests.cli.documents.schemas import checked
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace

CONTROLLER = ControllerSettings(LinearPredictor(0.5, 0.25, 0.0))
ARMS = ("static", "this-step", "lag", "lag-overlap-index", "lag-overlap")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Runs of the same requests, as if live; outcomes at every anchor, kinds of prompts in turn."""
    folder = tmp_path_factory.mktemp("recorded")
    source = source_trace(folder / "source", random_work(3, 4, 6, tokens=8))
    kinds = [("code", "prose")[i % 2] for i in range(6)]
    source = replace_table(source, "requests", source.table("requests").with_columns(kind=pl.Series(kinds)))
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    for name in ARMS:
        save_as_live(replay(source, profile, Scenario(BUILT_IN[name], 2, CONTROLLER)), folder / name)
    assert run(["calibrate", *(str(folder / name) for name in ARMS), "--out", str(folder / "p.json")]) == 0
    return folder


def told(capsys, *arguments):
    capsys.readouterr()
    assert run([*map(str, arguments), "--json"]) == 0
    return checked(capsys.readouterr().out)


def costs(recorded):
    return recorded / "lag", "--profile", recorded / "p.json"


def test_sweep_writes_a_row_a_replay_and_a_heat_map(recorded, capsys, tmp_path):
    out, figure = tmp_path / "s.csv", tmp_path / "s.html"
    options = ("--concurrency", "1,2", "--seeds", 2, "--jobs", 1, "--out", out, "--figure", figure)
    gains = told(capsys, "sweep", *costs(recorded), *options)
    table = pl.read_csv(out)
    assert table.height == 4 * 2 * 2
    assert {"trace", "profile", "sl", "concurrency", "placement", "seed", "tokens_per_s", "step_ns"} <= set(
        table.columns
    )
    assert all(row["gain"] == 0 for row in gains["gains"] if row["placement"] == "static")
    assert "plotly" in figure.read_text().lower()


def test_search_saves_orders_that_replay(recorded, capsys, tmp_path):
    options = ("--lag", "1", "--top", 2, "--seeds", 2, "--jobs", 1, "--save", tmp_path / "best")
    (found,) = told(capsys, "search", *costs(recorded), *options)["searched"]
    assert (found["enumerated"], found["replayed"], len(found["best"])) == (300, 50, 2)
    assert found["best"][0]["gain"]["ratio"] >= found["best"][1]["gain"]["ratio"]
    saved = tmp_path / "best" / f"{found['best'][0]['placement']['name']}.toml"
    assert [str(slot) for slot in load_placement(saved).order] == found["best"][0]["placement"]["order"]
    _, line = told(capsys, "replay", *costs(recorded), "--policy", saved)["runs"]
    assert line["placement"] == load_placement(saved).name


def test_tornado_with_a_change(recorded, capsys):
    found = told(capsys, "tornado", *costs(recorded), "--policy", "lag-overlap", "--set", "decide=9us", "--jobs", 1)
    decide = next(bar for bar in found["bars"] if bar["name"] == "decide")
    assert decide["free_ns"] == pytest.approx(9_000, rel=0.2)


def test_break_even(recorded, capsys, tmp_path):
    options = ("--decision-us", "0,20", "--concurrency", "1,2", "--jobs", 1, "--figure", tmp_path / "b.html")
    points = told(capsys, "break-even", *costs(recorded), *options)["points"]
    assert [(point["concurrency"], point["decision_ns"]) for point in points] == [
        (1, 0),
        (1, 20_000),
        (2, 0),
        (2, 20_000),
    ]
    assert all(point["pays"] == (point["lost"]["mean"] < point["affordable"]["mean"]) for point in points)
    assert run(["break-even", *map(str, costs(recorded)), "--decision-us", "20", "--jobs", "1"]) == 0
    said = capsys.readouterr().out.splitlines()[0]
    point = told(capsys, "break-even", *costs(recorded), "--decision-us", "20", "--jobs", 1)["points"][0]
    lost, affordable = (point[name]["mean"] * 100 for name in ("lost", "affordable"))
    assert said.endswith(f"loses {lost:.1f} % of a step's tokens, and its step makes up for {affordable:.1f} %")


def test_lags_by_kind(recorded, capsys):
    found = told(capsys, "lags", *costs(recorded), "--lag", "1,2")
    assert {(effect["lag"], effect["kind"]) for effect in found["effects"]} == {
        (lag, kind) for lag in (0, 1, 2) for kind in ("all", "code", "prose")
    }


def test_answers_from_live_traces(recorded, capsys, tmp_path):
    traces = [recorded / name for name in ARMS]
    options = ("--concurrency", "1,2", "--seeds", 2, "--waves", 1, "--jobs", 1, "--profiles", tmp_path / "profiles")
    out, page = tmp_path / "answers.md", tmp_path / "answers.html"
    written = told(capsys, "answers", *traces, *options, "--out", out, "--page", page)["written"]
    short, text = out.read_text(), (tmp_path / "answers-tables.md").read_text()
    first = short.splitlines()[2]
    assert first.startswith("**Of 6 settings, ")
    assert first.removesuffix("**").removeprefix("**") in page.read_text()
    assert "](answers-tables.md)" in short
    assert len(short.splitlines()) < 50
    grid = (tmp_path / "answers-grid.svg").read_text()
    assert grid.count("<rect") == 6
    for part in (
        "## In short",
        "(a) Does hoisting",
        "(b) Must the fill",
        "(c) Hiding",
        "Lag beyond one",
        "simtool sweep",
    ):
        assert part in text
    assert f"{recorded / 'lag'}" in text or f"{recorded / 'static'}" in text
    assert "host-bound-sl4" in text
    assert str(tmp_path / "profiles" / "measured-sl4.json") in written
    assert "Which placement wins where" in page.read_text()
    measured = tmp_path / "profiles" / "measured-sl4.json"
    before = measured.read_bytes()
    assert run(["answers", *map(str, traces), *map(str, options), "--out", str(tmp_path / "other.md")]) == 2
    assert f"{measured} is already there; pass --force" in capsys.readouterr().err
    assert measured.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("search", "TRACE", "--lag", "9"), "--lag 9: expected none or numbers from 0 to 8"),
        (("search", "TRACE", "--top", "0"), "--top 0"),
        (("search", "TRACE", "--concurrency", "64"), "--waves 2 queues them again until each slot serves two"),
        (("sweep", "TRACE", "--out", "x.txt"), "expected .parquet, .csv or .json"),
        (
            ("sweep", "TRACE", "--baseline", "lag-overlap", "--policy", "lag"),
            "baseline 'lag-overlap' is not in the sweep",
        ),
        (("sweep", "TRACE", "--seeds", "-1"), "--seeds -1"),
        (("sweep", "TRACE", "--concurrency", "two"), "'two' is not a list of whole numbers"),
        (("break-even", "TRACE", "--policy", "static"), "--policy static has no lag"),
        (("tornado", "TRACE", "--set", "tidy=0"), "no cost 'tidy' to change"),
        (("answers", "TRACE", "--seeds", "1"), "an interval needs 2 or more"),
    ],
)
def test_bad_use_is_one_line(recorded, capsys, monkeypatch, tmp_path, command, message):
    monkeypatch.chdir(tmp_path)
    assert run([str(recorded / "lag") if part == "TRACE" else part for part in command]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not list(tmp_path.iterdir())
