"""Equal questions get equal answers, whichever command is asked: replay, compare, report, sweep, advise, why, what-if,
tornado, answers and validate say one metric, one baseline, one figure, one interval, and the same of it in words and in
JSON.
"""

from __future__ import annotations

import json
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from xllm_2280.regions import regions

from simtool.analysis.fidelity.fidelity import judge
from simtool.cli.main import run
from simtool.profile.storage import load_profile
from simtool.step.placement import BUILT_IN
from simtool.study.settings import settings_of
from simtool.trace.trace import open_trace
from simtool.units import format_ns
from tests.cli.documents.schemas import checked
from tests.synthetic import make_trace

ROOT = Path(__file__).parents[2]
TRACE = ROOT / "traces" / "sl7-lag"
SL7_SAMPLED = ROOT / "traces" / "sl7-t0.6-c32-static"
SL16 = ROOT / "traces" / "sl16-lag"
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
    advised = {each["other"]: each for each in _asked("advise", TRACE, *COSTS, *options)["modeled"]}
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
    advised = _said("advise", TRACE, *COSTS, *options)
    assert f"95 % over {over}" in advised
    assert interval in advised  # beside the live figure, which leads
    assert f"modeled: {best['verdict']}" in _said("why", TRACE, *COSTS, *options, "--policy", best["other"])


def test_live_runs_of_the_same_question_lead_every_verdict(folder):
    """At SL 16 and 8 at once this-step loses live and gains in replays: every command says the live figure first."""
    at = (SL16, "--profile", ROOT / "models" / "profiles" / "measured-sl16.json", "--concurrency", 8)
    out = ("--jobs", 1, "--out", folder / "live.csv", "--force")
    advised = {each["other"]: each for each in _asked("advise", *at)["candidates"]}
    assert advised["this-step"]["ratio"] < 1 < _asked("sweep", *at, *out)["gains"][1]["gain"] + 1
    known = {
        "sweep": [row["live"] for row in _asked("sweep", *at, *out)["gains"] if row["live"]],
        "replay": _asked("replay", *at, "--policy", "all")["live"],
        "search": _asked("search", *at)["searched"][0]["live"],
        "why": _asked("why", *at)["live"] + _asked("why", *at, "--policy", "this-step")["live"],
        "break-even": _asked("break-even", *at)["live"]["8"],
    }
    for command, live in known.items():
        assert live, command
        assert all(each == advised[each["other"]] for each in live), command
    words = f"this-step {(advised['this-step']['ratio'] - 1) * 100:+.1f} "
    opened: tuple[tuple[object, ...], ...] = (
        ("sweep", *at, *out),
        ("replay", *at, "--policy", "all"),
        ("search", *at),
        ("why", *at, "--policy", "this-step"),
    )
    for asked in opened:
        said = _said(*asked)
        assert said.startswith("live, docs/fidelity-xeon.md: against static "), asked
        first = said.partition("; modeled")[0]
        assert words in first, asked
        assert first.endswith("and replays say otherwise: go by the live figures"), asked
    assert words in _said("break-even", *at).partition("; modeled")[0]
    assert "under static (the fastest live, docs/fidelity-xeon.md" in _said("tornado", *at)
    changed = _said("why", *at, "--set", "decide=0")
    assert changed.startswith("modeled"), "nobody ran those costs live"


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


def test_what_if_opens_with_the_figure_of_replay(folder):
    """The page's first line: the same ratio and the same ends, of draws."""
    _, differences, _ = _replayed(folder / "what-if", "--noise", "residual", *SEEDS)
    found = differences["lag"]
    options = ("--policy", "lag", "--concurrency", 8, "--out", folder / "what-if.html")
    said = _asked("what-if", TRACE, *COSTS, *SEEDS, *options)["answer"]
    more = "more" if found["ratio"] > 1 else "fewer"
    ends = sorted(abs(found[end] - 1) * 100 for end in ("low", "high"))
    assert f"{abs(found['ratio'] - 1) * 100:.1f} % {more} tokens/s than static" in said
    assert said.endswith(f"({ends[0]:.1f} to {ends[1]:.1f})")


