"""The comparison must find an effect that is there, and say that it cannot tell when there is none."""

import dataclasses
import math

import numpy as np
import polars as pl
import pytest

from simtool.analysis.comparison.arms import Arm, differences, gather_arms
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.headline import Metric
from simtool.analysis.comparison.runs import Run
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import replace_table
from tests.synthetic import make_trace


def _run(step_ms: float, rng: np.random.Generator, steps: int = 200) -> Run:
    durations = (step_ms * 1e6 * (1 + 0.05 * rng.standard_normal(steps))).astype(np.int64)
    return Run("toy", rng.integers(4, 12, steps), durations)


def _arm(label: str, *runs: Run, origin: str = "modeled") -> Arm:
    return Arm(label, label, origin, runs, ())


def test_paired_repetitions_cancel_the_drift_they_share():
    rng = np.random.default_rng(0)
    drift = rng.uniform(5, 8, 6)
    slow = _arm("slow", *(_run(ms, rng, 4000) for ms in drift))
    fast = _arm("fast", *(_run(ms * 0.93, rng, 4000) for ms in drift))
    result = compare(slow, fast, Metric.STEP_TIME)
    assert result.found.contains(0.93)
    assert result.resolved
    assert "fast has 7." in result.verdict
    assert result.method == "paired t on 6 repetitions"


def test_no_effect_is_not_resolved_and_says_what_it_would_take():
    rng = np.random.default_rng(1)
    one, two = (_arm(name, *(_run(ms, rng) for ms in rng.uniform(5, 8, 4))) for name in ("one", "two"))
    result = compare(one, two)
    assert not result.resolved
    assert result.verdict.startswith("cannot tell two from one")
    assert "repetitions would" in result.verdict


