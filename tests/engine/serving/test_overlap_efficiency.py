"""The overlap benchmark's arithmetic, on a device whose times are given."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from simtool.engine.devices.virtual import TimedDevice, VirtualClock
from simtool.engine.runner.runner import Runner, load_runner
from tests.engine import golden

PATH = Path(__file__).parents[3] / "benchmarks" / "overlap_efficiency.py"


@pytest.fixture(scope="module")
def overlap():
    spec = importlib.util.spec_from_file_location("overlap_efficiency", PATH)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def runner() -> Runner:
    return load_runner(golden.spec("dspark_b7"))


@pytest.mark.parametrize(("host_ns", "device_ns"), [(300, 1_000), (1_000, 300), (500, 500)])
def test_a_device_that_hides_everything_has_efficiency_one(overlap, runner, host_ns, device_ns):
    clock = VirtualClock()
    device = TimedDevice(runner, {"target": device_ns, "build_dense": 0}, clock)
    lists = overlap.validate_lists(batch=2, width=8, context=20, block_size=4)
    device.upload("build_dense", 0, lists)
    pairs = overlap.measure(device, "target", lambda: clock.advance_to(clock() + host_ns), pairs=5)
    assert set(pairs.serial_ns) == {host_ns + device_ns}
    assert set(pairs.overlapped_ns) == {max(host_ns, device_ns)}
    assert overlap.efficiency(pairs) == (1, 1, 1)


def test_half_hidden_with_noise_is_found_within_its_interval(overlap):
    rng = np.random.default_rng(1)
    host, device = np.full(200, 1e6), np.full(200, 5e6)
    serial = host + device
    pairs = overlap.Pairs(host, device, serial, serial - 0.5e6 + rng.normal(0, 0.3e6, 200))
    value, low, high = overlap.efficiency(pairs)
    assert low < 0.5 < high
    assert low < value < high
    assert high - low < 0.2


def test_lists_are_those_of_a_dense_validate_batch(overlap):
    lists = overlap.validate_lists(batch=2, width=3, context=5, block_size=4)
    assert lists["validate_positions"] == [5, 6, 7] * 2
    assert lists["validate_slot_mapping"] == [5, 6, 7, 13, 14, 15]
    assert lists["validate_kv_lens"] == [6, 7, 8] * 2
    assert lists["validate_block_tables"] == [[0, 1]] * 3 + [[2, 3]] * 3
    assert lists["validate_cu_rows"] == [0, 3, 6]
