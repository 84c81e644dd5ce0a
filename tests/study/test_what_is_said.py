"""What studies say and refuse: a trace given twice, whose predictor decides, what figures leave out, what lacks."""

import dataclasses
import json
import shutil

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.profile.storage import load_profile, save_profile
from simtool.step.controller import LinearPredictor
from simtool.step.order_search import moves
from simtool.step.placement import BUILT_IN
from simtool.study.runner import run_cells
from simtool.study.search import BASELINE, order_candidates, search
from simtool.study.sensitivity import sensitivity
from tests.study.small import setting
from tests.study.test_commands import recorded, told

__all__ = ["recorded"]  # the fixture


def failed(capsys, *arguments):
    capsys.readouterr()
    assert run([*map(str, arguments)]) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_a_trace_given_twice_is_refused(recorded, capsys, tmp_path):
    trace = recorded / "lag"
    again = trace.parent / "." / "static" / ".." / "lag"
    for command in (("sweep", "--out", tmp_path / "s.csv"), ("calibrate", "--out", tmp_path / "p.json")):
        assert "lag is given twice; give each trace once" in failed(capsys, command[0], trace, again, *command[1:])
    assert not list(tmp_path.iterdir())


def test_traces_of_one_name_are_kept_apart(recorded, capsys, tmp_path):
    """Two machines' recordings, both named lag: the rows of one beside those of the other, each as if alone."""
    places = [tmp_path / machine / "live" / "lag" for machine in ("m1", "m2")]
    for place, source in zip(places, ("lag", "lag-overlap"), strict=True):
        shutil.copytree(recorded / source, place)
    out = ("--policy", "this-step", "--policy", "lag", "--jobs", 1, "--force", "--out", tmp_path / "s.csv")
    both = told(capsys, "sweep", *places, *out)["gains"]
    assert [(row["trace"], row["placement"]) for row in both] == [
        (str(place), name) for place in places for name in ("this-step", "lag")
    ]
    alone = [row for place in places for row in told(capsys, "sweep", place, *out)["gains"]]
    assert {row["trace"] for row in alone} == {"lag"}
    figures = ("tokens_per_s", "step_ns", "gain", "gain_low", "gain_high")
    assert [[row[name] for name in figures] for row in both] == [[row[name] for name in figures] for row in alone]
    assert all(row["gain_low"] is None for row in both)


def test_a_warning_of_a_sweep_names_a_trace_once(recorded, capsys, tmp_path):
    capsys.readouterr()
    arguments = ("sweep", recorded / "lag", "--policy", "this-step", "--set", "finish=2us", "--out", tmp_path / "s.csv")
    assert run([*map(str, arguments), "--jobs", "1"]) == 0
    warned = capsys.readouterr().err
    assert "warning: lag, concurrency 2: what-if: finish=2us" in warned
    assert "lag, lag" not in warned


def test_search_says_first_what_makes_the_gain(tmp_path):
    where = setting(tmp_path)
    best = search(where, order_candidates(where, (None, 1)), top=2, processes=1).best
    for found in best:
        base, mine = (run_cells([(where, placement)])[0][0] for placement in (BASELINE, found.placement))
        assert found.tokens_change == pytest.approx(mine.tokens_per_step / base.tokens_per_step - 1)
        assert found.gain.ratio == pytest.approx((1 + found.tokens_change) / (1 + found.step_change))
        emits, takes = (
            f"{abs(share) * 100:.1f} % {more if share > 0 else less}" if abs(share) >= 0.0005 else "the same"
            for share, more, less in ((found.tokens_change, "more", "fewer"), (found.step_change, "more", "less"))
        )
        assert found.why.startswith(f"a step emits {emits} tokens and takes {takes} time; ")


def test_a_move_names_the_op_that_it_passes(tmp_path):
    placement = BUILT_IN["lag-overlap"]
    for moved in moves(placement, "decide"):
        names = [str(slot).split("|")[0] for slot in moved.placement.order]
        where, other = moved.where.split(" ")
        step = {"before": 1, "after": -1}[where]
        assert names[names.index("decide") + step] == other.split("|")[0]
    bars = {bar.name: bar for bar in sensitivity(setting(tmp_path), placement, processes=1).bars}
    assert bars["decide"].moved_to.op == "decide"
    assert bars["decide"].moved_to.where.startswith("after launch_")
    assert "loop_gap" not in bars


@pytest.fixture
def pricey(recorded, tmp_path):
    """A profile by whose predictor a row costs so much that every decided step prunes to nothing."""
    profile = load_profile(recorded / "p.json")
    path = tmp_path / "pricey.json"
    save_profile(dataclasses.replace(profile, predictor=LinearPredictor(0.0, 1_000.0, 0.0)), path)
    return path


STUDIES = (
    ("sweep", "--out", "OUT", "--jobs", "1", "--force"),
    ("search", "--lag", "1", "--seeds", "0", "--jobs", "1"),
    ("tornado", "--policy", "lag-overlap", "--jobs", "1"),
    ("break-even", "--decision-us", "0", "--jobs", "1"),
    ("lags",),
)


