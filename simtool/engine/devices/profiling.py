"""The framework's own profiler around device work: torch.profiler, or torch_npu's on an NPU."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch

TRACE_NAME = "trace.json"


class TorchProfile:
    """Profiles this process from its making until `stop`. kind: cpu, cuda or npu."""

    def __init__(self, kind: str, folder: Path) -> None:
        """`folder`: where the trace goes; torch writes trace.json, torch_npu a folder of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        self._kind, self._folder = kind, folder
        self._profiler = _npu_profiler(folder) if kind == "npu" else _torch_profiler(kind)
        self._profiler.start()

    def stop(self) -> None:
        """End the profile and write it."""
        self._profiler.stop()
        if self._kind != "npu":
            self._profiler.export_chrome_trace(str(self._folder / TRACE_NAME))


def _torch_profiler(kind: str) -> Any:
    activities = [torch.profiler.ProfilerActivity.CPU]
    if kind == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities)


def _npu_profiler(folder: Path) -> Any:
    module = importlib.import_module("torch_npu").profiler
    kinds = module.ProfilerActivity
    return module.profile(
        activities=[kinds.CPU, kinds.NPU], on_trace_ready=module.tensorboard_trace_handler(str(folder))
    )
