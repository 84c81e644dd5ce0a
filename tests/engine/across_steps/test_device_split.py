"""The host knows how many drafts a step verifies and the device whose: live, replayed, and by its parts."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from simtool.analysis.divergence import mismatches
from simtool.calibrate.fit import calibrate
from simtool.engine.devices.cpu.device import CpuDevice
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.runner import budget
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import PlacementError, UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import DEVICE_SPLIT, parse_placement
from simtool.step.policies.ranking import best_first
from simtool.trace.outcome_coverage import add_outcomes, requests_without_outcomes
from tests.engine import golden
from tests.engine.across_steps.test_ahead_live import PROMPTS, PRUNING, TOKENS, check_tokens, record
from tests.engine.small_runs import requests, runner

ORDER = [str(slot) for slot in DEVICE_SPLIT.order]


@pytest.mark.parametrize("seed", range(20))
def test_the_device_splits_as_the_host_would(seed):
    draw = random.Random(seed)
    batch, n = draw.randint(1, 6), draw.randint(1, 7)
    confidence = np.array([[draw.randint(0, 8) / 8 for _ in range(n)] for _ in range(batch)], np.float32)
    paths = confidence.astype(np.float64).cumprod(1)
    for count in range(batch * n + 1):
        shares = best_first(paths).split(count)
        assert budget.split(torch.tensor(confidence), count).tolist() == shares
        assert sum(shares) == count
        kept, left = ([path for row, share in zip(paths, shares, strict=True) for path in part(row, share)]
                      for part in (lambda row, share: row[:share], lambda row, share: row[share:]))  # fmt: skip
        assert not kept or not left or min(kept) >= max(left)


def test_rows_are_those_that_the_host_builds():
    prefixes, drafts = torch.tensor([2, 0, 1]), torch.tensor([[11, 12], [21, 22], [31, 32]])
    tables = torch.tensor([[3, 7], [5, 0], [1, 2]])
    made = budget.rows_of(
        prefixes, drafts, torch.tensor([10, 20, 30]), torch.tensor([3, 0, 6]), tables, budget=3, page=4
    )
    assert {name: value.tolist() for name, value in made.items()} == {
        "validate_ids": [10, 11, 12, 20, 30, 31],
        "validate_positions": [3, 4, 5, 0, 6, 7],
        "validate_slot_mapping": [15, 28, 29, 20, 10, 11],
        "validate_kv_lens": [4, 5, 6, 1, 7, 8],
        "validate_block_tables": [[3, 7], [3, 7], [3, 7], [5, 0], [1, 2], [1, 2]],
        "validate_cu_rows": [0, 3, 4, 6],
    }


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
def test_the_tokens_are_the_targets_own(tmp_path, name):
    trace = record(tmp_path / "live", DEVICE_SPLIT, name)
    check_tokens(trace, name)
    assert trace.table("steps").filter(kind="decode")["pruned"].any()


def test_on_the_cpu_device(tmp_path):
    device = CpuDevice(golden.spec("dspark_b7"))
    try:
        check_tokens(record(tmp_path / "live", DEVICE_SPLIT, device=device), "dspark_b7")
    finally:
        device.close()


def test_a_replay_repeats_the_live_split(tmp_path):
    live = record(tmp_path / "live", DEVICE_SPLIT)
    models = runner(golden.spec("dspark_b7"))
    teacher_forced = TeacherForcedPass(models._target, models._draft, 7)
    live = add_outcomes(live, {name: teacher_forced.outcomes(*ids) for name, *ids in requests_without_outcomes(live)})
    profile = calibrate([live], name="test", command="test", created="2026-01-01")
    again = replay(live, profile, Scenario(DEVICE_SPLIT, live.manifest.concurrency, PRUNING)).trace(tmp_path / "again")
    rows, wrong = mismatches(live, again)
    assert rows > 0
    assert wrong == 0
    assert live.table("rows")["prefix_len"].to_list() == again.table("rows")["prefix_len"].to_list()


def test_a_calibrated_confidence_that_the_device_would_not_read_is_refused(tmp_path):
    spec = golden.spec("dspark_b7")
    session = Session(TimedDevice(runner(spec), same_durations(1_000), VirtualClock(tick_ns=7)), spec)
    controller = replace(PRUNING, temperatures=(2.0,) * 7)
    with pytest.raises(UsageError, match="made without --confidence"):
        session.record(tmp_path / "live", RunPlan(requests(PROMPTS, TOKENS), DEVICE_SPLIT, controller))
    assert not (tmp_path / "live").exists()


@pytest.mark.parametrize(
    ("order", "named"),
    [
        ([slot for slot in ORDER if slot != "split_budget|-"], "'compact_rows' needs device_prefix_lengths"),
        (["build_varlen|build_dense" if "build_budget" in slot else slot for slot in ORDER], "needs prefix_lengths"),
        ([slot.replace("compact_rows|", "fill_varlen|") for slot in ORDER], "'fill_varlen' needs varlen_batch"),
        ([*ORDER[:2], "decide", *ORDER[2:]], "does one thing twice"),
    ],
)
def test_what_it_lacks_is_named(order, named):
    with pytest.raises(PlacementError, match=named):
        parse_placement("mine", order, 2)