def test_tornado_why_and_sweep_have_one_step_and_replay_the_other(replayed, folder):
    """Of full batches in the studies, of all decode steps in replay; why prints both, to reconcile them."""
    lines, _, _ = replayed
    swept = {
        row["placement"]: row
        for row in _asked("sweep", TRACE, *COSTS, "--jobs", 1, "--out", folder / "steps.csv", "--force")["gains"]
    }
    explained = _asked("why", TRACE, *COSTS, "--policy", "lag")
    for name, step in (("static", explained["before"]), ("lag", explained["after"])):
        assert step["full_ns"] == pytest.approx(swept[name]["step_ns"], rel=NEAR)
        assert step["every_ns"] == pytest.approx(lines[name]["step_ns"], rel=NEAR)
    said = _said("why", TRACE, *COSTS, "--policy", "lag")
    assert all(format_ns(step[key]) in said for step in (explained["before"], explained["after"]) for key in step)
    found = _asked("tornado", TRACE, *COSTS, "--policy", "lag")
    assert found["step_ns"] == pytest.approx(swept["lag"]["step_ns"], rel=NEAR)
    fastest = _asked("tornado", TRACE, *COSTS)
    assert fastest["placement"] == max(swept.values(), key=lambda row: row["tokens_per_s"])["placement"]


def test_an_op_takes_the_same_whoever_is_asked():
    """Its own time in the mean full-batch step, waits left out: in tornado, on why's path, and as the draft's time."""
    explained = _asked("why", TRACE, *COSTS, "--policy", "this-step")
    advised = _asked("advise", TRACE, *COSTS, *SEEDS, "--policy", "this-step")
    for name, key in (("static", "before_ns"), ("this-step", "after_ns")):
        found = _asked("tornado", TRACE, *COSTS, "--policy", name)
        own = {(bar["name"], bar["stream"]): bar["own_ns"] for bar in found["bars"]}
        on_path = {(each["op"], each["lane"]): each[key] for each in explained["path"] if each["lane"]}
        assert {op for op, lane in on_path if lane == "compute"} >= {"target", "verify"}
        for (op, lane), path_ns in on_path.items():
            if lane == "compute":  # one after the other, and nothing beside them is longer
                assert path_ns == pytest.approx(own.get((op, lane), 0.0), rel=NEAR)
            assert path_ns <= own.get((op, lane), 0.0) * (1 + NEAR)
        assert sum(on_path.values()) < found["step_ns"]
    draft_ms = own["draft", "compute"] / 1e6
    assert found["draft_told"]["draft_ms"] == pytest.approx(draft_ms, rel=NEAR)
    today = {turn["axis"]: turn["today"] for turn in advised["turns"]}
    assert today["draft"] == pytest.approx(own["draft", "compute"], rel=NEAR)
    assert today["decide"] == pytest.approx(own["decide", "host"], rel=NEAR)
    told = next(each for each in found["levers"] if each["kind"] == "told")
    assert f"--draft-ms {draft_ms:.3g}" in told["options"]


def test_a_lever_of_tornado_is_worth_what_replay_says_of_it():
    """Every lever names the options of `replay` that try it on; what those give is what was promised."""
    found = _asked("tornado", TRACE, *COSTS, "--policy", "this-step")
    target = next(each for each in found["levers"] if "device.target=" in each["options"])
    (what_if,) = (
        each
        for each in _asked("replay", TRACE, *COSTS, *target["options"].split())["what_ifs"]
        if each["baseline"] == "this-step"
    )
    assert what_if["ratio"] - 1 == pytest.approx(target["gain"], rel=1e-9)


