"""The same numbers in other writings: a trace that went through another program says what it said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simtool.trace.importers.written import number, whole
from tests.trace.importers.kineto_file import call, kernel, read, span


def _events(as_id: Any, as_number: Any) -> list[dict[str, Any]]:
    copy = span("gpu_memcpy", "Memcpy DtoH (Device -> Host)", 40, 5, as_id(0), as_id(7))
    copy["args"] = {"correlation": as_number(3), "device": as_id(0), "stream": as_id(7), "bytes": as_number(4096)}
    return [
        call("cudaLaunchKernel", 5, 5, as_number(2), pid=as_id(40), tid=as_id(41)),
        kernel("a", 12, 20, as_number(2), as_id(0), as_id(7)),
        call("cudaMemcpyAsync", 33, 5, as_number(3), pid=as_id(40), tid=as_id(41)),
        copy,
    ]


@pytest.mark.parametrize("as_number", [float, str, lambda value: f" {value}", lambda value: f"{value}e0"])
@pytest.mark.parametrize("as_id", [int, float, lambda value: f"{value}.00"])
def test_numbers_in_another_writing_are_the_same_numbers(as_id: Any, as_number: Any, tmp_path: Path) -> None:
    plain, other = read(tmp_path, _events(int, int)), read(tmp_path, _events(as_id, as_number))
    assert other.frames["events"].equals(plain.frames["events"])
    assert other.manifest.details == plain.manifest.details
    assert plain.frames["events"]["bytes"].sum() == 4096


@pytest.mark.parametrize("name", ["CopyDeviceToHost", "CopyDeviceToHost2D", "Memcpy DtoH (Device -> Host)"])
def test_a_copy_to_the_host_by_any_name_of_rocm(name: str, tmp_path: Path) -> None:
    launch = call("hipMemcpyAsync", 5, 5, 2)
    copy = span("gpu_memcpy", name, 12, 5, 0, 1, correlation=2, device=0, stream=1, bytes=64)
    events = read(tmp_path, [launch, copy]).frames["events"]
    assert events["bytes"].sum() == 64
    assert events.filter(events["lane"] != "host")["lane"].to_list() == ["copy"]


def test_what_is_no_number_in_plain_digits_is_none() -> None:
    texts = ("1_0", "１", "nan", "inf", "1e9999", "9" * 65, "--5", "", "0x1", "1,000")
    for value in (*texts, True, None, float("nan"), 10**5_000, []):
        assert number(value) is None, value
    assert [whole(value) for value in (7, 7.0, "7", " 7.0\t", "2e3", "-1", "7.5", 1e300)] == [
        7, 7, 7, 7, 2000, -1, None, None,
    ]  # fmt: skip
