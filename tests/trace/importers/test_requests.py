from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from simtool.errors import TraceError
from simtool.step.scheduler import Request
from simtool.trace.importers.requests import is_request_trace, read_requests
from simtool.units import TimeUnit

_SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "requests"

_AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens\r
2024-02-29 23:59:59.9999999,374,44\r
2024-03-01 00:00:00.0000001,20,1\r
2024-02-29 23:59:59,10,5\r
yesterday,10,5\r
2024-02-30 10:00:00,10,5\r
2024-03-01 00:00:01,ten,5\r
2024-03-01 00:00:01,10,0\r
2024-03-01 00:00:02"""

_MOONCAKE = """\
{"timestamp": 27, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}
{"timestamp": 1, "input_length": 10, "output_length": 2}

{"timestamp": 30, "input_length": 7}
{"timestamp": true, "input_length": 7, "output_length": 7}
[1, 2]
{"timestamp": 31, "input_le"""


def _write(path: Path, text: str) -> Path:
    path.write_text(text, newline="")
    return path


def test_azure_times_are_exact_and_rejects_are_named(tmp_path: Path) -> None:
    trace = read_requests(_write(tmp_path / "a.csv", _AZURE))
    assert trace.format == "azure"
    assert trace.requests == [
        Request("line-4", 10, 5, 0),
        Request("line-2", 374, 44, 999_999_900),
        Request("line-3", 20, 1, 1_000_000_100),
    ]
    assert dict(trace.ledger.rejected) == {
        "arrival is no time": 2,
        "a length is no whole number": 2,
        "prompt or output has no token": 1,
    }
    assert trace.ledger.first["arrival is no time"].startswith("line 5: ['yesterday'")


def test_azure_times_may_carry_a_zone(tmp_path: Path) -> None:
    text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.25+00:00,1,1\n2024-05-10 02:00:01+02:00,1,1\n"
    trace = read_requests(_write(tmp_path / "a.csv", text))
    assert [request.arrival_ns for request in trace.requests] == [0, 750_000_000]


def test_mooncake_times_and_rejects(tmp_path: Path) -> None:
    trace = read_requests(_write(tmp_path / "m.jsonl", _MOONCAKE))
    assert trace.format == "mooncake"
    assert trace.requests == [Request("line-2", 10, 2, 0), Request("line-1", 6758, 500, 26_000_000)]
    assert dict(trace.ledger.rejected) == {
        "a length is no whole number": 1,
        "arrival is no time": 1,
        "line is not a JSON table": 1,
        "line is not JSON": 1,
    }


def test_the_frame_is_typed(tmp_path: Path) -> None:
    frame = read_requests(_write(tmp_path / "m.jsonl", _MOONCAKE)).frame
    assert frame.schema == pl.Schema(
        {"request_id": pl.String, "arrival_ns": pl.Int64, "prompt_tokens": pl.Int32, "output_tokens": pl.Int32}
    )
    assert frame.rows() == [("line-2", 0, 10, 2), ("line-1", 26_000_000, 6758, 500)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TIMESTAMP,ContextTokens\n", "no column 'GeneratedTokens'"),
        ("hello world\n", "starts with 'hello world'"),
        ("", "starts with ''"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,1\n", "no usable request.*arrival is no time"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "it has no rows"),
    ],
)
def test_a_file_without_requests_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read_requests(_write(tmp_path / "x", text))
    with pytest.raises(TraceError, match="cannot be read"):
        read_requests(tmp_path / "missing")


def _line(timestamp: object, **more: object) -> str:
    return (
        json.dumps({"timestamp": timestamp, "input_length": 12, "output_length": 3, **more}, ensure_ascii=False) + "\n"
    )


def _arrivals(path: Path, unit: TimeUnit | None = None) -> list[int]:
    return [request.arrival_ns for request in read_requests(path, unit).requests]


@pytest.mark.parametrize("zone", ["Z", "z", "+00:00", "+0000", "+00", " +0000"])
def test_a_zone_may_be_written_in_any_way(tmp_path: Path, zone: str) -> None:
    text = f"TIMESTAMP,ContextTokens,GeneratedTokens\n2025-01-01T08:00:00{zone},4,5\n2025-01-01T09:00:02.5+0100,4,5\n"
    assert _arrivals(_write(tmp_path / "a.csv", text)) == [0, 2_500_000_000]


def test_the_same_keys_may_count_seconds(tmp_path: Path) -> None:
    text = "".join(_line(at, chat_id=i, parent_chat_id=-1, turn=1) for i, at in enumerate((7.25, 9.5, 11)))
    path = _write(tmp_path / "b.jsonl", text)
    assert read_requests(path).format == "qwen-bailian"
    assert _arrivals(path) == [0, 2_250_000_000, 3_750_000_000]
    assert _arrivals(path, TimeUnit.MS) == [0, 2_250_000, 3_750_000]


def test_a_unit_that_nothing_tells_is_asked_for(tmp_path: Path) -> None:
    path = _write(tmp_path / "f.jsonl", _line(3) + _line(4.5))
    with pytest.raises(TraceError, match=r"line 2 has timestamp 4\.5.*--time-unit s or --time-unit ms"):
        read_requests(path)
    assert _arrivals(path, TimeUnit.S) == [0, 1_500_000_000]
    assert _arrivals(path, TimeUnit.MS) == [0, 1_500_000]


def test_a_rate_that_no_service_has_is_told(tmp_path: Path) -> None:
    (note,) = read_requests(_write(tmp_path / "r.jsonl", "".join(map(_line, range(40))))).notes
    assert note.startswith("1,026 requests a second, read as milliseconds")


def test_times_may_be_texts_and_lengths_whole_floats(tmp_path: Path) -> None:
    rows = [{"timestamp": "5", "input_length": "7.0", "output_length": 3.0}, {"timestamp": 6, "input_length": 1.5}]
    trace = read_requests(_write(tmp_path / "list.json", json.dumps(rows)))
    assert trace.requests == [Request("entry-1", 7, 3, 0)]
    assert dict(trace.ledger.rejected) == {"a length is no whole number": 1}


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_line_feed_ends_a_line(tmp_path: Path, separator: str) -> None:
    text = _line(0, note=f"one{separator}line") + _line(2000)
    trace = read_requests(_write(tmp_path / "m.jsonl", text))
    assert [request.arrival_ns for request in trace.requests] == [0, 2_000_000_000]
    assert not trace.ledger.rejected
    quoted = f"TIMESTAMP,ContextTokens,GeneratedTokens,Note\n2025-01-01 00:00:00,4,5,one{separator}line\n"
    assert len(read_requests(_write(tmp_path / "m.csv", quoted)).requests) == 1


def test_gzip_is_read_and_its_loss_told(tmp_path: Path) -> None:
    data = gzip.compress("".join(_line(at) for at in range(0, 5_000_000, 1000)).encode())
    (tmp_path / "m.jsonl.gz").write_bytes(data)
    assert len(read_requests(tmp_path / "m.jsonl.gz").requests) == 5000
    (tmp_path / "cut.gz").write_bytes(data[: len(data) // 2])
    cut = read_requests(tmp_path / "cut.gz")
    assert 0 < len(cut.requests) < 5000
    assert cut.ledger.rejected["compressed data is damaged or ends early"] == 1


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_another_encoding_is_named(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.csv").write_bytes(_AZURE.encode(encoding))
    with pytest.raises(TraceError, match=rf"is {encoding[:6].upper()}.* text; convert it first: iconv"):
        read_requests(tmp_path / "a.csv")


def test_burst_gpt_counts_seconds(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45.5,ChatGPT,1087,230,1317,API log\n46,GPT-4,90,0,90,API log\n"
    )
    trace = read_requests(_write(tmp_path / "b.csv", text))
    assert trace.format == "BurstGPT"
    assert trace.requests == [Request("line-2", 472, 18, 0), Request("line-3", 1087, 230, 40_500_000_000)]
    assert trace.ledger.rejected == {"prompt or output has no token": 1}


def test_share_gpt_says_that_its_lengths_are_estimates(tmp_path: Path) -> None:
    turns = [{"from": "human", "value": "abcdefghi"}, {"from": "gpt", "value": "abcd"}, {"from": "human", "value": "z"}]
    entries = [{"id": "x", "conversations": turns}, {"id": "y", "conversations": turns[:1]}]
    trace = read_requests(_write(tmp_path / "s.json", json.dumps(entries)))
    assert trace.requests == [Request("entry-1", 3, 1, 0)]
    assert trace.ledger.rejected == {"conversation has no turn and reply": 1}
    assert trace.notes[0].startswith("lengths are estimated, 4 characters a token")


def test_a_saved_benchmark_gives_its_requests(tmp_path: Path) -> None:
    record = {
        "backend": "vllm",
        "input_lens": [30, 40, 50],
        "output_lens": [5, 6, 0],
        "start_times": [9.5, 8.25, 9],
        "errors": ["", "", "timed out"],
    }
    trace = read_requests(_write(tmp_path / "v.json", json.dumps(record, indent=1)))
    assert trace.requests == [Request("entry-2", 40, 6, 0), Request("entry-1", 30, 5, 1_250_000_000)]
    assert trace.ledger.rejected == {"request failed in the benchmark": 1}
    lines = json.dumps({name: record[name] for name in ("input_lens", "output_lens")}) + "\n"
    untimed = read_requests(_write(tmp_path / "s.jsonl", lines + lines))
    assert [request.arrival_ns for request in untimed.requests] == [0, 0]
    assert untimed.notes == ("all requests arrive at once: the record has no start_times",)
    assert untimed.ledger.dropped == {"further benchmark runs in the file": 1}
    with pytest.raises(TraceError, match="--time-unit has no effect"):
        read_requests(tmp_path / "s.jsonl", TimeUnit.S)


def test_a_file_is_known_by_its_content_not_by_its_name(tmp_path: Path) -> None:
    for name, text, expected in (
        ("requests.json", _line(0), True),
        ("requests.txt", _AZURE, True),
        ("list.json", json.dumps([{"timestamp": 1, "input_length": 2}]), True),
        ("profile.json", '{"traceEvents": [{"ph": "X", "name": "conversations", "input_length": 3}]}', False),
    ):
        assert is_request_trace(_write(tmp_path / name, text)) is expected, name


@pytest.mark.skipif(not _SAMPLES.is_dir(), reason="the public sample traces are not beside the repository")
@pytest.mark.parametrize(
    ("name", "count"), [("azure_2023_conv_head3000.csv", 2999), ("mooncake_conversation_head1500.jsonl", 1500)]
)
def test_real_samples_are_read_whole(name: str, count: int) -> None:
    trace = read_requests(_SAMPLES / name)
    assert len(trace.requests) + trace.ledger.rejected.total() == count
    assert not trace.ledger.rejected
