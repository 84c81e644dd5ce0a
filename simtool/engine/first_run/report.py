"""The whole first run: every check in turn, each whatever became of the others."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Callable
from functools import partial

import torch

from simtool.engine.devices.open import check_device_name
from simtool.engine.first_run.attention import check_attention, kernels_of
from simtool.engine.first_run.check import DeviceCheck, attempt, does_not_apply
from simtool.engine.first_run.graph import check_graph
from simtool.engine.first_run.runs import ShortRuns
from simtool.engine.first_run.streams import Busywork, check_clock, check_waits
from simtool.engine.runner.npu.ops import load_ops
from simtool.engine.runner.spec import Dtype, NpuLayout
from simtool.errors import DeviceError
from simtool.progress import Say, unsaid

_NAMES = ("torch", "torch_npu", "simtool")
_VARIABLES = ("ASCEND_LAUNCH_BLOCKING", "TASK_QUEUE_ENABLE", "CPU_AFFINITY_CONF", "ASCEND_RT_VISIBLE_DEVICES",
              "PYTORCH_NPU_ALLOC_CONF")  # fmt: skip
_GRAPH_ROWS = 16


def first_run(name: str, say: Say = unsaid) -> tuple[dict[str, object], list[DeviceCheck]]:
    """Where it ran, and every check. name: cpu, cuda, npu, npu:1, ... Raises DeviceError when it is not there.

    Takes a minute or two; nothing is left on the host.
    """
    check_device_name(name)
    device = _device(name)
    dtype: Dtype = "float32" if device.type == "cpu" else "bfloat16"
    checks: list[DeviceCheck] = []

    def add(more: DeviceCheck | list[DeviceCheck]) -> None:
        for check in more if isinstance(more, list) else [more]:
            checks.append(check)
            say(f"{check.verdict:14}  {check.name}: {check.said}")

    add(check_attention(device, getattr(torch, dtype)))
    layout = next((name for name in kernels_of(device) if _all_ok(checks, name)), None)
    for each in _device_checks(device, layout, dtype):
        add(each())
    runs = ShortRuns()
    chosen: NpuLayout = "TND" if layout == "TND" else "BSH"
    for placement in ("this-step", "lag-overlap"):
        add(attempt(f"run, {placement}", partial(runs.check, name, dtype, placement, chosen)))
    if device.type == "npu":
        graphs = partial(runs.check, name, dtype, "lag-overlap+rebind", chosen, _GRAPH_ROWS)
        add(attempt("run, lag-overlap+rebind", graphs))
    return {**_where(device), "dtype": dtype, "layout_that_agrees": layout}, checks


def _device_checks(device: torch.device, layout: str | None, dtype: Dtype) -> list[Callable[[], DeviceCheck]]:
    clock, waits, graph = "events of two streams on one clock", "calls that wait for the device", "graph"
    if device.type == "cpu":
        return [partial(does_not_apply, each, "a cpu has no streams of its own") for each in (clock, waits, graph)]
    busywork = Busywork(device, getattr(torch, dtype))
    capture: Callable[[], DeviceCheck] = partial(does_not_apply, graph, "no attention agreed, so none was captured")
    if layout is not None:
        kernels = kernels_of(device)[layout]
        check = partial(check_graph, kernels, layout, device, getattr(torch, dtype))
        capture = partial(attempt, graph, check)
    return [
        partial(attempt, clock, partial(check_clock, device, busywork)),
        partial(attempt, waits, partial(check_waits, device, busywork)),
        capture,
    ]


def _all_ok(checks: list[DeviceCheck], kernels: str) -> bool:
    return all(check.verdict == "ok" for check in checks if check.name.startswith(f"attention, {kernels},"))


def _device(name: str) -> torch.device:
    kind = name.partition(":")[0]
    if kind == "cpu":
        return torch.device("cpu")
    if kind == "npu":
        load_ops()
    found = torch.accelerator.current_accelerator(check_available=True)
    if found is None or found.type != kind:
        raise DeviceError(f"device {name!r} is not there; `simtool doctor` says what is missing")
    device = torch.device(name)
    torch.accelerator.set_device_index(device.index or 0)
    return torch.device(kind, device.index or 0)


def _where(device: torch.device) -> dict[str, object]:
    hardware = platform.processor() or platform.machine()
    if device.type != "cpu":
        hardware = str(torch.get_device_module(device).get_device_name(device))
    versions: dict[str, str | None] = {}
    for package in _NAMES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "device": str(device),
        "hardware": hardware,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "versions": versions,
        "cann": _cann() if device.type == "npu" else None,
        "environment": {name: os.environ.get(name) for name in _VARIABLES},
    }


def _cann() -> str | None:
    """CANN's version as torch_npu reads it."""
    from torch_npu.npu.utils import get_cann_version  # noqa: PLC0415  there on an npu only

    return str(get_cann_version("CANN")) or None
