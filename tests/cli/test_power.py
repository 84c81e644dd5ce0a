"""`simtool power`: repetitions needed, paired and unpaired, at the spread of the traces given."""

import json

import pytest

from simtool.cli.main import run
from tests.synthetic import make_trace


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [
        str(make_trace(folder / f"{name}-{turn}", name, noise_seed=turn, requests=12).path)
        for name in ("static", "lag")
        for turn in range(3)
    ]


def test_more_is_needed_for_less(paths, capsys):
    assert run(["power", *paths, "--difference", "0.2,1,5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (plan,) = found["plans"]
    assert (plan["baseline"], plan["other"], plan["repetitions"]) == ("static", "lag", [3, 3])
    assert [size["difference"] for size in plan["sizes"]] == [0.002, 0.01, 0.05]
    for how in ("paired", "unpaired"):
        needed = [size[how] or 1001 for size in plan["sizes"]]
        assert needed == sorted(needed, reverse=True)
        assert needed[0] > needed[2] >= 2
    assert found["trustworthy"] is True


def test_the_table_says_both_ways(paths, capsys):
    assert run(["power", *paths]) == 0
    printed = capsys.readouterr()
    said = " ".join(printed.out.split())
    assert said.startswith("a difference of 1 % of tokens/s is told 80% of the time by ")
    assert "repetitions of each that tell a difference from static 80% of the time" in said
    assert "placement difference interleaved not" in said
    assert "lag over static: " in printed.err


def test_one_run_each_gives_lower_bounds(tmp_path, capsys):
    pair = [str(make_trace(tmp_path / name, name, requests=30).path) for name in ("static", "lag")]
    assert run(["power", *pair, "--json"]) == 0
    (plan,) = json.loads(capsys.readouterr().out)["plans"]
    assert plan["at_least"] is True
    assert run(["power", *pair]) == 0
    printed = capsys.readouterr()
    assert "told 80% of the time by at least " in printed.out
    assert "the counts are lower bounds" in printed.err


def test_runs_too_short_to_tell_are_refused(tmp_path, capsys):
    pair = [str(make_trace(tmp_path / name, name, requests=4).path) for name in ("static", "lag")]
    assert run(["power", *pair]) == 2
    assert "one run each, too short to tell its spread; give 2 or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("count", "options", "fragment"),
    [
        (1, (), "one placement only; give repetitions of two or more"),
        (6, ("--difference", "1,,2"), "--difference 1,,2: expected percentages"),
        (6, ("--difference", "much"), "--difference much: expected percentages"),
        (6, ("--difference", "0"), "expected percentages from 0.01 to 99"),
        (6, ("--chance", "1"), "--chance is 1.0; expected 0.5 to 0.99"),
        (6, ("--baseline", "best"), "expected a placement among the traces: static, lag"),
    ],
)
def test_bad_use(paths, count, options, fragment, capsys):
    assert run(["power", *paths[:count], *options]) == 2
    assert fragment in capsys.readouterr().err


def test_where_the_batch_was_never_full_it_plans_for_the_whole_run(tmp_path, capsys):
    """As compare judges it: steady tok/s of a batch that never filled says nothing."""
    paths = [str(make_trace(tmp_path / f"{name}-{i}", name, noise_seed=i, requests=2, origin="live").path)
             for name in ("static", "lag") for i in range(3)]  # fmt: skip
    run(["power", *paths])
    assert "whole-run tok/s seen" in capsys.readouterr().err
