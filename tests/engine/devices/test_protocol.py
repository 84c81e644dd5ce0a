"""What every device shares: its name, and what it takes from the host."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simtool.engine.devices.open import open_device
from simtool.engine.devices.protocol import EXECUTOR_PER_LANE, ONE_EXECUTOR, as_array
from simtool.errors import DeviceError, UsageError
from tests.engine import golden


def test_unknown_device_names_the_known_ones():
    with pytest.raises(UsageError, match="unknown device 'tpu'; expected one of cpu, cuda, npu, auto"):
        open_device("tpu", golden.spec("dspark_b7"))


@pytest.mark.parametrize("name", ["cpu:0", "npu:", "cuda:x", "npu:-1"])
def test_only_accelerators_take_an_index(name):
    with pytest.raises(UsageError, match="only cuda and npu take an index"):
        open_device(name, golden.spec("dspark_b7"))


def test_auto_takes_the_accelerator_or_the_cpu():
    device = open_device("auto", golden.spec("dspark_b7", slots=1))
    found = torch.accelerator.current_accelerator(check_available=True)
    assert device.name == (found.type if found is not None else "cpu")
    device.close()


@pytest.mark.parametrize("name", ["cuda", "npu", "cuda:0", "npu:1"])
def test_absent_device_is_one_clear_line(name):
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is not None and found.type == name.partition(":")[0]:
        pytest.skip(f"{name} is there")
    with pytest.raises(DeviceError, match=f"device '{name}' is not there"):
        open_device(name, golden.spec("dspark_b7"))


def test_lanes_of_one_executor_and_of_streams():
    assert set(ONE_EXECUTOR) == set(EXECUTOR_PER_LANE) == {"prepare", "compute", "copy"}
    assert len(set(ONE_EXECUTOR.values())) == 1
    assert len(set(EXECUTOR_PER_LANE.values())) == 3


@pytest.mark.parametrize(
    ("values", "dtype", "shape"),
    [([1, 2], np.int64, (2,)), ([], np.int64, (0,)), ([[1, 2], [3, 4]], np.int64, (2, 2)), ([0.5], np.float64, (1,))],
)
def test_host_lists_become_arrays(values, dtype, shape):
    array = as_array("x", values)
    assert (array.dtype, array.shape) == (dtype, shape)
    assert array.tolist() == values


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1], [1, 2]], "tables: rows of different lengths"),
        (["a"], "tables: holds <U1"),
        ([True], "tables: holds bool"),
    ],
)
def test_other_lists_are_refused(values, message):
    with pytest.raises(DeviceError, match=message):
        as_array("tables", values)
