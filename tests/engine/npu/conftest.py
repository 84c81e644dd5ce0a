"""The wheel lane: torch_npu against stub libraries, or on the stand-in for CANN. Nothing here runs on an NPU."""

from __future__ import annotations

import importlib.util
import os

import pytest

from tests.engine.npu.standin.calls import library


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the lane's two halves, and skip with the reason where one is not to be had."""
    here = [item for item in items if item.path.parent.name == "npu"]
    for item in here:
        if "wheel" in item.path.name:
            item.add_marker(pytest.mark.npu_wheel)
            if importlib.util.find_spec("torch_npu") is None:
                item.add_marker(pytest.mark.skip(reason="torch_npu is not installed here: make test-npu-wheel"))
        elif "standin" in item.path.name:
            item.add_marker(pytest.mark.npu_standin)
            if library() is None:
                item.add_marker(pytest.mark.skip(reason="CANN's stand-in is not loaded here: make test-npu-wheel"))


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


@pytest.fixture(scope="session")
def npu():
    """torch.npu of the real wheel, on the stand-in."""
    import torch  # noqa: PLC0415
    import torch_npu  # noqa: F401, PLC0415  gives torch its npu

    return getattr(torch, "npu")  # noqa: B009  the wheel adds it
