"""Equal questions get equal figures, whichever command is asked: replay, compare, sweep and report on one trace."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simtool.cli.main import run

TRACE = Path(__file__).parents[2] / "traces" / "sl7-lag"
ARMS = ("static", "this-step", "lag", "lag-overlap")
NEAR = 1e-12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("truth")


def _asked(capsys, *arguments: object) -> Any:
    capsys.readouterr()
    assert run([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def replayed(folder):
    """Each placement's line of `replay`, and where its trace lies."""
    out = folder / "replays"
    with redirect_stdout(StringIO()) as printed:
        assert run(["replay", str(TRACE), "--policy", "all", "--out", str(out), "--json"]) == 0
    lines = json.loads(printed.getvalue())
    return {line["placement"]: line for line in lines}, [out / f"{TRACE.name}-{name}" for name in ARMS]


def test_replay_compare_sweep_and_report_agree(replayed, folder, capsys):
    lines, traces = replayed
    assert set(lines) == set(ARMS)
    assert lines["static"]["difference"] is None
    (group,) = _asked(capsys, "compare", *traces)["groups"]
    assert group["baseline"] == "static (modeled)"
    table = folder / "sweep.csv"
    swept = {row["placement"]: row for row in _asked(capsys, "sweep", TRACE, "--jobs", 1, "--out", table, "--force")}
    kept = {row["placement"]: row for row in pl.read_csv(table).iter_rows(named=True)}
    for compared in group["comparisons"]:
        name = compared["other"]
        assert lines[name]["difference"] == compared
        assert compared["metric"] == "tokens_per_s"
        steady = lines[name]["steady_tokens_per_s"] / lines["static"]["steady_tokens_per_s"]
        whole = lines[name]["whole_run_tokens_per_s"] / lines["static"]["whole_run_tokens_per_s"]
        assert compared["ratio"] == pytest.approx(steady, rel=NEAR)
        assert compared["other_ratio"] == pytest.approx(whole, rel=NEAR)
        assert swept[name]["gain_whole_run"] == pytest.approx(whole - 1, abs=1e-12)
        assert swept[name]["gain"] == pytest.approx(compared["ratio"] - 1, abs=1e-12)
    for name, line in lines.items():
        assert swept[name]["tokens_per_s"] == pytest.approx(line["steady_tokens_per_s"], rel=NEAR)
        assert kept[name]["tokens_per_s"] == pytest.approx(line["steady_tokens_per_s"], rel=NEAR)
    page = _asked(capsys, "report", *traces, "--out", folder / "page.html", "--force")
    assert page["answer"] == [group["headline"]]


def test_the_verdict_of_replay_is_that_of_compare(replayed, capsys):
    _, traces = replayed
    capsys.readouterr()
    assert run(["replay", str(TRACE), "--policy", "all"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    (group,) = _asked(capsys, "compare", *traces)["groups"]
    assert all(f"modeled: {each['verdict']}" in printed for each in group["comparisons"])


def test_acceptance_length_is_one_thing_and_emitted_length_another(replayed, folder, capsys):
    """Mean a + 1 everywhere; what is really emitted is less, by what the last block of a request loses."""
    lines, traces = replayed
    for name, trace in zip(ARMS, traces, strict=True):
        rows = pl.read_parquet(trace / "rows.parquet")
        assert lines[name]["accept_length"] == pytest.approx(rows["accepted"].mean() + 1)
        assert lines[name]["emitted_length"] == pytest.approx(rows["emitted"].mean())
        assert lines[name]["emitted_length"] < lines[name]["accept_length"]
    found = _asked(capsys, "lags", TRACE, "--lag", 1)["effects"]
    at_one = next(effect for effect in found if (effect["lag"], effect["kind"]) == (1, "all"))
    assert at_one["acceptance_length"] == pytest.approx(lines["lag-overlap"]["accept_length"])
