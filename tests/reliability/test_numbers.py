"""Numbers on the command line are written plainly and stay within reason; each refusal is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from simtool.cli.main import run
from tests.reliability.scenarios import small_trace

_REPLAY = ("replay", "run", "--policy", "static")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*_REPLAY, "--concurrency", "1_0"), "--concurrency is '1_0'; expected a whole number in plain digits"),
        ((*_REPLAY, "--concurrency", "１"), "expected a whole number in plain digits"),
        ((*_REPLAY, "--concurrency", " 1"), "--concurrency is ' 1'"),
        ((*_REPLAY, "--concurrency", "9" * 30), "--concurrency is 1e+30; expected at most 4,096"),
        ((*_REPLAY, "--concurrency", "9" * 5000), "in plain digits"),
        ((*_REPLAY, "--kv-blocks", "99999999999"), "--kv-blocks is 1e+11; expected at most 10,000,000"),
        ((*_REPLAY, "--seeds", "1000000000"), "--seeds is 1e+09; expected at most 10,000"),
        ((*_REPLAY, "--seed", "1" + "0" * 30), "--seed is 1e+30; expected at most"),
        ((*_REPLAY, "--draft-ms", "nan"), "--draft-ms is 'nan'; expected a number in plain digits"),
        ((*_REPLAY, "--draft-ms", "1e400"), "--draft-ms is inf; expected at most"),
        ((*_REPLAY, "--arrivals", "poisson:1e-300"), "arrival rate is 1e-300 per second"),
        ((*_REPLAY, "--set", "target=" + "9" * 400 + "s"), "expected a time of at most"),
        (("sweep", "run", "--concurrency", "9" * 30), "is beyond reason"),
        (("sweep", "run", "--concurrency", "1_0"), "'1_0' is not a list of whole numbers"),
        (("search", "run", "--waves", "100000"), "--waves is 100000; expected at most 1,000"),
    ],
)
def test_beyond_reason(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    small_trace(tmp_path / "run")
    assert run(list(arguments)) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error
    assert len(error) < 500
