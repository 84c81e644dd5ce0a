"""Virtual time: what runs beside what, who waits for whom, and the real tokens that come out."""

from __future__ import annotations

import pytest

from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.runner.runner import Runner, load_runner
from simtool.errors import DeviceError
from simtool.step.ops import Lane
from tests.engine import golden
from tests.engine.driving import generate

PROMPT = {"prefill_ids": [1, 2], "prefill_positions": [0, 1], "prefill_slot_mapping": [0, 1], "prefill_cu_rows": [0, 2]}
DURATIONS = {"build_prefill": 10, "prefill": 100, "read_tokens": 5}


@pytest.fixture(scope="module")
def runner() -> Runner:
    return load_runner(golden.spec("dspark_b7"))


def spans(device: TimedDevice) -> list[tuple[str, int, int]]:
    return [(timing.work, timing.start_ns, timing.end_ns) for timing in device.timings()]


def test_work_waits_for_its_lane_and_for_what_it_comes_after(runner):
    device = TimedDevice(runner, DURATIONS)
    first = device.upload("build_prefill", 1, PROMPT)
    second = device.upload("build_prefill", 2, PROMPT)
    kernel = device.launch("prefill", 2, (second,))
    read = device.download("read_tokens", 3, ("tokens",), (kernel,))
    assert device.now_ns() == 0
    assert device.timings() == []
    assert read.wait()["tokens"].shape == (1, 1)
    assert device.now_ns() == 125
    assert spans(device) == [
        ("build_prefill", 0, 10),
        ("build_prefill", 10, 20),
        ("prefill", 20, 120),
        ("read_tokens", 120, 125),
    ]
    assert device.timings() == []
    assert (first.lane, kernel.lane, read.event.lane) == (Lane.PREPARE, Lane.COMPUTE, Lane.COPY)


@pytest.mark.parametrize(("one_executor", "expected_ns"), [(False, (100, 200)), (True, (110, 210))])
def test_lanes_overlap_unless_one_executor_serves_them(runner, one_executor, expected_ns):
    device = TimedDevice(runner, DURATIONS, one_executor=one_executor)
    device.wait(device.upload("build_prefill", 1, PROMPT))
    device.launch("prefill", 1)
    device.upload("build_prefill", 2, PROMPT)
    kernel = device.launch("prefill", 2)
    device.wait(kernel)
    start_ns, end_ns = next(span[1:] for span in reversed(spans(device)) if span[0] == "prefill")
    assert (start_ns - 10, end_ns - 10) == expected_ns
    assert len(set(device.executors.values())) == (1 if one_executor else 3)


def test_work_starts_no_earlier_than_it_is_asked_for(runner):
    clock = VirtualClock(start_ns=1_000)
    device = TimedDevice(runner, DURATIONS, clock)
    clock.advance_to(1_500)
    device.wait(device.upload("build_prefill", 1, PROMPT))
    assert spans(device) == [("build_prefill", 1_500, 1_510)]
    device.wait(device.upload("build_prefill", 2, PROMPT))
    assert clock() == 1_520


def test_each_reading_of_a_ticking_clock_takes_time():
    clock = VirtualClock(tick_ns=3)
    assert [clock(), clock(), clock()] == [3, 6, 9]
    clock.advance_to(5)
    assert clock() == 12


def test_bytes_are_those_of_the_arrays(runner):
    device = TimedDevice(runner, DURATIONS)
    upload = device.upload("build_prefill", 1, PROMPT)
    kernel = device.launch("prefill", 1, (upload,))
    device.download("read_tokens", 1, ("tokens", "accepted"), (kernel,)).wait()
    assert [timing.bytes for timing in device.timings()] == [(2 + 2 + 2 + 2) * 8, 0, 16]


def test_a_work_without_duration_and_a_closed_device_are_refused(runner):
    device = TimedDevice(runner, {"prefill": 1})
    with pytest.raises(DeviceError, match="no duration for device work 'build_prefill'"):
        device.upload("build_prefill", 1, PROMPT)
    device.close()
    with pytest.raises(DeviceError, match="'prefill' was asked of a closed device"):
        device.launch("prefill", 1)


def test_a_run_repeats_to_the_nanosecond(runner):
    case = golden.cases("dspark_b7")[0]
    traces = []
    for _ in range(2):
        device = TimedDevice(runner, same_durations(700), VirtualClock(tick_ns=13))
        (stream,) = golden.streams([case["prompt"]])
        generate(device, [stream], 6)
        assert stream.output[:6] == case["output"][:6]
        traces.append(device.timings())
    assert traces[0] == traces[1]
    assert len(traces[0]) > 20
