"""Equal questions get equal answers, whichever command is asked: replay, compare, report, sweep, advise and why say one
metric, one baseline, one figure, one interval, and the same of it in words and in JSON.
"""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from simtool.cli.main import run
from tests.cli.documents.schemas import checked

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "traces" / "sl7-lag"
COSTS = ("--profile", ROOT / "models" / "profiles" / "measured-sl7.json")
ARMS = ("static", "this-step", "lag", "lag-overlap")
#: What two draws of each placement cover: noise and the fit of the costs, or noise only.
DRAWS = {"draws": (), "seeds": ("--noise-only",)}
SEEDS = ("--seeds", 4)
NEAR = 1e-12


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("truth")


def _asked(*arguments: object) -> Any:
    with redirect_stdout(StringIO()) as printed:
        assert run([*map(str, arguments), "--json"]) in (0, 1)
    return checked(printed.getvalue())


def _said(*arguments: object) -> str:
    with redirect_stdout(StringIO()) as printed:
        assert run(list(map(str, arguments))) in (0, 1)
    return " ".join(printed.getvalue().split())


def _replayed(out: Path, *options: object) -> tuple[dict[str, Any], dict[str, Any], list[Path]]:
    """Of `replay`: each placement's first line, its difference, and where the traces lie."""
    document = _asked("replay", TRACE, *COSTS, "--policy", "all", "--out", out, *options)
    lines: dict[str, Any] = {}
    for line in document["runs"]:
        lines.setdefault(line["placement"], line)
    return lines, {each["other"]: each for each in document["differences"]}, sorted(out.iterdir())


@pytest.fixture(scope="module")
def replayed(folder):
    return _replayed(folder / "replays")


@pytest.fixture(scope="module", params=DRAWS)
def drawn(request, folder):
    """The word, the options, and what `replay` says of four draws."""
    options = (*SEEDS, *DRAWS[request.param])
    return request.param, options, _replayed(folder / request.param, "--noise", "residual", *options)


def test_replay_compare_sweep_and_report_agree(replayed, folder):
    lines, differences, traces = replayed
    assert set(lines) == set(ARMS)
    assert set(differences) == set(ARMS) - {"static"}
    compared = _asked("compare", *traces)
    (group,) = compared["groups"]
    assert group["baseline"] == "static (modeled)"
    assert {each["other"]: each for each in group["comparisons"]} == differences
    table = folder / "sweep.csv"
    sweep = _asked("sweep", TRACE, *COSTS, "--jobs", 1, "--out", table, "--force")
    assert sweep["baseline"] == "static"
    swept = {row["placement"]: row for row in sweep["gains"]}
    kept = {row["placement"]: row for row in pl.read_csv(table).iter_rows(named=True)}
    runs = {run["placement"]: run for run in compared["runs"]}
    for name, found in differences.items():
        assert (found["metric"], found["baseline"], found["over"]) == ("tokens_per_s", "static", "steps")
        steady, whole = (
            lines[name][key] / lines["static"][key] for key in ("steady_tokens_per_s", "whole_run_tokens_per_s")
        )
        assert found["ratio"] == pytest.approx(steady, rel=NEAR)
        assert found["other_ratio"] == pytest.approx(whole, rel=NEAR)
        assert swept[name]["gain_whole_run"] == pytest.approx(whole - 1, abs=NEAR)
        assert swept[name]["gain"] == pytest.approx(found["ratio"] - 1, abs=NEAR)
        assert swept[name]["gain_low"] is None
    for name, line in lines.items():
        assert swept[name]["tokens_per_s"] == pytest.approx(line["steady_tokens_per_s"], rel=NEAR)
        assert kept[name]["tokens_per_s"] == pytest.approx(line["steady_tokens_per_s"], rel=NEAR)
        assert runs[name]["steady_tokens_per_s"] == line["steady_tokens_per_s"]
    page = _asked("report", *traces, "--out", folder / "page.html", "--force")
    assert page["answer"] == [group["headline"]]


