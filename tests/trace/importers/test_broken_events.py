"""One bad event costs that event and nothing else."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from simtool.errors import TraceError
from simtool.trace.importers.chrome_json import events as events_module
from simtool.trace.importers.imported import Imported
from simtool.trace.importers.profile import ProfileOptions, import_profile
from tests.trace.importers.kineto_file import BASE_NS, call, kernel, read, rows, save

_SOUND = [
    call("cudaLaunchKernel", 10, 2, 1),
    kernel("a", 14, 5, 1),
    call("cudaLaunchKernel", 20, 2, 2),
    kernel("b", 24, 5, 2),
]


def _with(tmp_path: Path, broken: str, between: str = ",\n") -> Imported:
    """A file with one broken event in the middle of the sound ones."""
    texts = [json.dumps(event) for event in _SOUND]
    texts.insert(2, broken)
    path = tmp_path / "t.json"
    path.write_text(f'{{"baseTimeNanoseconds": {BASE_NS}, "traceEvents": [{between.join(texts)}]}}')
    return import_profile(path)


def _rejected(imported: Imported) -> dict[str, int]:
    told: Any = imported.manifest.details["rejected"]
    return {reason: entry["count"] for reason, entry in told.items()}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ('{"ph":"X","cat":"cpu_op","name":"D:\\Users\\q","pid":1,"tid":1,"ts":1,"dur":1}', "event is not JSON"),
        ('{"ph":"X","cat":"kernel","name":"say "hi"","pid":1,"tid":1,"ts":1,"dur":1}', "event is not JSON"),
        ('{"ph":"X","cat":"kernel","name":"cut","pid":1,"tid":1,"ts":', "event is not JSON"),
        (json.dumps(kernel("k", "9" * 40, 1, 7)), "ts and dur are no span of time"),
        (
            '{"ph":"X","cat":"kernel","name":"k","pid":1,"tid":1,"ts":1e999999999,"dur":1}',
            "ts and dur are no span of time",
        ),
        (json.dumps(kernel("k", 8_900_000_000_000_000, 1, 7)), "time is beyond 64 bits of ns since 1970"),
        (json.dumps({**kernel("k", 5, 1, 7), "pid": [1, 2]}), "pid or tid is no id"),
        (json.dumps(kernel("k", 5, -1, 7)), "ts and dur are no span of time"),
        ('["no", "event"]', "event is not a JSON table"),
    ],
)
@pytest.mark.parametrize("between", [",\n", ", ", "\n"], ids=["lines", "one line", "no comma"])
def test_one_bad_event_costs_that_event(tmp_path: Path, broken: str, reason: str, between: str) -> None:
    imported = _with(tmp_path, broken, between)
    assert [row[:2] for row in rows(imported, "op", "flow")] == [
        ("cudaLaunchKernel", 1),
        ("a", 1),
        ("cudaLaunchKernel", 2),
        ("b", 2),
    ]
    assert _rejected(imported) == {reason: 1}


@pytest.mark.parametrize("number", ["inf", "-inf", "nan", "NaN", "Infinity"])
def test_a_number_that_is_none_costs_the_number(tmp_path: Path, number: str) -> None:
    broken = f'{{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":21,' \
             f'"dur":1,"args":{{"device":0,"stream":7,"bytes":64,"memory bandwidth (GB/s)": {number}}}}}'  # fmt: skip
    imported = _with(tmp_path, broken)
    assert imported.frames["events"].height == 5
    assert list(_rejected(imported).values()) == [1]


def test_broken_events_far_apart_and_across_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With slices of 700 bytes every boundary falls somewhere else."""
    monkeypatch.setattr(events_module, "_SLICE_BYTES", 700)
    texts = []
    for i in range(200):
        texts += [
            json.dumps(call("cudaLaunchKernel", 10 * i, 2, i + 1)),
            json.dumps(kernel(f"k{i}", 10 * i + 4, 2, i + 1)),
        ]
        if i % 50 == 7:
            texts.append('{"ph": "X", "name": "a "quoted" name", "pid": 1, "tid": 1, "ts": 3, "dur": 1}')
    path = tmp_path / "t.json"
    path.write_text(f'{{"traceEvents": [{", ".join(texts)}], "baseTimeNanoseconds": {BASE_NS}}}')
    imported = import_profile(path)
    assert imported.frames["events"].height == 400
    assert _rejected(imported) == {"event is not JSON": 4}
    assert imported.manifest.clock == "unix time"


@pytest.mark.parametrize("base", [str(BASE_NS), float(BASE_NS), f"{BASE_NS}.0"])
def test_the_base_may_be_a_text_or_a_fraction(tmp_path: Path, base: object) -> None:
    imported = read(tmp_path, [kernel("a", 100.125, 20.5, 1)], baseTimeNanoseconds=base)
    assert imported.frames["events"].select("start_ns", "end_ns").row(0) == (BASE_NS + 100_125, BASE_NS + 120_625)
    assert imported.manifest.clock == "unix time"


