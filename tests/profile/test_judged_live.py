"""What verdicts say of errors judged live is what the pages say."""

import json
import re

import pytest

from benchmarks.fidelity import known, pages, told
from benchmarks.fidelity.across import Question, Runs
from benchmarks.fidelity.settings import ARMS, ROOT, Setting
from simtool.profile.judged_live import PAGE, judged_live, judged_settings, stretch_error
from simtool.profile.storage import load_profile
from simtool.trace.trace import open_trace


def _ids(setting):
    draft_ms = setting.told.draft_ms if setting.told else ""
    return f"{setting.page} {setting.algorithm} {setting.sl} {setting.concurrency} {draft_ms}"


@pytest.mark.parametrize("setting", [each for each in judged_live().settings if each.told is None], ids=_ids)
def test_the_page_says_what_the_file_says(setting):
    place = f"| {setting.algorithm} | {setting.sl} | {setting.concurrency} | "
    cells = [known.cell(arm.replayed, arm.live, arm.half) for arm in setting.arms]
    rows = [line for line in (ROOT / setting.page).read_text().splitlines() if line.startswith(place)]
    assert [each.strip(" !") for each in rows[1].removeprefix(place).rstrip(" |").split("|")] == cells


def test_new_runs_replace_their_page_and_no_other():
    pair = {"baseline": "static", "predicted": 1.02, "measured": 1.05, "low": 1.03, "high": 1.07}
    about = {"models": {"target": {"sha256": "t"}, "draft": {"sha256": "d"}}, "device_name": "here"}
    document = {
        "setting": about,
        "repetitions": 5,
        "pairs": [{**pair, "other": "lag"}, {**pair, "baseline": "lag", "other": "static"}],
    }
    row = {"judged": "time-dspark-sl7-c32", "arm": "lag", "fitted": 8, "over_static": 1.1, "live_over_static": 1.04}
    rows = [row, {**row, "over_static": 1.02}, {**row, "fitted": None}, {**row, "arm": "static"}]
    before = json.loads(known.FILE.read_text())
    found = [(Setting("dspark", 7, 32, True), document), (Setting("dspark", 7, 8, False), {})]
    fresh = {"settings": list(known.settings(found)), "stretches": list(known.stretches(rows))}
    after = known.updated(before, PAGE, fresh)
    mine = {key: [each for each in after[key] if each["page"] == PAGE] for key in after}
    (setting,), (stretch,) = mine["settings"], mine["stretches"]
    assert setting["arms"] == [{"placement": "lag", "replayed": 0.02, "live": 0.05, "half": 0.02}]
    assert (setting["models"], setting["device_name"]) == ({"target": "t", "draft": "d"}, "here")
    assert (stretch["fitted"], stretch["judged"], stretch["mean"], stretch["worst"]) == (8, 32, 0.04, 0.06)
    for key, kept in before.items():
        assert [each for each in after[key] if each["page"] != PAGE] == [each for each in kept if each["page"] != PAGE]


def test_a_concurrency_is_known_of_costs_that_differ_in_it_alone():
    judged, other = "time-dspark-sl7-c32", Runs("time-dspark-sl7-c8")
    assert Question("", judged, (other,)).fitted_at == 8
    for fitted in (
        (),
        (Runs(judged),),
        (other, Runs(judged)),
        (Runs("time-dspark-sl16-c8"),),
        (Runs(other.setting, ("static",)),),
    ):
        assert Question("", judged, fitted).fitted_at is None


def test_a_setting_is_found_by_its_very_models():
    manifest = open_trace(ROOT / "traces" / "sl16-lag").manifest
    known_here = judged_settings(manifest.algorithm, manifest.sl, manifest.concurrency, manifest.models)
    found = next(each for each in known_here if (each.device_name, each.told) == (manifest.device_name, None))
    assert {each.placement for each in found.arms} >= {"this-step", "lag", "lag-overlap"}
    assert found.worst_off == max(abs(each.replayed - each.live) for each in found.arms)
    other = {role: {**model, "sha256": "0" * 64} for role, model in manifest.models.items()}
    assert judged_settings(manifest.algorithm, manifest.sl, manifest.concurrency, other) == []
    assert judged_settings(manifest.algorithm, manifest.sl, 3, manifest.models) == []


def test_the_page_on_statistics_says_the_same_of_stretched_costs():
    worst = [f"{stretch_error(times, above=True).worst * 100:.1f}" for times in (2.0, 4.0, 8.0)]
    told = "stretched twice were up to {} points off in a difference to static, four times {}, eight times {}."
    page = " ".join((ROOT / "docs" / "statistics.md").read_text().split())
    assert told.format(*worst) in page


