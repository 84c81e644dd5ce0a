"""Other requests than the recorded ones: their arrivals and lengths, the recording's outcomes, request by request."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from simtool.analysis.metrics import summarise_trace
from simtool.errors import TraceError, UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.replay.workload import Workload, read_workload, recorded_workload
from simtool.step.placement import BUILT_IN
from simtool.step.scheduler import Request
from simtool.trace.checks.check import check_trace
from simtool.trace.trace import replace_table
from tests.replay.synthetic import Asked, Work, constant_costs, profile_of, source_trace

PROFILE = profile_of(constant_costs(pre=10, device_draft=100, device_sample=20, device_target=200, device_verify=10))
DRAFTS = 3
SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "requests"

MOONCAKE = """\
{"timestamp": 5, "input_length": 20, "output_length": 30, "hash_ids": [0]}
{"timestamp": 6, "input_length": 3, "output_length": 1, "hash_ids": [1]}
{"timestamp": 9, "input_length": 7, "output_length": 12, "hash_ids": [2]}
"""
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,20,30
2023-11-16 18:15:46.6815900,3,1
2023-11-16 18:15:46.6845900,7,12
"""


def coded_work(lengths):
    """Confidences that name their request and their place in it: [(request + 1) / 16, place / 64, 0]."""
    asked = tuple(Asked(f"r{i}", 5 + i, total, total) for i, total in enumerate(lengths))
    outcomes = {
        (one.name, one.prompt + place): ([(i + 1) / 16, place / 64, 0.0], (i + place) % (DRAFTS + 1))
        for i, one in enumerate(asked)
        for place in range(one.total)
    }
    return Work(DRAFTS, asked, outcomes)


@pytest.fixture
def source(tmp_path):
    return source_trace(tmp_path / "source", coded_work([9, 13, 6]))


@pytest.fixture(params=[("w.jsonl", MOONCAKE), ("w.csv", AZURE)], ids=["mooncake", "azure"])
def file(request, tmp_path):
    name, text = request.param
    (tmp_path / name).write_text(text)
    return tmp_path / name


def drawn(bundle):
    """Request -> [(recorded request, place)] in the order of its anchors, and the first of these anchors."""
    found = {}
    for name, anchor, confidence in bundle.table("outcomes").select(
        "request_id", "anchor_position", "confidence"
    ).sort("request_id", "anchor_position").iter_rows():  # fmt: skip
        start, places = found.setdefault(name, (anchor, []))
        assert anchor == start + len(places)
        places.append((round(confidence[0] * 16) - 1, round(confidence[1] * 64)))
    return found


def test_arrivals_and_lengths_are_the_files(source, file):
    served = read_workload(file).drawn_from(source, 0)
    result = replay(served, PROFILE, Scenario(BUILT_IN["lag"], 2, arrivals=Arrivals("trace")))
    requests = result.tables["requests"].sort("arrival_ns")
    columns = ("arrival_ns", "prompt_tokens", "output_tokens")
    assert requests.select(columns).rows() == [(0, 20, 30), (1_000_000, 3, 1), (4_000_000, 7, 12)]
    rows = result.tables["rows"].sort("step")
    first = rows.group_by("request_id", maintain_order=True).agg(
        pl.col("anchor_position", "kv_len").first(), pl.col("emitted").sum()
    )
    assert first.drop("request_id").rows() == [(20, 20, 29), (7, 7, 11)]


def test_the_replay_is_a_trace_like_any_other(source, file, tmp_path):
    served = read_workload(file).drawn_from(source, 0)
    scenario = Scenario(BUILT_IN["lag"], 2, arrivals=Arrivals("trace"))
    saved = replay(served, PROFILE, scenario).save(tmp_path / "replayed")
    findings = [finding for finding in check_trace(saved) if "distributional" not in finding.message]
    assert findings == []
    again = replay(saved, PROFILE, scenario)
    assert again.tables["rows"].equals(saved.table("rows"))
    assert again.manifest.details["bootstrap"] == saved.manifest.details["bootstrap"]


