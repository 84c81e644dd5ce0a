"""What verdicts say of errors judged live is what the page says."""

import json

from benchmarks.fidelity import known
from benchmarks.fidelity.settings import ROOT
from simtool.profile.judged_live import PAGE, judged_live, judged_setting
from simtool.trace.trace import open_trace


def test_the_file_says_what_the_page_says():
    assert json.loads(known.FILE.read_text()) == known.told((ROOT / PAGE).read_text())


def test_a_setting_is_found_by_its_very_models():
    manifest = open_trace(ROOT / "traces" / "sl16-lag").manifest
    found = judged_setting(manifest.algorithm, manifest.sl, manifest.concurrency, manifest.models)
    assert found in judged_live().settings
    assert {each.placement for each in found.arms} >= {"this-step", "lag", "lag-overlap"}
    assert found.worst_off == max(abs(each.replayed - each.live) for each in found.arms)
    other = {role: {**model, "sha256": "0" * 64} for role, model in manifest.models.items()}
    assert judged_setting(manifest.algorithm, manifest.sl, manifest.concurrency, other) is None
    assert judged_setting(manifest.algorithm, manifest.sl, 3, manifest.models) is None