@pytest.mark.parametrize("command", STUDIES, ids=lambda command: command[0])
def test_studies_take_a_predictor_and_name_it(recorded, pricey, capsys, tmp_path, command):
    name, *options = (str(tmp_path / "s.csv") if part == "OUT" else part for part in command)

    def answer(*chosen):
        found = told(capsys, name, recorded / "lag", "--profile", pricey, *chosen, *options)
        basis = found["basis"]
        return json.dumps(found).replace(json.dumps(basis), ""), basis

    (default, told_default), (profile, told_profile) = answer(), answer("--predictor", "profile")
    assert default == profile
    assert "controller with the profile's predictor of verify time;" in told_default
    assert "controller with the profile's predictor of verify time;" in told_profile
    trace, told_trace = answer("--predictor", "trace")
    assert trace != default
    assert "controller with the trace's predictor" in told_trace
    none, told_none = answer("--predictor", "none")
    assert none != default
    assert "controller without a predictor" in told_none


def test_a_replay_decides_as_the_studies_do(recorded, pricey, capsys, tmp_path):
    """One default for all: with a profile given, its predictor, here unlike the trace's."""
    where = (recorded / "lag", "--profile", pricey)
    figures = {}
    for chosen in ((), ("--predictor", "profile"), ("--predictor", "trace")):
        _, line = told(capsys, "replay", *where, "--policy", "this-step", *chosen)["runs"]
        out = tmp_path / f"{len(figures)}.csv"
        told(capsys, "sweep", *where, "--policy", "this-step", "--jobs", 1, "--out", out, *chosen)
        assert line["steady_tokens_per_s"] == pytest.approx(pl.read_csv(out)["tokens_per_s"].item(), rel=1e-12)
        figures[chosen] = line["steady_tokens_per_s"]
    default, profile, trace = figures.values()
    assert default == profile != trace


def test_a_predictor_without_effect_is_refused(recorded, capsys, tmp_path):
    for command in (("tornado",), ("sweep", "--out", tmp_path / "s.csv", "--baseline", "static")):
        options = ("--policy", "static", "--predictor", "trace", *command[1:])
        assert "--predictor has no effect on static" in failed(capsys, command[0], recorded / "lag", *options)


def test_a_change_given_twice_is_refused(recorded, capsys, tmp_path):
    twice = ("--set", "decide=9us", "--set", "host.decide=0")
    for name, *options in (("replay", "--policy", "lag"), ("sweep", "--out", tmp_path / "s.csv"), ("tornado",)):
        error = failed(capsys, name, recorded / "lag", *options, *twice)
        assert "'host.decide=0' undoes 'decide=9us'; give host.decide one time" in error
    assert not list(tmp_path.iterdir())


def test_lags_warn_of_no_price(recorded, pricey, capsys):
    source = json.loads(pricey.read_text())
    for work in source["decode"]["device"].values():
        work["duration"]["ranges"] = {"batch": [1.0, 1.0]}
    pricey.write_text(json.dumps(source))
    found = told(capsys, "lags", recorded / "lag", "--profile", pricey)
    assert found["warnings"] == []
    assert "no op's cost enters, but the predictor by which the controller prunes does" in found["basis"]


@pytest.mark.parametrize("command", STUDIES[2:], ids=lambda command: command[0])
def test_costs_of_static_alone_are_refused_in_words(recorded, capsys, command):
    error = failed(capsys, command[0], recorded / "static", *command[1:])
    assert "profile static has no cost of a decision, for static never decides" in error
    assert "record a placement that decides (simtool record --policy this-step)" in error


def test_an_op_without_a_price_is_named(recorded, pricey, capsys):
    source = json.loads(pricey.read_text())
    for name in ("fill_varlen", "launch_draft"):
        del source["decode"]["host"][name]
    pricey.write_text(json.dumps(source))
    error = failed(capsys, "tornado", recorded / "lag", "--profile", pricey, "--policy", "lag-overlap")
    assert "profile p has no cost of fill_varlen, launch_draft, which lag-overlap runs" in error


def test_a_tornado_of_static_needs_no_decision(recorded, capsys):
    bars = told(capsys, "tornado", recorded / "static", "--policy", "static", "--jobs", 1)["bars"]
    assert "decide" not in {bar["name"] for bar in bars}


def test_what_the_loop_gap_changes_is_said(recorded, capsys, tmp_path):
    def replayed(*change):
        _, line = told(capsys, "replay", recorded / "lag", "--policy", "lag", *change)["runs"]
        return line

    before, after = replayed(), replayed("--set", "loop_gap=10ms")
    assert after["steady_tokens_per_s"] == before["steady_tokens_per_s"]
    assert after["whole_run_tokens_per_s"] < before["whole_run_tokens_per_s"]
    assert run(["replay", str(recorded / "lag"), "--policy", "lag", "--set", "loop_gap=10ms"]) == 0
    printed = capsys.readouterr().err
    assert "both without the time between steps" in printed
    assert "--set loop_gap changes whole-run tok/s, TPOT and TTFT only" in printed
    assert run(["tornado", str(recorded / "lag"), "--set", "loop_gap=10ms", "--jobs", "1"]) == 0
    printed = capsys.readouterr().err
    assert "without the time between steps" in printed
    assert "warning: loop_gap lies between steps, which no figure here counts" in printed
