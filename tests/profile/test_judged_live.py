"""What verdicts say of errors judged live is what the pages say."""

import json

from benchmarks.fidelity import known
from benchmarks.fidelity.settings import ROOT
from simtool.profile.judged_live import judged_live, judged_setting, stretch_error
from simtool.trace.trace import open_trace


def test_the_file_says_what_the_pages_say():
    assert json.loads(known.FILE.read_text()) == known.told()


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
