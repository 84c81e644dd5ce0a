"""Graph buckets in a replay: cost is flat inside a bucket, rises from one to the next, and falls off a cliff past them.

Figures: verify times that vLLM published for DeepSeek-V4-Flash at TP4 on B300 (graphs up to 1,024 tokens, eager
beyond), rounded to 0.1 ms.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from simtool.calibrate.regression import fit_cost
from simtool.profile.profile import WorkCost
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.cost_features import DecodeShape
from simtool.step.graph_buckets import GraphBuckets, make_buckets, pick_bucket
from simtool.step.ops import CATALOGUE
from simtool.step.placement import BUILT_IN, with_rebinds
from tests.calibrate.observing import observed
from tests.replay.synthetic import ONE_DEVICE, profile_of, random_costs, random_work, source_trace

GRAPHS = {1: 5.1, 8: 5.4, 32: 6.3, 64: 7.9, 128: 9.4, 256: 11.3, 384: 13.8, 512: 15.0, 640: 17.4, 768: 17.2, 1024: 20.6}
EAGER = {1536: 104.5, 2048: 103.6, 4096: 133.5, 8192: 135.7, 16384: 234.9}
BUCKETS = GraphBuckets(target=make_buckets(1024))
(TARGET,) = CATALOGUE["launch_target"].works


def features(rows: int) -> dict[str, float]:
    return DecodeShape(rows - 1, rows - 1, [0], [rows - 1], [1], BUCKETS).features()


@pytest.fixture(scope="module")
def cost():
    # the published table says nothing of lengths
    sizes = [name for name in TARGET.features if name not in ("validate_kv", "rectangle_keys")]
    shapes = [features(rows) for rows in GRAPHS | EAGER]
    columns = {name: [shape[name] for shape in shapes] for name in sizes}
    return fit_cost(observed([round(ms * 1e6) for ms in (GRAPHS | EAGER).values()], **columns), sizes)


def test_the_published_points_come_back(cost):
    """Within a quarter: the published stairs bend, and are not even monotone, and the cost is a line in padded rows."""
    for rows, ms in (GRAPHS | EAGER).items():
        assert cost.predict(features(rows)) / 1e6 == pytest.approx(ms, rel=0.25), rows


def test_the_staircase_and_its_cliff(cost):
    times = np.array([cost.predict(features(rows)) for rows in range(1, 1100)])
    buckets = [pick_bucket(BUCKETS.target, rows) for rows in range(1, 1100)]
    for rows in range(1, 1024):
        step = times[rows] - times[rows - 1]
        assert (step == 0) == (buckets[rows] == buckets[rows - 1]), rows
        assert step >= 0
    assert times[1024] / times[1023] == pytest.approx(104 / 20.6, rel=0.15)
    assert buckets[1023:1025] == [1024, None]


def test_a_replay_pads_binds_and_says_which_graph_ran(tmp_path):
    """Under hand-made costs: the target's time depends on the bucket alone, and rebinds cost what they are given."""
    source = source_trace(tmp_path / "source", random_work(5, 4, 10, tokens=30))
    n = source.manifest.sl
    costs = random_costs(1, scale=1_000)
    profile = profile_of(costs, ONE_DEVICE)
    graphs = GraphBuckets(make_buckets(4), make_buckets(2 * (n + 1)), rebinds=True)
    steps = profile.decode
    flat = dataclasses.replace(steps.device["target"].duration, intercept_ns=1_000.0, residuals_ns=())
    flat = dataclasses.replace(flat, per_feature_ns={"target_rows": 10.0, "past_graphs": 90_000.0}, ranges={})
    target = WorkCost(flat, steps.device["target"].queue)
    decode = dataclasses.replace(steps, device={**steps.device, "target": target})
    profile = dataclasses.replace(profile, decode=decode, graphs=graphs)
    result = replay(source, profile, Scenario(with_rebinds(BUILT_IN["lag"]), 3))
    table = result.tables["steps"].filter(result.tables["steps"]["kind"] == "decode")
    events = result.tables["events"]
    spans = {
        step: end - start
        for step, op, start, end in events.select("step", "op", "start_ns", "end_ns").iter_rows()
        if op == "target"
    }
    seen = set()
    for step, rows, bucket in table.select("step", "validate_rows", "graph_bucket").iter_rows():
        assert bucket == pick_bucket(graphs.target, rows)
        assert spans[step] == (91_000 if bucket is None else 1_000 + 10 * bucket)
        seen.add(bucket)
    assert None in seen
    assert len(seen) > 2
    assert {"rebind_draft", "rebind_target"} <= set(events["op"])
    assert result.manifest.details["graphs"] == graphs.to_dict()
