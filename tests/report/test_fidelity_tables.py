"""The tables of a validation fit a terminal of 80 columns, each in one piece."""

from simtool.analysis.comparison.headline import Metric
from simtool.analysis.fidelity.fidelity import Judged, JudgedPair
from simtool.report.terminal import fidelity
from simtool.stats.interval import Interval


def test_rows_are_short_and_marked():
    judged = Judged(
        "lag-overlap", "device idle/step", "ns", 2_000_000.0, Interval(1_950_000.0, 1_800_000.0, 2_100_000.0)
    )
    cells = fidelity._arm_row(judged)
    assert cells[-2:] == ("1.8 to 2.1 ms", "+2.6% \N{CHECK MARK}")
    assert sum(map(len, cells)) + 2 * (len(cells) - 1) <= 80
    live = Interval(0.941, 0.917, 0.966)
    pair = JudgedPair("static", "lag", Metric.TOKENS_PER_S, Interval(0.937, 0.918, 0.956), live)
    cells = fidelity._pair_row(pair)
    assert cells == ("lag", "static", "-6.3 (-8.2 to -4.4)", "-5.9 (-8.3 to -3.4)", "both")