def test_outcomes_come_by_request_in_order_from_the_first_anchor(source):
    """Recorded outputs of 9, 13 and 6 tokens give 6, 10 and 3 anchors whose blocks of 3 lie inside the output."""
    asked = tuple(Request(f"q{i}", 4 + i, 25) for i in range(30))
    found = drawn(Workload("made up", asked).drawn_from(source, 1))
    assert len(found) == 30
    seen = set()
    for i in range(30):
        start, places = found[f"q{i}"]
        assert (start, len(places)) == (4 + i, 24)
        while places:
            donor = places[0][0]
            whole = [(donor, place) for place in range((6, 10, 3)[donor])]
            assert places[: len(whole)] == whole[: len(places)]
            places, seen = places[len(whole) :], seen | {donor}
    assert seen == {0, 1, 2}


def test_match_runs_travel_with_their_confidence(source):
    served = Workload("made up", (Request("q", 4, 40),)).drawn_from(source, 1)
    rows = served.table("outcomes").select("confidence", "match_run").rows()
    assert all(run == (round(c[0] * 16) - 1 + round(c[1] * 64)) % (DRAFTS + 1) for c, run in rows)


def test_a_request_draws_the_same_beside_any_others_and_anew_with_a_seed(source):
    asked = tuple(Request(f"q{i}", 4, 25) for i in range(12))
    whole, part = (drawn(Workload("w", some).drawn_from(source, 3)) for some in (asked, asked[5:]))
    assert all(whole[name] == places for name, places in part.items())
    assert drawn(Workload("w", asked).drawn_from(source, 4)) != whole
    assert len({str(places) for _, places in whole.values()}) > 3


def test_every_placement_draws_the_same(source, file):
    served = read_workload(file).drawn_from(source, 0)
    seen = {}
    for placement in BUILT_IN.values():
        rows = replay(served, PROFILE, Scenario(placement, 2)).tables["rows"]
        for name, anchor, confidence in rows.select("request_id", "anchor_position", "confidence").iter_rows():
            assert seen.setdefault((name, anchor), confidence) == confidence


def test_partial_recordings_substitute_within_the_drawn_request(source):
    """With every second outcome missing strict refuses; resample takes a neighbour and counts it."""
    half = source.table("outcomes").filter(pl.col("anchor_position") % 2 == 0)
    served = Workload("w", (Request("q", 4, 25),)).drawn_from(replace_table(source, "outcomes", half), 0)
    scenario = Scenario(BUILT_IN["static"], 1)
    with pytest.raises(TraceError, match="request q has no outcome at anchor"):
        replay(served, PROFILE, scenario)
    details = replay(served, PROFILE, replace(scenario, outcomes="resample")).manifest.details
    assert 0 < details["anchors_substituted"] < details["anchors_looked_up"]
    share = details["anchors_substituted"] / details["anchors_looked_up"]
    assert details["outcomes"] == f"distributional, {share:.1%} substituted"


def test_the_manifest_tells_what_was_drawn(source, file):
    served = read_workload(file, 2).drawn_from(source, 7)
    manifest = replay(served, PROFILE, Scenario(BUILT_IN["static"], 2, seed=7)).manifest
    assert manifest.details["workload"] == {"source": file.name, "requests": 2, "warnings": []}
    bootstrap = manifest.details["bootstrap"]
    assert (bootstrap["unit"], bootstrap["seed"], bootstrap["recorded_requests"]) == ("request", 7, 3)
    assert (bootstrap["share_of_outcomes"], bootstrap["spliced_requests"]) == (1.0, 1)
    assert bootstrap["draws"] >= 3
    assert manifest.details["outcomes"] == "distributional"
    assert any(warning.startswith("distributional: ") for warning in manifest.warnings)
    assert replay(source, PROFILE, Scenario(BUILT_IN["static"], 2)).manifest.details["outcomes"] == "exact"