def test_the_number_of_repetitions_needed_is_enough():
    log_ratios = np.array([0.02, -0.01, 0.05, 0.0])
    one = _arm("one", *(Run("a", np.array([10**9]), np.array([10**9])) for _ in log_ratios))
    two = _arm("two", *(Run("b", np.array([round(10**9 * np.exp(x))]), np.array([10**9])) for x in log_ratios))
    needed = compare(one, two).needed
    assert needed is not None
    repeat = [_arm(arm.label, *(arm.runs * (needed // 4 + 1))) for arm in (one, two)]
    assert needed > 4
    assert compare(repeat[0], repeat[1]).resolved


def test_one_live_run_each_settles_nothing():
    rng = np.random.default_rng(7)
    slow, fast = _run(5, rng), _run(4, rng)
    modeled = compare(_arm("slow", slow), _arm("fast", fast))
    live = compare(_arm("slow", slow, origin="live"), _arm("fast", fast, origin="live"))
    assert modeled.resolved
    assert not live.resolved
    assert live.found == modeled.found
    assert live.verdict.startswith("cannot tell fast from slow by one run each")
    assert "interleaved repetitions" in live.verdict


def test_unpaired_repetitions_use_welch():
    rng = np.random.default_rng(2)
    one = _arm("one", *(_run(5, rng) for _ in range(3)))
    two = _arm("two", *(_run(4, rng) for _ in range(5)))
    result = compare(one, two)
    assert "Welch's t on 3 and 5" in result.method
    assert result.found.contains(1.25)


def test_b_over_a_mirrors_a_over_b_exactly():
    rng = np.random.default_rng(3)
    one, two = (_arm(name, _run(5, rng)) for name in ("one", "two"))
    many, more = (_arm(name, *(_run(5, rng) for _ in range(count))) for name, count in (("many", 4), ("more", 6)))
    for first, second in ((one, two), (many, more)):
        for metric in (Metric.TOKENS_PER_S, Metric.STEP_TIME):
            ahead, back = compare(first, second, metric).found.mapped(math.log), compare(second, first, metric).found
            assert back.bounds is not None
            assert ahead.bounds == pytest.approx([-math.log(end) for end in reversed(back.bounds)])
            assert ahead.mean == pytest.approx(-math.log(back.mean))


def test_paired_by_tokens_mirrors_too():
    rng = np.random.default_rng(4)
    one, two = (_arm(n, dataclasses.replace(_run(5, rng), tokens=np.full(200, 8), workload="w")) for n in "ab")
    ahead, back = compare(one, two).found, compare(two, one).found
    assert ahead.bounds is not None
    assert back.bounds is not None
    assert ahead.bounds == pytest.approx([1 / end for end in reversed(back.bounds)])


def test_a_handful_of_steps_tells_nothing():
    """Four steps of one length each: not an interval without width, but none."""
    one, two = (_arm(n, Run(n, np.full(4, 8), np.full(4, ns), "w")) for n, ns in (("a", 10**6), ("b", 2 * 10**6)))
    result = compare(one, two)
    assert not result.resolved
    assert (result.found.bounds, result.interval) == (None, "-")
    assert result.verdict == (
        "cannot tell b from a: 4 steps, and fewer than 50 tell too little of their spread "
        "(here it gives 50.0 % fewer tokens/s); draws of noise would tell: simtool replay --noise residual --seeds 8"
    )


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    return [
        make_trace(folder / "static", "static", origin="live"),
        make_trace(folder / "static-2", "static", origin="live", noise_seed=1),
        make_trace(folder / "lag", "lag", origin="replayed"),
    ]


def test_arms_keep_live_and_modeled_apart(traces):
    assert [(arm.label, len(arm.runs)) for arm in gather_arms(traces)] == [("static (live)", 2), ("lag (modeled)", 1)]


def test_what_varies_is_in_the_label(traces, tmp_path):
    wide = make_trace(tmp_path / "wide", "static", concurrency=5)
    assert [arm.label for arm in gather_arms([traces[0], wide])] == [
        "static (live), concurrency 3",
        "static (live), concurrency 5",
    ]


def test_a_controller_told_another_draft_time_is_another_arm(traces, tmp_path):
    lag = traces[2]
    told = dataclasses.replace(lag.manifest, controller={**lag.manifest.controller, "draft_ms": 6.0})
    arms = gather_arms([lag, dataclasses.replace(lag, manifest=told)])
    assert [arm.label for arm in arms] == [
        f"lag (modeled), controller without predictor, draft {ms} ms, gain 0.0" for ms in (0.0, 6.0)
    ]


def test_a_name_with_two_orders_is_two_arms_and_a_finding(traces, tmp_path):
    other = dataclasses.replace(BUILT_IN["lag-overlap"], name="lag")
    older = dataclasses.replace(BUILT_IN["lag"], lag_steps=2)
    impostors = [
        make_trace(tmp_path / str(at), placement, origin="replayed") for at, placement in enumerate((other, older))
    ]
    arms = gather_arms([traces[2], *impostors])
    assert [len(arm.runs) for arm in arms] == [1, 1, 1]
    assert {arm.placement for arm in arms} == {"lag"}
    assert len({arm.name for arm in arms}) == 3
    assert arms[2].name.endswith("at lag 2")
    (finding,) = differences([traces[2], *impostors])
    assert finding.startswith("lag: placement order differs: ")
    assert all(f"{arm.name.removeprefix('lag, order ')} in {arm.traces[0].path.name}" in finding for arm in arms)


def _at_costs(path, placement, *changes):
    profile = {"name": "p", "sources": {}, "changes": changes, "bundles": []}
    return make_trace(path, placement, origin="replayed", details={"profile": profile})


def test_a_what_if_is_an_arm_of_its_own_and_in_the_claims_sentence(tmp_path):
    plain, other, static = (
        _at_costs(tmp_path / "plain", "lag"),
        _at_costs(tmp_path / "what-if", "lag", "decide=0"),
        _at_costs(tmp_path / "static", "static"),
    )
    arms = gather_arms([static, plain, other])
    assert [arm.label for arm in arms] == ["static (modeled)", "lag (modeled)", "lag (modeled), with decide=0"]
    assert compare(arms[0], arms[1]).caveat == ""
    unlike = compare(arms[0], arms[2])
    assert "; not at the same costs: static at p (" in unlike.verdict
    assert ", lag, with decide=0 at p with decide=0 (" in unlike.verdict


def test_repetitions_that_are_not_used_are_said():
    runs = [dataclasses.replace(_run(5, np.random.default_rng(seed)), name=f"s{seed}") for seed in range(3)]
    named, single = _arm("static", *runs), _arm("lag", runs[0])
    result = compare(named, single)
    assert result.unused == ("s1", "s2")
    assert result.method.endswith("not used, for lag has one run only: s1, s2")
    assert compare(named, named).unused == ()


def test_alike_traces_have_no_differences(traces):
    assert differences(traces) == []


def test_greedy_outputs_that_differ_are_found(traces, tmp_path):
    broken = make_trace(tmp_path / "broken", "lag")
    requests = broken.table("requests").with_columns(pl.lit([1, 2], dtype=pl.List(pl.Int32)).alias("output_ids"))
    found = differences([traces[0], replace_table(broken, "requests", requests)])
    assert len(found) == 1
    assert found[0].startswith(f"6 greedy outputs of {broken.path} differ from those of {traces[0].path}; first r0")


def test_other_models_are_found(traces):
    models = {**traces[1].manifest.models, "target": {"id": "other", "sha256": "1"}}
    manifest = dataclasses.replace(traces[1].manifest, models=models, complete=False)
    other = dataclasses.replace(traces[1], manifest=manifest)
    target, incomplete = differences([traces[0], other])
    assert target.startswith("target differs: ")
    assert target.endswith(f"in {traces[0].path.name}; other (1) in {other.path.name}")
    assert incomplete == f"{other.path} is incomplete"


def test_pairing_by_tokens_cancels_what_the_workload_does_to_both():
    """Both runs slow down over the same tokens; only the paired interval sees through it."""
    rng = np.random.default_rng(6)
    load = 1 + 0.5 * np.sin(np.linspace(0, 40, 600))
    tokens = np.full(600, 8)

    def run(scale: float, workload: str | None) -> Arm:
        durations = 5e6 * scale * load * (1 + 0.02 * rng.standard_normal(600))
        return _arm(f"x{scale}", Run("run", tokens, durations.astype(np.int64), workload))

    paired = compare(run(1.0, "same"), run(0.98, "same"))
    unpaired = compare(run(1.0, None), run(0.98, None))
    assert paired.resolved
    assert paired.found.contains(1 / 0.98)
    assert "paired by tokens" in paired.method
    assert not unpaired.resolved
