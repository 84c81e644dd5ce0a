"""What a verdict must say before it says who is faster: copies, other programs, order in time, unlike batches."""

import dataclasses
import shutil

import numpy as np
import pytest

from simtool.analysis.comparison.arms import Arm, gather_arms
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.headline import BASELINE, Metric, baseline_of
from simtool.analysis.comparison.noise import MAX_FOREIGN_SHARE, foreign_load
from simtool.analysis.comparison.order import Order, order_of
from simtool.analysis.comparison.runs import Run, Whole, metric_value, run_of
from simtool.analysis.comparison.verdict import verdicts
from simtool.analysis.metrics import summarise_trace
from simtool.errors import UsageError
from simtool.trace.trace import open_trace
from tests.synthetic import make_trace


def _machine(share: float) -> dict[str, object]:
    return {"machine": {"cores": 2, "idle_share": 0.1, "own_share": 0.2, "others_share": share}}


def _run(start_ns: int, length_ns: int = 100, *, speed: float = 1.0, batch: int = 8, filled: bool = True) -> Run:
    rng = np.random.default_rng((start_ns, batch))
    tokens = rng.integers(4, 12, 200)
    duration = (1e6 / speed * (1 + 0.05 * rng.standard_normal(200))).astype(np.int64)
    whole = Whole(tokens, duration, batch, filled, start_ns, start_ns + length_ns)
    return Run("run", tokens, duration, None, whole)


def _arm(name: str, *runs: Run, origin: str = "live") -> Arm:
    return Arm(name, name, origin, runs, ())


def test_a_copy_is_no_repetition(tmp_path):
    one = make_trace(tmp_path / "one", "static", origin="live")
    other = make_trace(tmp_path / "other", "static", origin="live", noise_seed=1)
    shutil.copytree(one.path, tmp_path / "copied")
    (arm,) = gather_arms([one, open_trace(tmp_path / "copied"), other])
    assert [run.name for run in arm.runs] == [str(one.path), str(other.path)]
    assert len(arm.traces) == 2
    assert arm.copies == (f"{tmp_path / 'copied'} holds the same steps as {one.path}: one run, not a repetition",)


def test_a_deterministic_replay_run_twice_is_one_run(tmp_path):
    traces = [
        make_trace(tmp_path / f"{name}-{turn}", name, origin="replayed", noise=0.0, requests=18)
        for name in ("static", "lag")
        for turn in range(2)
    ]
    arms = gather_arms(traces)
    assert [len(arm.runs) for arm in arms] == [1, 1]
    (only,) = verdicts(arms)
    assert len(only.copies) == 2
    assert only.comparisons[0].repetitions == 1


def test_order_is_read_from_the_stamps():
    turns = [_run(0), _run(200)], [_run(5), _run(204)]
    assert order_of(*turns) is Order.IN_TURNS
    alternating = [_run(0), _run(600)], [_run(200), _run(400)]
    assert order_of(*alternating) is Order.ALTERNATING
    apart = [_run(0), _run(200)], [_run(400), _run(600)]
    assert order_of(*apart) is Order.APART
    assert order_of([_run(0)], [dataclasses.replace(_run(0), whole=None)]) is Order.UNTIMED


def test_repetitions_one_arm_after_the_other_settle_nothing():
    slow = [_run(at) for at in (0, 200, 400)]
    fast = [_run(at, speed=1.2) for at in (600, 800, 1000)]
    apart = compare(_arm("static", *slow), _arm("lag", *fast))
    assert not apart.resolved
    assert "their repetitions were recorded one arm after the other, and a machine drifts" in apart.verdict
    assert apart.method == "Welch's t on 3 and 3 repetitions, recorded one arm after the other"
    turns = compare(_arm("static", *slow), _arm("lag", *(_run(at, speed=1.2) for at in (1, 201, 401))))
    assert turns.resolved
    assert turns.method == "paired t on 3 repetitions, recorded in turns, step by step"


def test_repetitions_are_paired_as_they_ran_not_as_they_were_given():
    def drifting(speed: float) -> list[Run]:
        return [_run(at, speed=speed * drift) for at, drift in ((0, 1.0), (200, 0.8), (400, 0.6))]

    slow, fast = drifting(1.0), drifting(1.1)
    straight = compare(_arm("static", *slow), _arm("lag", *fast))
    shuffled = compare(_arm("static", *slow), _arm("lag", *fast[::-1]))
    assert shuffled.found == straight.found
    assert straight.resolved


