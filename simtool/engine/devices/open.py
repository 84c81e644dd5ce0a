"""Opening a device by name: cpu, cuda or npu, each imported only when it is asked for."""

from __future__ import annotations

from simtool.engine.devices.protocol import Device
from simtool.engine.runner.spec import RunnerSpec
from simtool.errors import UsageError

DEVICE_NAMES = ("cpu", "cuda", "npu")


def open_device(name: str, spec: RunnerSpec) -> Device:
    """Open a device by name and load the models onto it; blocks until it is ready to work.

    name: cpu, cuda or npu (the current one), cuda:1, npu:0, or auto: the accelerator if there is one, else cpu.
    Raises UsageError for an unknown name, DeviceError for an absent device, CheckpointError and CapacityError for
    models that it cannot run.
    """
    if name == "auto":
        from simtool.engine.devices.stream import find_any  # noqa: PLC0415

        name = find_any() or "cpu"
    check_device_name(name)
    if name == "cpu":
        from simtool.engine.devices.cpu.device import CpuDevice  # noqa: PLC0415  each device imports only what it needs

        return CpuDevice(spec)
    from simtool.engine.devices.stream import StreamDevice  # noqa: PLC0415

    return StreamDevice(name, spec)


def torch_device(name: str) -> str:
    """Return what torch calls a device, for work without streams of its own; name and errors as in `open_device`."""
    if name == "cpu":
        return name
    from simtool.engine.devices.stream import find_any, find_device  # noqa: PLC0415

    name = (find_any() or "cpu") if name == "auto" else name
    check_device_name(name)
    return name if name == "cpu" else str(find_device(name))


def check_device_name(name: str) -> None:
    """Raise UsageError for a text that names no device."""
    kind, colon, index = name.partition(":")
    if kind not in DEVICE_NAMES:
        raise UsageError(f"unknown device {name!r}; expected one of {', '.join(DEVICE_NAMES)}, auto, or such as npu:0")
    if colon and (kind == "cpu" or not index.isdecimal()):
        raise UsageError(f"device {name!r}: only cuda and npu take an index, a whole number: such as npu:0")