def test_a_base_that_is_none_is_not_unix_time(tmp_path: Path) -> None:
    imported = read(tmp_path, [kernel("a", 1, 1, 1)], baseTimeNanoseconds="soon")
    assert imported.manifest.clock == "ts of the trace, as given"


def test_a_stamp_of_0_far_from_all_others_is_rejected(tmp_path: Path) -> None:
    far = 4_000_000_000_000
    imported = read(tmp_path, [kernel("lost", 0, 5, 9), kernel("a", far, 5, 1), kernel("b", far + 9, 5, 2)])
    assert [row[1] for row in rows(imported)] == ["a", "b"]
    assert list(_rejected(imported).values()) == [1]
    assert read(tmp_path, [kernel("first", 0, 5, 9), kernel("a", 20, 5, 1)]).frames["events"].height == 2


def test_begin_and_end_events_are_paired(tmp_path: Path) -> None:
    outer, inner = call("cudaGraphLaunch", 10, 0, 1), call("cudaStreamSynchronize", 30, 0, 2)
    events = [
        {**outer, "ph": "B"},
        {"ph": "E", "ts": 15, "pid": 40, "tid": 41, "cat": "cuda_runtime"},
        {**inner, "ph": "B"},
        {"ph": "E", "ts": "39.5", "pid": 40, "tid": 41, "cat": "cuda_runtime"},
        {"ph": "E", "ts": 50, "pid": 40, "tid": 41, "cat": "cuda_runtime"},
        {**inner, "ph": "B", "ts": 60},
        kernel("k", 20, 10, 1),
    ]
    imported = read(tmp_path, events)
    assert rows(imported) == [
        ("host", "cudaGraphLaunch", 10, 15, 1),
        ("compute", "k", 20, 30, 1),
        ("host", "cudaStreamSynchronize", 30, 39, 2),
    ]
    assert _rejected(imported) == {"E event without its B": 1, "B event without its E": 1}


def test_what_a_gz_unfolds_to_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(save(tmp_path / "t.json", [kernel("k", 1, 1, 1)] * 200_000).read_bytes()))
    with pytest.raises(TraceError, match=r"unfolds to more than 0\.00931 GiB; raise the limit with --max-expanded-gib"):
        import_profile(path, ProfileOptions(max_expanded_bytes=10_000_000))
    assert import_profile(path).frames["events"].height == 200_000


def test_an_event_without_an_end_is_not_held_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_module, "_SLICE_BYTES", 1000)
    monkeypatch.setattr(events_module, "_MAX_EVENT_BYTES", 5000)
    path = tmp_path / "t.json"
    path.write_text(f'[{json.dumps(_SOUND[1])}, {{"ph": "X", "name": "{"x" * 50_000}')
    imported = import_profile(path)
    assert imported.frames["events"].height == 1
    assert "event is too large to read" in _rejected(imported)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"PK\x03\x04zip", "is a zip archive; unpack it"),
        (b'{"traceEvents": 5}', "its traceEvents are no list"),
        (b"hello", "is not trace-event JSON"),
        (b'{"nodes": []}', "has no list of trace events"),
    ],
)
def test_refusals_name_the_reason(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=message):
        import_profile(path)


@pytest.mark.parametrize("args", ['"x"', "3", "[1]", "true"])
def test_args_that_are_no_table_are_told(tmp_path: Path, args: str) -> None:
    events = [json.dumps(kernel("k", 1, 1, 1)), json.dumps(kernel("k", 3, 1, 2)).replace("{", "{ ", 1)]
    broken = re.sub(r'"args": \{.*?\}', f'"args": {args}', json.dumps(kernel("k", 5, 1, 3)))
    (tmp_path / "t.json").write_text(f"[{', '.join([*events, broken])}]")
    imported = import_profile(tmp_path / "t.json")
    assert _rejected(imported) == {"args are no table; read as not said": 1}
    assert imported.frames["events"].height == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [("correlation", "x"), ("correlation", [1]), ("correlation", 10**30), ("stream", {"a": 1}), ("device", True)],
)
def test_what_an_arg_cannot_be_is_told(tmp_path: Path, key: str, value: object) -> None:
    broken = kernel("k", 5, 1, 3)
    broken["args"][key] = value
    imported = read(tmp_path, [kernel("k", 1, 1, 1), broken])
    assert _rejected(imported) == {f"{key} is nothing that it could be; read as not said": 1}
    assert imported.frames["events"].height == 2


def test_a_size_that_is_none_is_told(tmp_path: Path) -> None:
    imported = read(tmp_path, [kernel("k", 1, 1, 1, bytes=4096), kernel("k", 5, 1, 3, bytes=-1)])
    assert _rejected(imported) == {"bytes is nothing that it could be; read as not said": 1}
