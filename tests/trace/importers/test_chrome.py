"""Broken trace-event files: what is sound is kept, what is lost is counted."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from simtool.errors import TraceError
from simtool.trace.importers.chrome_json.events import EventFile
from simtool.trace.importers.chrome_json.times import to_span_ns
from simtool.trace.importers.ledger import Ledger

_EVENTS = [{"name": f"e{i}", "ph": "X", "ts": i, "dur": 1} for i in range(4)]
_WHOLE = json.dumps({"schemaVersion": 1, "traceEvents": _EVENTS, "traceName": "t"})
_SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "perfetto_json"


@dataclass(frozen=True)
class Read:
    """What came of a file: its events without the keys that were not there."""

    header: dict[str, Any]
    events: list[dict[str, Any]]


def _read_file(path: Path, ledger: Ledger) -> Read:
    file = EventFile(path, ledger)
    events = [
        {key: value for key, value in msgspec.structs.asdict(event).items() if value is not None}
        for events in file.lists()
        for event in events
    ]
    return Read(file.header, events)


def _read(tmp_path: Path, data: str | bytes) -> tuple[Read, Ledger]:
    path, ledger = tmp_path / "trace.json", Ledger()
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return _read_file(path, ledger), ledger


def _names(trace: Read) -> list[str]:
    return [event["name"] for event in trace.events]


def span_ns(event: dict[str, Any]) -> tuple[int, int] | None:
    return to_span_ns(event.get("ts"), event.get("dur"))


@pytest.mark.parametrize(
    "text",
    [
        _WHOLE,
        json.dumps(_EVENTS),
        "\ufeff" + _WHOLE,
        _WHOLE.replace("}], ", "},\n], "),
        json.dumps(_EVENTS)[:-1] + ",]",
    ],
    ids=["object", "array", "byte-order mark", "trailing comma", "trailing comma in an array"],
)
def test_whole_files_lose_nothing(tmp_path: Path, text: str) -> None:
    trace, ledger = _read(tmp_path, text)
    assert _names(trace) == ["e0", "e1", "e2", "e3"]
    assert trace.header == ({} if text.startswith("[") else {"schemaVersion": 1, "traceName": "t"})
    assert not ledger.rejected


def test_the_header_is_kept_even_of_a_broken_file(tmp_path: Path) -> None:
    assert _read(tmp_path, _WHOLE)[0].header == {"schemaVersion": 1, "traceName": "t"}
    assert _read(tmp_path, _WHOLE[: _WHOLE.index('"e3"')])[0].header == {"schemaVersion": 1}


@pytest.mark.parametrize("end", ['{"name": "e3"', '{"name": "e3", ', '"e3"'])
def test_a_truncated_file_keeps_its_whole_events(tmp_path: Path, end: str) -> None:
    trace, ledger = _read(tmp_path, _WHOLE[: _WHOLE.index(end) + len(end) - 1])
    assert _names(trace) == ["e0", "e1", "e2"]
    assert dict(ledger.rejected) == {"JSON breaks off, the rest is lost": 1}


def test_cut_anywhere_a_file_gives_its_first_events_and_says_so(tmp_path: Path) -> None:
    for cut in range(_WHOLE.index("[") + 1, len(_WHOLE)):
        trace, ledger = _read(tmp_path, _WHOLE[:cut])
        assert trace.events == _EVENTS[: len(trace.events)]
        assert len(trace.events) == _WHOLE[:cut].count("}")
        assert ledger.rejected.total() == 1


def test_an_array_without_its_end_is_told(tmp_path: Path) -> None:
    trace, ledger = _read(tmp_path, json.dumps(_EVENTS)[:-1] + ",\n")
    assert len(trace.events) == 4
    assert ledger.rejected.total() == 1


def test_truncated_gzip_keeps_what_can_be_unpacked(tmp_path: Path) -> None:
    events = [{"name": f"e{i}", "ph": "X", "ts": i * 7919 % 1013, "dur": i} for i in range(5000)]
    data = gzip.compress(json.dumps(events).encode())
    assert len(_read(tmp_path, data)[0].events) == 5000
    trace, ledger = _read(tmp_path, data[: len(data) // 2])
    assert 0 < len(trace.events) < 5000
    assert trace.events == events[: len(trace.events)]
    assert dict(ledger.rejected) == {
        "compressed data is damaged or ends early": 1,
        "JSON breaks off, the rest is lost": 1,
    }


def test_events_that_are_no_tables_are_rejected(tmp_path: Path) -> None:
    trace, ledger = _read(tmp_path, '[{"name": "a"}, 5, "b", {}]')
    assert trace.events == [{"name": "a"}, {}]
    assert dict(ledger.rejected) == {"event is not a JSON table": 2}
    assert ledger.first["event is not a JSON table"] == "5"


@pytest.mark.parametrize("text", ["", "hello", '{"traceEvents": 5}', '{"other": []}', "5", '{"trace'])
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match="trace"):
        _read(tmp_path, text)
    with pytest.raises(TraceError, match="cannot be read"):
        _read_file(tmp_path / "missing", Ledger())


def test_times_are_exact_to_the_nanosecond(tmp_path: Path) -> None:
    texts = (
        '{"ts": 1736408883688177.931, "dur": 53.7410625}',
        '{"ts": "1736408883688177.931\\t", "dur": " 1"}',
        '{"ts": 5, "dur": 0}',
    )
    spans = [span_ns(event) for event in _read(tmp_path, f"[{', '.join(texts)}]")[0].events]
    assert spans == [
        (1_736_408_883_688_177_931, 1_736_408_883_688_231_672),
        (1_736_408_883_688_177_931, 1_736_408_883_688_178_931),
        (5000, 5000),
    ]


@pytest.mark.parametrize(
    "event",
    [
        '{"ts": 1}',
        '{"dur": 1}',
        '{"ts": "soon", "dur": 1}',
        '{"ts": 1, "dur": -1}',
        '{"ts": NaN, "dur": 1}',
        '{"ts": "Infinity", "dur": 1}',
        '{"ts": true, "dur": 1}',
        '{"ts": 1e30, "dur": 1}',
        '{"ts": null, "dur": 1}',
    ],
)
def test_what_is_no_span_is_none(tmp_path: Path, event: str) -> None:
    assert span_ns(_read(tmp_path, f"[{event}]")[0].events[0]) is None


@pytest.mark.skipif(not _SAMPLES.is_dir(), reason="the public sample traces are not beside the repository")
@pytest.mark.parametrize(
    ("name", "spans", "rejected"),
    [
        ("json_incomplete.json", 1, 1),
        ("json_trailing_comma.json", 2, 0),
        ("string_ts_and_dur.json", 1, 0),
        ("invalid_string_ts_and_dur.json", 0, 0),
        ("trailing_empty_event.json", 1, 0),
    ],
)
def test_real_broken_samples(name: str, spans: int, rejected: int) -> None:
    ledger = Ledger()
    trace = _read_file(_SAMPLES / name, ledger)
    assert sum(span_ns(event) is not None for event in trace.events) == spans
    assert ledger.rejected.total() == rejected