def test_the_page_is_written_from_the_same_cells():
    pair = {"baseline": "static", "predicted": 1.02, "measured": 1.05, "low": 1.03, "high": 1.07}
    pair |= {"predicted_low": 1.01, "predicted_high": 1.03}
    document = {"pairs": [{**pair, "other": arm} for arm in ARMS if arm != "static"]}
    lines = list(pages._over_static([(Setting("dspark", 7, 32, True), document)]))
    assert lines[4].count(" | ".join(["+2.0 (+5.0 ± 2.0) !"] * 5)) == 1
    row = {"judged": "time-dspark-sl7-c32", "arm": "lag", "says": "fitted at concurrency 8", "same_setting": False}
    row |= {"step_ns": 1.1, "live_step_ns": 1.0, "over_static": 1.1, "live_over_static": 1.04}
    assert any("+6.0% (lag, dspark SL 7)" in line for line in pages._across([row]))
    assert any("off by 6.0% in the median" in line for line in pages._summary([], [], [row]))


@pytest.mark.parametrize("setting", [each for each in judged_live().settings if each.told is not None], ids=_ids)
def test_the_page_on_policies_says_what_the_file_says_of_controllers_that_were_told(setting):
    head = told.head(
        {"sl": setting.sl, "concurrency": setting.concurrency, "told": {"draft_ms": setting.told.draft_ms}}
    )
    made = (ROOT / setting.page).read_text().partition(told.BEGIN)[2].partition(told.END)[0]
    (table,) = (part for part in made.split("\n\n") if part.startswith("| order") and f"| {head} |" in part)
    lines = [[cell.strip(" `*") for cell in line.strip("|").split("|")] for line in table.splitlines()]
    said = {line[0]: line[lines[0].index(head)] for line in lines[2:]}
    assert said == {arm.placement: told.cell(vars(arm)) for arm in setting.arms} | {
        "repetitions": str(setting.repetitions)
    }
    profile = load_profile(ROOT / "models" / "profiles" / f"{setting.told.costs_of}.json")
    assert dict(setting.told.predictor) == vars(profile.predictor)


def test_what_is_known_of_told_controllers_is_made_of_the_runs_that_are_kept():
    kept = json.loads(told.KEPT.read_text())
    made = [setting for each in kept if (setting := told.setting(each)) is not None]
    known_now = json.loads(known.FILE.read_text())["settings"]
    assert made == [each for each in known_now if each["page"] == told.PAGE]


def test_a_repetition_on_a_busy_machine_is_left_out():
    speeds = {"static": [100.0] * 5, "lag": [110.0, 110.0, 121.0, 110.0, 55.0]}
    quiet = {"tokens_per_s": speeds, "others_share": [0.0, 0.01, 0.03, 0.02, 0.5]}
    load = {"algorithm": "dspark", "sl": 7, "concurrency": 8, "models": {}, "device_name": "here", "told": {}}
    load |= {"replayed": {"lag": 0.1}, "sittings": [quiet]}
    found = told.setting(load)
    assert found["repetitions"] == 4
    assert found["arms"][0]["live"] == pytest.approx((1.1**3 * 1.21) ** 0.25 - 1, abs=1e-6)
    assert told.setting(load | {"sittings": [quiet | {"others_share": [0.0, 0.01, 0.04, 0.05, 0.5]}]}) is None


#: Row of the README's table -> the placement, the page that times it, and whether it is told what a draft costs.
README_ROWS = {
    "this-step, as xLLM has it: verify timed at start": ("this-step", PAGE, False),
    "lag-overlap, the same": ("lag-overlap", PAGE, False),
    "this-step, given another machine's verify costs": ("this-step", told.PAGE, False),
    "lag-overlap, given another machine's verify costs": ("lag-overlap", told.PAGE, False),
    "this-step, told what a draft costs too": ("this-step", told.PAGE, True),
    "lag-overlap, told what a draft costs too": ("lag-overlap", told.PAGE, True),
    "**lag-overlap-late@forecast**": ("lag-overlap-late@forecast", told.PAGE, False),
}


@pytest.mark.parametrize("row", README_ROWS)
def test_the_readme_says_what_the_file_says(row):
    placement, page, draft = README_ROWS[row]
    (line,) = (each for each in (ROOT / "README.md").read_text().splitlines() if each.startswith(f"| {row} |"))
    cells = [re.sub(r"\]\(.*\)", "", cell).strip(" *[") for cell in line.split("|")[2:-1]]
    for cell, (sl, concurrency) in zip(cells, ((7, 8), (7, 32), (16, 8), (16, 32)), strict=True):
        arms = [
            arm
            for each in judged_live().settings
            if (each.page, each.algorithm, each.sl, each.concurrency) == (page, "dspark", sl, concurrency)
            if bool(each.told and each.told.draft_ms) == draft
            for arm in each.arms
            if arm.placement == placement
        ]
        assert cell == ("".join(f"{arm.live * 100:+.1f} ± {arm.half * 100:.1f}" for arm in arms) or "-")
