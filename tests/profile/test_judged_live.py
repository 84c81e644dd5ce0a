"""What verdicts say of errors judged live is what the pages say."""

import json

import pytest

from benchmarks.fidelity import known, pages
from benchmarks.fidelity.across import Question, Runs
from benchmarks.fidelity.settings import ARMS, ROOT, Setting
from simtool.profile.judged_live import PAGE, judged_live, judged_setting, stretch_error
from simtool.trace.trace import open_trace


@pytest.mark.parametrize(
    "setting", judged_live().settings, ids=lambda each: f"{each.page} {each.sl} {each.concurrency}"
)
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
    told = known.updated(
        before, [(Setting("dspark", 7, 32, True), document), (Setting("dspark", 7, 8, False), {})], rows
    )
    mine = {key: [each for each in told[key] if each["page"] == PAGE] for key in told}
    (setting,), (stretch,) = mine["settings"], mine["stretches"]
    assert setting["arms"] == [{"placement": "lag", "replayed": 0.02, "live": 0.05, "half": 0.02}]
    assert (setting["models"], setting["device_name"]) == ({"target": "t", "draft": "d"}, "here")
    assert (stretch["fitted"], stretch["judged"], stretch["mean"], stretch["worst"]) == (8, 32, 0.04, 0.06)
    for key, kept in before.items():
        assert [each for each in told[key] if each["page"] != PAGE] == [each for each in kept if each["page"] != PAGE]


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
    found = judged_setting(manifest.algorithm, manifest.sl, manifest.concurrency, manifest.models, manifest.device_name)
    assert found in judged_live().settings
    assert {each.placement for each in found.arms} >= {"this-step", "lag", "lag-overlap"}
    assert found.worst_off == max(abs(each.replayed - each.live) for each in found.arms)
    other = {role: {**model, "sha256": "0" * 64} for role, model in manifest.models.items()}
    assert judged_setting(manifest.algorithm, manifest.sl, manifest.concurrency, other, manifest.device_name) is None
    assert judged_setting(manifest.algorithm, manifest.sl, 3, manifest.models, manifest.device_name) is None
    assert judged_setting(manifest.algorithm, manifest.sl, manifest.concurrency, manifest.models, "another") is None


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