def test_a_controller_told_is_worth_the_same_to_tornado_advise_and_replay():
    """Over itself untold and over static, both by 8 draws; over static on the live difference where that is known."""
    draws = ("--noise", "residual", "--seeds", 8)
    found = _asked("tornado", TRACE, *COSTS, "--policy", "static")["draft_told"]
    assert (found["placement"], found["over_static"]["over"]) == ("this-step", "draws")
    assert found["worth"] == found["over_static"]
    option = ("--draft-ms", found["draft_ms"])
    advised = _asked("advise", TRACE, *COSTS, "--policy", "this-step")
    (change,) = (each for each in advised["changes"] if each["lever"] == "draft_ms")
    assert change["placement"] == change["worth"]["baseline"] == "this-step"
    assert change["worth"]["ratio"] == pytest.approx(found["over_untold"]["ratio"], rel=NEAR)
    assert advised["draft_told"]["gain"] == pytest.approx(found["gain"], rel=NEAR)
    assert advised["draft_told"]["origin"] == "live"
    assert found["gain"] == pytest.approx(found["live"]["ratio"] * found["over_untold"]["ratio"] - 1, rel=NEAR)
    asked = {
        "replay": _asked("replay", TRACE, *COSTS, *draws, "--policy", "this-step", *option)["differences"][0],
        "why": _asked("why", TRACE, *COSTS, "--policy", "this-step", *option)["difference"],
        "advise": _asked("advise", TRACE, *COSTS, "--policy", "this-step", *option)["modeled"][0],
    }
    for command, difference in asked.items():
        for key in ("ratio", "low", "high"):
            assert difference[key] == pytest.approx(found["over_static"][key], rel=NEAR), command
    said = f"told that a draft takes {found['draft_ms']:g} ms"
    with redirect_stderr(StringIO()) as noted:
        _said("why", TRACE, *COSTS, "--policy", "this-step", *option)
    assert said in " ".join(noted.getvalue().split())
    assert _asked("tornado", TRACE, *COSTS, "--policy", "this-step", *option)["draft_told"] is None


def test_answers_regions_are_sweeps():
    """A cell of docs/answers.md is a point of a sweep: the same draws, waves and ratio."""
    source, costs = open_trace(TRACE), load_profile(COSTS[1])
    (setting,) = settings_of(source, costs, [8], 2, seeds=4)
    arms = [BUILT_IN[name] for name in ARMS]
    (region,) = regions([setting], arms, processes=1)
    options = ("--waves", 2, *SEEDS, "--concurrency", 8)
    explained = _asked("why", TRACE, *COSTS, *options, "--baseline", "this-step", "--policy", region.winner)
    for key, value in (("ratio", region.gain.ratio), ("low", region.gain.found.low), ("high", region.gain.found.high)):
        assert explained["difference"][key] == pytest.approx(value, rel=NEAR)


def test_validate_measures_what_compare_does(tmp_path):
    live = {
        name: [make_trace(tmp_path / f"{name}-{turn}", name, noise_seed=turn, requests=18) for turn in range(3)]
        for name in ("static", "lag")
    }
    replayed = {name: make_trace(tmp_path / name, name, origin="replayed", requests=18) for name in live}
    (pair,) = judge(live, replayed, {}).pairs
    (group,) = _asked("compare", *(trace.path for traces in live.values() for trace in traces))["groups"]
    (found,) = group["comparisons"]
    assert (pair.baseline, pair.other, pair.metric) == (found["baseline"], found["other"], found["metric"])
    for key, value in (("ratio", pair.live.mean), ("low", pair.live.low), ("high", pair.live.high)):
        assert found[key] == pytest.approx(value, rel=NEAR)


def test_beyond_the_calibrated_sizes_every_command_says_so_first(folder):
    """At 128 at once, four times what these costs were fitted on: direction only, in the sentence itself."""
    at = ("--concurrency", 128, "--waves", 1)
    said = "extrapolated beyond batch 32"
    draws = ("--seeds", 3)
    assert said in _said("why", TRACE, *COSTS, *at, *draws).split(" because ")[0]
    assert said in _said("tornado", TRACE, *COSTS, *at, "--policy", "static").split(" how: ")[0]
    assert said in _asked("advise", TRACE, *COSTS, *at, *draws, "--policy", "lag")["answer"]
    assert said in _asked("sweep", TRACE, *COSTS, *at, "--jobs", 1, "--out", folder / "far.csv")["answer"]
    assert (
        said in _asked("what-if", TRACE, *COSTS, *at, *draws, "--policy", "lag", "--out", folder / "far.html")["answer"]
    )
    source, costs = open_trace(TRACE), load_profile(COSTS[1])
    settings = settings_of(source, costs, [8, 128], 1, seeds=3)
    near, far = regions(settings, [BUILT_IN[name] for name in ARMS], processes=1)
    assert near.lead.extrapolation is None
    assert said in str(far.lead.extrapolation)