def test_who_never_fits_is_skipped_and_counted(source):
    """Three blocks of 16 tokens: 20 + 24 + 4 ahead fill them, one token more does not fit."""
    asked = (Request("fits", 20, 24), Request("big", 20, 25), Request("bigger", 99, 9))
    scenario = Scenario(BUILT_IN["static"], 2, kv_blocks=3)
    fitted = Workload("w", asked).fitted(source, scenario)
    assert [request.request_id for request in fitted.requests] == ["fits"]
    manifest = replay(fitted.drawn_from(source, 0), PROFILE, scenario).manifest
    (line,) = (warning for warning in manifest.warnings if "skipped" in warning)
    assert line.startswith("2 of 3 requests skipped, they never fit; the first: request big: 20 prompt + 25 new")
    with pytest.raises(UsageError, match="w: no request fits the KV cache; the first: request big"):
        Workload("w", asked[1:]).fitted(source, scenario)


def test_a_full_cache_makes_requests_queue(tmp_path):
    """By hand: 10 ns a host op. a: prefill 0-60, two static steps of 390 ns until 840. b came at 100 and fits then.

    Its first token is there after four more host ops, at 880.
    """
    outcomes = {("r", anchor): ([0.0, 0.0], 0) for anchor in range(4, 40)}
    source = source_trace(tmp_path / "s", Work(2, (Asked("r", 4, 30, 30),), outcomes))
    served = Workload("w", (Request("a", 4, 3, 0), Request("b", 6, 3, 100))).drawn_from(source, 0)
    roomy, tight = (
        replay(served, PROFILE, Scenario(BUILT_IN["static"], 2, arrivals=Arrivals("trace"), kv_blocks=blocks))
        for blocks in (2, 1)
    )
    assert tight.tables["requests"].sort("request_id")["admitted_ns"].to_list() == [0, 840]
    summary = summarise_trace(tight.trace(tmp_path))
    assert (summary.queued.count, summary.queued.total_ns) == (2, 840 - 100)
    assert summary.ttft.total_ns == 40 + 880 - 100
    # With room for both, b's prefill comes between a's two steps: after the first, at 450, a waits 60 ns longer.
    assert roomy.tables["steps"]["kind"].to_list()[:4] == ["prefill", "decode", "prefill", "decode"]
    assert roomy.tables["requests"].sort("request_id")["admitted_ns"].to_list() == [0, 450]
    finished = [run.tables["requests"].sort("request_id")["finished_ns"][0] for run in (tight, roomy)]
    assert finished[1] - finished[0] == 60


def test_a_rate_squeezes_the_spacing_of_a_trace():
    trace = Arrivals("trace", 1_000.0)
    assert trace.times_ns([7, 7, 27, 107], 0) == [0, 0, 600_000, 3_000_000]
    assert Arrivals("trace").times_ns([7, 27], 0) == [0, 20]
    with pytest.raises(UsageError, match="2 requests that came at once"):
        trace.times_ns([7, 7], 0)


def test_a_block_long_output_gives_nothing_to_draw(tmp_path):
    source = source_trace(tmp_path / "s", coded_work([3, 2]))
    with pytest.raises(TraceError, match="no finished request emits more than a block of 3 tokens"):
        Workload("w", (Request("q", 4, 9),)).drawn_from(source, 0)


@pytest.mark.parametrize("limit", [0, 4])
def test_a_limit_beyond_the_file_is_refused(file, limit):
    with pytest.raises(UsageError, match=f"{limit} requests asked for; .* has 3"):
        read_workload(file, limit)


def test_sampled_recordings_draw_their_own_requests_anew(source):
    own = recorded_workload(source)
    assert [(r.prompt_tokens, r.max_new_tokens) for r in own.requests] == [(5, 9), (6, 13), (7, 6)]
    assert len({str(drawn(own.drawn_from(source, seed))) for seed in range(5)}) > 1


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public request traces are not part of the repository")
@pytest.mark.parametrize("name", ["azure_2023_conv_head3000.csv", "mooncake_conversation_head1500.jsonl"])
def test_heads_of_public_traces(source, name):
    workload = read_workload(SAMPLES / name, 20)
    scenario = Scenario(BUILT_IN["lag"], 16, arrivals=Arrivals("trace"), kv_blocks=20_000)
    result = replay(workload.fitted(source, scenario).drawn_from(source, 0), PROFILE, scenario)
    emitted = result.tables["rows"]["emitted"].sum() + 20
    assert emitted == sum(request.max_new_tokens for request in workload.requests)