def test_a_busy_machine_is_said_before_anything_else(tmp_path):
    runs = [
        make_trace(tmp_path / f"{name}-{turn}", name, noise_seed=turn, details=_machine(0.77 if turn else 0.01))
        for name in ("static", "lag")
        for turn in range(2)
    ]
    (only,) = verdicts(gather_arms(runs))
    assert only.headline.startswith(
        "live: not trustworthy: other programs used up to 77 % of the machine's cores during 2 of 4 runs; "
    )
    assert only.comparisons[0].verdict.startswith("not trustworthy: ")
    assert not only.load.trustworthy
    assert only.load.worst == 0.77
    assert not only.comparisons[0].load.trustworthy


@pytest.mark.parametrize(
    ("share", "trusted"), [(0.0, True), (MAX_FOREIGN_SHARE, True), (MAX_FOREIGN_SHARE + 0.001, False)]
)
def test_the_gate_is_a_few_percent(tmp_path, share, trusted):
    assert foreign_load([make_trace(tmp_path / "one", details=_machine(share))]).trustworthy is trusted


def test_a_replay_and_an_unknown_machine_have_no_load(tmp_path):
    replayed = make_trace(tmp_path / "replayed", origin="replayed", details=_machine(0.9))
    unknown = make_trace(tmp_path / "live", details={"machine": "idle"})
    load = foreign_load([replayed, unknown])
    assert (load.worst, load.runs, load.trustworthy, load.warning) == (None, 1, True, "")


def test_unlike_batches_are_compared_over_the_whole_run():
    six, eight = _arm("static", _run(0, batch=6), origin="modeled"), _arm("lag", _run(1), origin="modeled")
    found = compare(six, eight)
    assert found.metric is Metric.WHOLE_RUN
    assert "compared over the whole run, for the largest batches differ (6, 8)" in found.verdict
    with pytest.raises(UsageError, match=r"the largest batches differ .*not alike; leave --metric out"):
        compare(six, eight, Metric.STEP_TIME)


def test_a_batch_that_was_never_full_is_compared_over_the_whole_run():
    one, two = (_arm(n, _run(at, filled=False), origin="modeled") for at, n in enumerate(("static", "lag")))
    assert "for the batch was never full (at most 8 at once)" in compare(one, two).verdict


def test_a_metric_that_points_the_other_way_is_said():
    slow, fast = _run(0), _run(1, speed=1.2)
    assert slow.whole is not None
    drained = dataclasses.replace(fast, whole=dataclasses.replace(slow.whole, duration_ns=2 * slow.whole.duration_ns))
    found = compare(_arm("static", slow, origin="modeled"), _arm("lag", drained, origin="modeled"))
    assert found.resolved
    assert found.disagrees
    assert found.verdict.endswith("; over the whole run the other way: 50.0 % fewer")


def test_steady_and_whole_run_are_the_summarys(tmp_path):
    trace = make_trace(tmp_path / "run", "lag")
    run, summary = run_of(trace), summarise_trace(trace)
    assert metric_value(run, Metric.TOKENS_PER_S) == pytest.approx(summary.steady_tokens_per_s)
    assert metric_value(run, Metric.WHOLE_RUN) == pytest.approx(summary.tokens_per_s)


def test_the_baseline_is_static_where_it_is():
    assert baseline_of(["lag", "this-step", "static"]) == BASELINE == "static"
    assert baseline_of(["lag", "this-step"]) == "this-step"
    assert baseline_of(["lag", "lag-overlap"]) == "lag"
    assert baseline_of(["lag", "static"], "lag") == "lag"


def test_runs_of_other_requests_are_no_repetitions_of_these():
    """A recording of another workload among an arm's repetitions: what is compared is the mix."""

    def served(workload: str, start_ns: int, speed: float = 1.0) -> Run:
        return dataclasses.replace(_run(start_ns, speed=speed), workload=workload)

    static = _arm("static", served("a", 0), served("a", 200))
    alike = _arm("lag", served("a", 100, 1.1), served("a", 300, 1.1))
    mixed = _arm("lag", served("a", 100, 1.1), served("a", 300, 1.1), served("b", 500, 2.0))
    assert compare(static, alike).found.bounds is not None
    found = compare(static, mixed)
    assert not found.resolved
    assert "served requests that no run of the other arm served" in found.verdict
