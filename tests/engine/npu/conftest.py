"""The wheel lane: torch_npu imported against stub libraries. Nothing here runs on an NPU."""

from __future__ import annotations

import importlib.util
import os

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the lane, and skip it with the reason where the wheel is not to be had."""
    here = [item for item in items if item.path.parent.name == "npu" and "wheel" in item.path.name]
    for item in here:
        item.add_marker(pytest.mark.npu_wheel)
        if importlib.util.find_spec("torch_npu") is None:
            item.add_marker(pytest.mark.skip(reason="torch_npu is not installed here: make test-npu-wheel"))


@pytest.fixture(scope="session")
def wheel():
    """torch_npu itself, imported without CANN."""
    assert os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD") == "0", "run this lane through make test-npu-wheel"
    import torch_npu  # noqa: PLC0415

    return torch_npu


@pytest.fixture(scope="session")
def cpu_kernels(wheel):
    """Reference kernels for CPU tensors under the wheel's schemas."""
    from tests.engine.npu import reference  # noqa: PLC0415

    reference.register()
    return reference
