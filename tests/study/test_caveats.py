"""What studies say beside their figures: the warnings of a replay, which steps, what the intervals cover."""

import json

import pytest

from simtool.cli.main import run
from simtool.replay.caveats import Caveats, merged
from simtool.step.beyond import Beyond
from tests.study.test_commands import costs, recorded, told

__all__ = ["recorded"]  # the fixture


def test_merged_keeps_the_farthest_and_what_all_share():
    near, far = Beyond("target", "rows", 20, 1, 8), Beyond("target", "rows", 40, 1, 8)
    low = Beyond("target", "kv", 3, 10, 90)
    found = merged([Caveats(("cut",), (near, low), ("a", "decide=0")), Caveats(("cut",), (far,), ("a", "decide=9us"))])
    assert found == Caveats(("cut",), (far, low), ("a",))
    assert found.lines() == [
        "cut",
        "priced beyond the calibrated sizes: target at 40 rows (calibrated 1 to 8); "
        "target at 3 kv (calibrated 10 to 90)",
        "what-if: a",
    ]
    assert merged([]).lines() == []


def test_one_line_says_how_far_costs_were_extrapolated():
    batch, rows = Beyond("decide", "batch", 32, 1, 8), Beyond("target", "validate_rows", 40, 1, 8)
    assert Caveats(beyond=(rows, batch)).short() == [
        "extrapolated: batch 32 is 4 times beyond the largest calibrated (8); 2 ops; record at concurrency 32 and "
        "calibrate on that to mend it"
    ]
    (kv,) = Caveats(beyond=(Beyond("draft", "draft_kv", 50, 60, 90),)).short()
    assert kv.startswith("extrapolated: draft at draft kv 50 is 1.2 times beyond the smallest calibrated (60); 1 op;")
    assert Caveats(("cut",), (), ("a",)).short() == ["cut", "what-if: a"]


@pytest.fixture
def narrow(recorded, tmp_path):
    """A profile calibrated on batches of one, so that two at once are beyond it."""
    source = json.loads((recorded / "p.json").read_text())
    for work in source["decode"]["device"].values():
        work["duration"]["ranges"] = {"batch": [1.0, 1.0]}
    path = tmp_path / "narrow.json"
    path.write_text(json.dumps(source))
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "--out", "OUT"),
        ("search", "--lag", "1", "--seeds", "0"),
        ("tornado", "--policy", "lag-overlap"),
        ("break-even", "--decision-us", "0,5"),
    ],
)
def test_studies_warn_in_the_words_of_a_replay(recorded, narrow, capsys, tmp_path, command):
    here = (recorded / "lag", "--profile", narrow, "--set", "finish=2us")
    capsys.readouterr()
    assert run([str(part) for part in ("replay", *here, "--policy", "lag-overlap", "--verbose")]) == 0
    printed = capsys.readouterr().err.splitlines()
    (beyond,) = (line.partition(": lag-overlap: ")[2] for line in printed if ": lag-overlap: priced beyond" in line)
    name, *options = (str(tmp_path / "s.csv") if part == "OUT" else part for part in command)
    changed = ("--set", "finish=2us") if name in ("sweep", "tornado") else ()
    assert (
        run([name, str(recorded / "lag"), "--profile", str(narrow), *changed, *options, "--jobs", "1", "--verbose"])
        == 0
    )
    warned = "\n".join(line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: "))
    assert "priced beyond the calibrated sizes: " in warned
    assert all(part in warned for part in beyond.removeprefix("priced beyond the calibrated sizes: ").split("; "))
    assert ("what-if: finish=2us" in warned) == bool(changed)
    assert "what-if: decide" not in warned


def test_a_sweep_without_noise_is_the_replay_s_steady_throughput(recorded, capsys, tmp_path):
    swept = told(capsys, "sweep", *costs(recorded), "--policy", "this-step", "--jobs", 1, "--out", tmp_path / "s.csv")
    _, line = told(capsys, "replay", *costs(recorded), "--policy", "this-step", "--predictor", "profile")["runs"]
    assert swept["gains"][0]["tokens_per_s"] == pytest.approx(line["steady_tokens_per_s"])
    assert "decode steps at the full batch" in swept["basis"]


def test_intervals_say_what_they_cover(recorded, capsys, tmp_path):
    out = ("--policy", "this-step", "--policy", "lag", "--jobs", 1, "--out", tmp_path / "s.csv", "--force")
    both = told(capsys, "sweep", *costs(recorded), "--seeds", 3, *out)
    noise = told(capsys, "sweep", *costs(recorded), "--seeds", 3, "--noise-only", *out)
    assert "the error of the fit (3 draws" in both["basis"]
    assert "noise only (3 seeds), not the error of the fit: --noise-only" in noise["basis"]
    _, lag = both["gains"]
    assert lag["gain_low"] <= lag["gain"] <= lag["gain_high"]
    assert run(["sweep", *map(str, costs(recorded)), "--seeds", "40", *map(str, out)]) == 2
    assert "expected at most as many seeds, or --noise-only" in capsys.readouterr().err


def test_a_terminal_gets_one_line_unless_it_asks_for_all(recorded, narrow, capsys):
    here = [str(recorded / "lag"), "--profile", str(narrow), "--policy", "static", "--policy", "lag"]
    assert run(["replay", *here]) == 0
    (line,) = (line for line in capsys.readouterr().err.splitlines() if "extrapolated" in line)
    assert line.startswith("warning: extrapolated: batch 2 is 2 times beyond the largest calibrated (1);")
    assert line.endswith("(--verbose lists them)")
