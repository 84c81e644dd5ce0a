"""The device process: same tokens, times on the host's clock, and an end to every wait when it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simtool.engine.devices.cpu.device import CpuDevice
from simtool.engine.devices.open import open_device
from simtool.errors import CheckpointError, DeviceError
from simtool.step.ops import Lane
from tests.engine import golden
from tests.engine.driving import generate

PATIENCE_S = 60


@pytest.fixture(scope="module")
def device():
    device = open_device("cpu", golden.spec("dspark_b7"))
    yield device
    device.close()


@pytest.fixture
def fragile():
    """A device that the test may break."""
    device = CpuDevice(golden.spec("dspark_b7", slots=1))
    yield device
    device.close()


def index(numbers: list[int]) -> dict[str, list[int]]:
    return {"fill_source": numbers, "fill_destination": numbers}


def upload_for_long(device: CpuDevice) -> None:
    for flow in range(1_000):
        device.upload("fill_varlen_index", flow, index([1]))


def test_golden_tokens_and_times_on_the_hosts_clock(device):
    device.timings()
    cases = golden.cases("dspark_b7")[:4]
    streams = golden.streams([case["prompt"] for case in cases])
    before_ns = device.now_ns()
    generate(device, streams, 24, lambda step, running: [(step + s.slot) % 8 for s in running])
    after_ns = device.now_ns()
    assert [s.output[:24] for s in streams] == [case["output"][:24] for case in cases]
    timings = device.timings()
    assert before_ns <= timings[0].start_ns
    assert timings[-1].end_ns <= after_ns
    assert all(timing.start_ns <= timing.end_ns for timing in timings)
    assert all(first.end_ns <= second.start_ns for first, second in pairwise(timings))
    assert [timing.work for timing in timings[:5]] == [
        "build_prefill",
        "prefill",
        "read_tokens",
        "write_context",
        "context_kv",
    ]
    assert {timing.lane for timing in timings} == {Lane.PREPARE, Lane.COMPUTE, Lane.COPY}
    assert timings[2].bytes == 2 * 4 * 8
    assert timings[1].bytes == 0
    assert device.timings() == []


def test_it_says_what_it_is(device):
    assert device.name == "cpu"
    assert "cores" in device.hardware
    assert (device.info.drafts, device.info.block_width, device.info.max_tokens) == (7, 7, 160)
    assert device.pids[0] != os.getpid()


def test_launches_return_before_the_work_is_done(device):
    """Stop the process: everything can still be enqueued, and nothing is reported until it goes on."""
    os.kill(device.pids[0], signal.SIGSTOP)
    try:
        event = device.upload("fill_varlen_index", 5, index([1]))
        assert device.timings() == []
    finally:
        os.kill(device.pids[0], signal.SIGCONT)
    device.wait(event)
    assert [timing.flow for timing in device.timings()] == [5]


def test_more_in_flight_than_the_device_takes_at_once(device):
    numbers = list(range(50_000))
    for flow in range(30):  # 24 MB in all, three times the staging memory
        device.upload("fill_varlen_index", flow, index(numbers))
    for flow in range(30, 700):
        last = device.upload("fill_varlen_index", flow, index([flow]))
    device.wait(last)
    assert [timing.flow for timing in device.timings()] == list(range(700))


def test_downloads_may_be_read_late_in_any_order_or_never(device):
    case = golden.cases("dspark_b7")[0]
    (stream,) = golden.streams([case["prompt"]])
    generate(device, [stream], 4)
    downloads = [device.download("read_tokens", flow, ("tokens", "confidence")) for flow in range(20)]
    first, last = downloads[0].wait(), downloads[-1].wait()
    assert first["tokens"].tolist() == last["tokens"].tolist()
    emitted = stream.steps[-1]["accepted"] + 1
    assert first["tokens"].tolist()[0][:emitted] == stream.output[-emitted:]


def test_an_upload_beyond_the_staging_memory_is_refused_and_harmless(device):
    with pytest.raises(DeviceError, match="build_dense: upload of 16777216 bytes; at most 8388608 fit"):
        device.upload("build_dense", 1, {"validate_ids": [0] * (2 << 20)})
    device.wait(device.upload("fill_varlen_index", 1, index([])))


def test_a_failure_reaches_the_host_with_message_and_traceback(fragile):
    arrays = {"prefill_ids": [99], "prefill_positions": [0], "prefill_slot_mapping": [0], "prefill_cu_rows": [0, 1]}
    fragile.upload("build_prefill", 1, arrays)
    fragile.launch("prefill", 1)
    event = fragile.upload("build_prefill", 2, arrays)
    with pytest.raises(DeviceError, match="the device process failed in 'prefill': IndexError: index out of") as caught:
        fragile.wait(event)
    assert "Traceback" in caught.value.__notes__[0]
    with pytest.raises(DeviceError, match="failed in 'prefill'"):
        fragile.launch("draft", 1)


def test_a_killed_process_is_noticed_while_waiting(fragile):
    os.kill(fragile.pids[0], signal.SIGSTOP)
    event = fragile.upload("fill_varlen_index", 1, index([1]))
    os.kill(fragile.pids[0], signal.SIGKILL)
    with pytest.raises(DeviceError, match="was killed by signal 9"):
        fragile.wait(event)
    with pytest.raises(DeviceError, match="was killed by signal 9"):
        fragile.upload("fill_varlen_index", 1, index([1]))


def test_a_killed_process_is_noticed_while_launching(fragile):
    os.kill(fragile.pids[0], signal.SIGKILL)
    with pytest.raises(DeviceError, match="was killed by signal 9"):
        upload_for_long(fragile)


def test_a_closed_device_refuses_work_and_its_process_is_gone():
    device = CpuDevice(golden.spec("dspark_b7", slots=1))
    event = device.upload("fill_varlen_index", 1, index([1]))
    device.close()
    device.close()
    assert not Path(f"/proc/{device.pids[0]}").exists()
    with pytest.raises(DeviceError, match="closed device"):
        device.launch("draft", 1)
    with pytest.raises(DeviceError, match="closed device"):
        device.wait(event)


def test_models_that_do_not_load_are_reported_as_such(tmp_path):
    spec = golden.spec("dspark_b7")
    with pytest.raises(CheckpointError, match=r"config\.json"):
        CpuDevice(type(spec)(tmp_path, spec.draft, 1, 1))


HOST = """
import sys, time
from simtool.engine.devices.cpu.device import CpuDevice
from tests.engine import golden
if __name__ == "__main__":
    device = CpuDevice(golden.spec("dspark_b7", slots=1))
    assert "torch" not in sys.modules, "the host of a cpu device needs no torch"
    print(device.pids[0], flush=True)
    sys.stdin.read()
"""


def test_the_process_ends_when_its_host_is_killed(tmp_path):
    script = tmp_path / "host.py"
    script.write_text(HOST)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, str(script)], env=environment, text=True, **pipes) as host:
        pid = int(host.stdout.readline())
        host.kill()
    give_up = time.monotonic() + PATIENCE_S
    while is_running(pid) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not is_running(pid)


def is_running(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status")
    try:
        return "State:\tZ" not in status.read_text()
    except OSError:
        return False
