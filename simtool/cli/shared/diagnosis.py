"""What this machine has and lacks. Standard library only, so that it works when nothing else does."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

OK, ABSENT, BROKEN = "ok", "absent", "broken"

_CORE = ("numpy", "polars", "plotly", "rich", "scipy", "simpy", "typer")
_PROBE_TIMEOUT_S = 120
_MIN_PYTHON = (3, 11)
_BLOCKING = ("ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING")
_CANN_HOMES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
_CANN_DEFAULT = Path("/usr/local/Ascend/ascend-toolkit/latest")

#: Runs in a child process: importing torch is slow, and a broken torch_npu breaks it.
_TORCH_PROBE = """
import json, torch
npu = getattr(torch, "npu", None)
print(json.dumps({
    "cuda": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    "npu": [npu.get_device_name(i) for i in range(npu.device_count())] if npu is not None else [],
    "threads": torch.get_num_threads(),
}))
"""


@dataclass(frozen=True)
class Check:
    """One thing looked at. status: ok, absent (only some commands need it) or broken. remedy: one command, or ''."""

    name: str
    status: str
    found: str
    remedy: str = ""


def diagnose(environment: Mapping[str, str]) -> list[Check]:
    """Look at Python, the packages, the accelerators and the machine; `environment` is os.environ."""
    return [
        _python(),
        *_core_packages(),
        *_accelerator_stack(environment),
        _launching(environment),
        _machine(),
    ]


def package_version(name: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _python() -> Check:
    found = platform.python_version()
    if sys.version_info < _MIN_PYTHON:
        return Check("python", BROKEN, found, "uv venv --python 3.11")
    return Check("python", OK, found)


def _core_packages() -> Iterator[Check]:
    for name in _CORE:
        version = package_version(name)
        yield Check(name, OK, version) if version else Check(name, BROKEN, "not installed", "pip install simtool")


def _accelerator_stack(environment: Mapping[str, str]) -> Iterator[Check]:
    torch, torch_npu = package_version("torch"), package_version("torch_npu")
    cann = _cann(environment)
    if torch is None:
        yield Check("torch", ABSENT, "not installed; record needs it", "pip install -e '.[engine]' in a checkout")
    else:
        yield from _devices(torch, torch_npu, cann, environment)
    if torch_npu is None:
        yield Check("torch_npu", ABSENT, "not installed; only record on an Ascend NPU needs it")
    elif torch is not None and not torch.startswith(torch_npu.split(".post")[0]):
        pin = f"pip install torch=={torch_npu.split('.post')[0]}"
        yield Check("torch_npu", BROKEN, f"{torch_npu} beside torch {torch}: they must match", pin)
    else:
        yield Check("torch_npu", OK, torch_npu)
    yield cann


def _cann(environment: Mapping[str, str]) -> Check:
    for variable in _CANN_HOMES:
        if environment.get(variable):
            home = Path(environment[variable])
            if home.is_dir():
                return Check("CANN", OK, f"{_cann_version(home)} in {home}")
            return Check("CANN", BROKEN, f"{variable} names {home}, which is not there", f"unset {variable}")
    if _CANN_DEFAULT.is_dir():
        remedy = f"source {_CANN_DEFAULT.parent / 'set_env.sh'}"
        return Check("CANN", BROKEN, f"{_cann_version(_CANN_DEFAULT)} is there but not in the environment", remedy)
    return Check("CANN", ABSENT, "not found; only record on an Ascend NPU needs it")


def _cann_version(home: Path) -> str:
    for path in (home / "version.cfg", *sorted(home.glob("*/ascend_toolkit_install.info"))):
        if path.is_file():
            for line in path.read_text(errors="replace").splitlines():
                if "version" in line.lower() and "=" in line:
                    return line.partition("=")[2].strip(" []") or "unknown version"
    return "unknown version"


def _devices(torch: str, torch_npu: str | None, cann: Check, environment: Mapping[str, str]) -> Iterator[Check]:
    command = [sys.executable, "-c", _TORCH_PROBE]
    try:
        probe = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, env=dict(environment), check=False
        )
    except subprocess.TimeoutExpired:
        yield Check("torch", BROKEN, f"{torch}: importing it takes over {_PROBE_TIMEOUT_S} s", "nvidia-smi")
        return
    if probe.returncode:
        reason = (probe.stderr.strip().splitlines() or ["no message"])[-1]
        remedy = "pip install --force-reinstall -e '.[engine]' in a checkout"
        if torch_npu is not None and cann.status != OK:
            remedy = cann.remedy or "export TORCH_DEVICE_BACKEND_AUTOLOAD=0"
        yield Check("torch", BROKEN, f"{torch} cannot be imported: {reason}", remedy)
        return
    seen = json.loads(probe.stdout.splitlines()[-1])
    yield Check("torch", OK, f"{torch}, {seen['threads']} threads")
    yield _accelerator("cuda", seen["cuda"], "nvidia-smi")
    yield _accelerator("npu", seen["npu"], "npu-smi")


def _accelerator(kind: str, names: list[str], tool: str) -> Check:
    if names:
        return Check(kind, OK, ", ".join(names))
    if shutil.which(tool):
        remedy = "pip install torch --index-url https://download.pytorch.org/whl/cu130"
        found = f"{tool} is here, but this torch sees no {kind} device"
        return Check(kind, BROKEN, found, remedy if kind == "cuda" else "pip install -e '.[npu]' in a checkout")
    return Check(kind, ABSENT, "no device; --device cpu works")


def _launching(environment: Mapping[str, str]) -> Check:
    """Variables that change what the host's launches cost, and so what a recording shows."""
    blocking = [name for name in _BLOCKING if environment.get(name, "0") not in ("", "0")]
    if blocking:
        found = f"{blocking[0]} is set: every launch waits for the device, and nothing overlaps"
        return Check("launches", BROKEN, found, f"unset {blocking[0]}")
    queue = environment.get("TASK_QUEUE_ENABLE")
    if queue is None:
        return Check("launches", OK, "asynchronous")
    return Check("launches", OK, f"asynchronous; TASK_QUEUE_ENABLE={queue} (an npu's default is 1)")


def _machine() -> Check:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    found = f"{platform.machine()}, {cores} cores, load {load:.1f}"
    if cores < 2:
        return Check(
            "machine", BROKEN, f"{found}: the cpu device needs a core beside the host's", "taskset -c 0,1 simtool"
        )
    return Check("machine", OK, found)
