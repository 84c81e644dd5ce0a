from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from simtool.errors import TraceError
from simtool.step.scheduler import Request
from simtool.trace.importers.requests import read_requests

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
{"timestamp": 0.5, "input_length": 10, "output_length": 2}

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
    assert trace.requests == [Request("line-2", 10, 2, 0), Request("line-1", 6758, 500, 26_500_000)]
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
    assert frame.rows() == [("line-2", 0, 10, 2), ("line-1", 26_500_000, 6758, 500)]


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


@pytest.mark.skipif(not _SAMPLES.is_dir(), reason="the public sample traces are not beside the repository")
@pytest.mark.parametrize(
    ("name", "count"), [("azure_2023_conv_head3000.csv", 2999), ("mooncake_conversation_head1500.jsonl", 1500)]
)
def test_real_samples_are_read_whole(name: str, count: int) -> None:
    trace = read_requests(_SAMPLES / name)
    assert len(trace.requests) + trace.ledger.rejected.total() == count
    assert not trace.ledger.rejected
