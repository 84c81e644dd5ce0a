"""Work that will take minutes says so in its first seconds, once, from what it measured; other work says nothing."""

from __future__ import annotations

import pytest

from simtool.cli.shared import console
from simtool.cli.shared.estimate import Estimate, told_before
from simtool.progress import Expected


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def _lines(total: int, reports: list[tuple[float, int]]) -> list[str]:
    clock = Clock()
    estimate = Estimate("sweeping", total, clock)
    lines = []
    for at_s, done in reports:
        clock.now_s = 100.0 + at_s
        lines.append(estimate.heard(done))
    return [line for line in lines if line is not None]


@pytest.mark.parametrize("rate", [0.5, 2.0, 11.0, 400.0])
@pytest.mark.parametrize("total", [100, 5_000, 80_000])
def test_steady_work_is_told_where_it_takes_more_than_three_minutes(rate: float, total: int) -> None:
    lines = _lines(total, [(done / rate, done) for done in range(1, total, max(1, total // 5_000))])
    takes_s = total / rate
    assert len(lines) == (takes_s >= 180)
    for line in lines:
        number, unit = line.split("about ")[1].split(":")[0].split()
        told_s = float(number) * {"s": 1, "minutes": 60, "hours": 3600}[unit]
        assert told_s == pytest.approx(takes_s, rel=0.5)


def test_what_was_done_before_does_not_count_as_quick() -> None:
    (line,) = _lines(1_000, [(0.01, 900), (4.0, 901)])
    assert line.startswith("sweeping will take about 7 minutes: the first 1 % took 4 s")


def test_a_first_part_that_takes_long_is_told_when_it_is_done() -> None:
    (line,) = _lines(2, [(400.0, 1), (500.0, 2)])
    assert line.startswith("sweeping will take about 13 minutes: the first 50 % took 7 minutes")


@pytest.mark.parametrize(
    ("expected", "line"),
    [
        (None, None),
        (Expected(179.0, "12 replays"), None),
        (Expected(1_800.0, "12 replays"), "sweeping will take about 30 minutes: 12 replays; Ctrl-C stops it"),
        (Expected(1_800.0, "9 runs", at_most=True), "sweeping will take at most 30 minutes: 9 runs; Ctrl-C stops it"),
    ],
)
def test_what_is_known_before_is_told_before(expected: Expected | None, line: str | None) -> None:
    assert told_before("sweeping", expected) == line


def test_it_stands_before_the_work(capsys: pytest.CaptureFixture[str]) -> None:
    with console.progress("sweeping", 4, Expected(1_800.0, "12 replays")):
        assert "sweeping will take about 30 minutes" in capsys.readouterr().err