def test_replay_and_its_saved_traces_say_so_too(folder, narrow):
    """The manifest carries it on, so that compare and report say it of traces that were written before."""
    out = folder / "narrow"
    at = (TRACE, "--profile", narrow, "--policy", "lag", "--out", out)
    (found,) = _asked("replay", *at)["differences"]
    assert "extrapolated beyond batch 2" in found["verdict"]
    assert found["extrapolated"] in found["verdict"] or not found["resolved"]
    _asked("replay", TRACE, "--profile", narrow, "--policy", "static", "--out", out)
    (group,) = _asked("compare", *sorted(out.iterdir()))["groups"]
    assert group["comparisons"] == [found]
    page = _asked("report", *sorted(out.iterdir()), "--out", folder / "narrow.html")
    assert page["answer"] == [group["headline"]]
    assert "extrapolated beyond batch 2" in group["headline"]


@pytest.fixture(scope="module")
def narrow(folder):
    """The shipped costs, as if fitted on batches of two at most."""
    costs = json.loads(COSTS[1].read_text())
    for kind in ("host", "device"):
        for work in costs["decode"][kind].values():
            for part in work.values():
                if isinstance(part, dict) and "batch" in part.get("ranges", {}):
                    part["ranges"]["batch"] = [1.0, 2.0]
    path = folder / "narrow.json"
    path.write_text(json.dumps(costs))
    return path


def test_a_loss_that_is_none_is_called_a_gain():
    """`lags`: negative losses are gains, in the same words and figures as the JSON's."""
    found = _asked("lags", SL7_SAMPLED, *COSTS, "--lag", "1")["effects"]
    (loss,) = (each["loss"]["mean"] for each in found if (each["lag"], each["kind"]) == (1, "all"))
    said = _said("lags", SL7_SAMPLED, *COSTS, "--lag", "1")
    assert f"an older confidence {'gains' if loss < 0 else 'costs'} {abs(loss):.1%} at lag 1" in said


def test_a_full_batch_of_first_steps_says_so():
    """64 prompts at 64 at once: each slot serves one, and no step of the full batch comes after another request."""
    long = ("--profile", COSTS[1], "--concurrency", 64, "--seeds", 0)
    with redirect_stderr(StringIO()) as noted:
        _said("why", ROOT / "traces" / "sl7-c32-static", *long)
    assert "each slot serves 1.0 requests, so the full batch is that of their first steps" in noted.getvalue()
    again = _asked("why", ROOT / "traces" / "sl7-c32-static", *long, "--waves", 2)
    assert "each slot serves" not in again["basis"]


def test_what_is_set_is_said_in_every_verdict_of_it():
    said = _said("replay", TRACE, *COSTS, "--policy", "lag", "--set", "device.target=x0.5")
    assert "modeled, with device.target=x0.5: lag gives" in said or "with device.target=x0.5: cannot tell lag" in said


def test_no_repetitions_are_promised_where_they_would_settle_nothing():
    """One live run of each: an interval that leaves out 0 and is not believed needs no count."""
    compared = _asked("compare", ROOT / "traces" / "sl7-static", ROOT / "traces" / "sl7-lag")["groups"][0]
    for each in compared["comparisons"]:
        clear = each["low"] is not None and not each["low"] <= 1 <= each["high"]
        assert not each["resolved"]
        assert (each["needed"] is None) or not clear


def test_a_check_mark_is_for_figures_that_are_not_extrapolated():
    at = ("--concurrency", 64, "--waves", 2)
    assert "\N{CHECK MARK}" not in _said("advise", TRACE, *COSTS, *at)
    assert "\N{CHECK MARK}" in _said("advise", TRACE, *COSTS)


def test_turns_that_the_terminal_withholds_are_not_in_the_document():
    costs = ("--profile", ROOT / "models" / "profiles" / "measured-sl16.json")
    found = _asked("advise", SL16, *costs)
    assert found["turns"] == []
    assert found["turns_withheld"] in _said("advise", SL16, *costs)
    told = next(each for each in _asked("advise", TRACE, *COSTS)["changes"] if each["lever"] == "free_op")
    assert told["worth"]["other"] == f"{told['placement']}, {told['subject']} taking no time"


def test_a_loss_that_steps_cannot_tell_names_what_would_and_that_tells_it():
    """Steps that all are alike have no interval; draws of noise do, and a loss of more than half is no doubt."""
    asked = ("replay", TRACE, *COSTS, "--policy", "this-step", "--min-gain", 0.99)
    said = _said(*asked)
    assert "draws of noise would tell: simtool replay --noise residual --seeds 8" in said
    (found,) = _asked(*asked, "--noise", "residual", "--seeds", 8)["differences"]
    assert found["resolved"]
    assert found["high"] < 0.5
