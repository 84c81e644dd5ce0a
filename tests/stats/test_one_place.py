"""`simtool/stats` is the only place with an interval: nobody else asks for a quantile of t or resamples for one."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAKES_ONE = re.compile(r"stats\.t\b|\bppf\(|stats\.bootstrap|\bsem\(|0\.975|1\.96")


def test_no_other_room_makes_an_interval():
    files = [path for room in ("simtool", "reports", "benchmarks") for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 100
    # interval_coverage.py compares bootstraps that are not in use with the method that is, without a quantile of t
    others = [path for path in files if "simtool/stats/" not in path.as_posix()]
    assert [str(path) for path in others if MAKES_ONE.search(path.read_text())] == []