def test_over_draws_replay_compare_sweep_advise_and_why_agree(drawn, folder):
    over, options, (_, differences, traces) = drawn
    (group,) = _asked("compare", *traces)["groups"]
    compared = {each["other"]: each for each in group["comparisons"]}
    advised = {each["other"]: each for each in _asked("advise", TRACE, *COSTS, *options)["candidates"]}
    sweep = _asked("sweep", TRACE, *COSTS, *options, "--jobs", 1, "--out", folder / "drawn.csv", "--force")
    swept = {row["placement"]: row for row in sweep["gains"]}
    for name, found in differences.items():
        explained = _asked("why", TRACE, *COSTS, *options, "--policy", name)["difference"]
        for other in (compared[name], advised[name], explained):
            for key in ("metric", "baseline", "over", "resolved", "level", "repetitions"):
                assert other[key] == found[key]
            for key in ("ratio", "low", "high"):
                assert other[key] == pytest.approx(found[key], rel=NEAR)
        assert (found["over"], found["baseline"]) == (over, "static")
        gain, low, high = (swept[name][key] + 1 for key in ("gain", "gain_low", "gain_high"))
        assert (gain, low, high) == pytest.approx((found["ratio"], found["low"], found["high"]), rel=NEAR)


def test_words_and_json_say_the_same(drawn):
    """The sentence of every command is the JSON's verdict, and the word beside its interval the JSON's `over`."""
    over, options, (_, differences, _) = drawn
    best = max(differences.values(), key=lambda each: each["ratio"])
    interval = " to ".join(f"{(best[end] - 1) * 100:+.1f} %" for end in ("low", "high"))
    assert f"{interval} over {over}" in best["verdict"]
    said = _said("replay", TRACE, *COSTS, "--policy", "all", "--noise", "residual", *options)
    assert all(f"modeled: {each['verdict']}" in said for each in differences.values())
    assert f"{interval} over {over}" in _said("advise", TRACE, *COSTS, *options)
    assert f"modeled: {best['verdict']}" in _said("why", TRACE, *COSTS, *options, "--policy", best["other"])


def test_the_verdict_of_replay_is_that_of_compare(replayed):
    _, _, traces = replayed
    printed = _said("replay", TRACE, *COSTS, "--policy", "all")
    (group,) = _asked("compare", *traces)["groups"]
    assert all(f"modeled: {each['verdict']}" in printed for each in group["comparisons"])


def test_one_placement_alone_is_compared_with_the_baseline_as_all_are(replayed):
    _, differences, _ = replayed
    alone = _asked("replay", TRACE, *COSTS, "--policy", "lag")
    assert [line["placement"] for line in alone["runs"]] == ["static", "lag"]
    assert alone["differences"] == [differences["lag"]]


def test_what_if_stands_beside_what_is(replayed):
    """--set gives both columns: the one without is what replay says without it."""
    lines, _, _ = replayed
    found = _asked("replay", TRACE, *COSTS, "--policy", "lag", "--set", "device.target=x0.5")
    without = {line["placement"]: line for line in found["without"]}
    assert without["lag"]["step_ns"] == lines["lag"]["step_ns"]
    changed = {line["placement"]: line for line in found["runs"]}
    what_ifs = {each["baseline"]: each for each in found["what_ifs"]}
    ratio = changed["lag"]["steady_tokens_per_s"] / lines["lag"]["steady_tokens_per_s"]
    assert what_ifs["lag"]["ratio"] == pytest.approx(ratio, rel=NEAR)
    assert ratio > 1.1
    said = _said("replay", TRACE, *COSTS, "--policy", "lag", "--set", "device.target=x0.5")
    assert f"lag with device.target=x0.5: {(ratio - 1) * 100:+.1f} % tokens/s over lag" in said
    row = f"lag {lines['lag']['steady_tokens_per_s']:,.0f} {changed['lag']['steady_tokens_per_s']:,.0f}"
    assert f"{row} {(ratio - 1) * 100:+.1f} %" in said


def test_acceptance_length_is_one_thing_and_emitted_length_another(replayed):
    """Mean a + 1 everywhere; what is really emitted is less, by what the last block of a request loses."""
    lines, _, traces = replayed
    for trace in traces:
        rows = pl.read_parquet(trace / "rows.parquet")
        line = lines[trace.name.removeprefix(f"{TRACE.name}-")]
        assert line["acceptance_length"] == pytest.approx(rows["accepted"].mean() + 1)
        assert line["emitted_length"] == pytest.approx(rows["emitted"].mean())
        assert line["emitted_length"] < line["acceptance_length"]
    found = _asked("lags", TRACE, *COSTS, "--lag", 1)["effects"]
    at_one = next(effect for effect in found if (effect["lag"], effect["kind"]) == (1, "all"))
    assert at_one["acceptance_length"] == pytest.approx(lines["lag-overlap"]["acceptance_length"])
