"""Costs beyond the calibrated sizes: every verdict says so, and is no surer than what was judged live allows."""

import numpy as np
import pytest

from simtool.analysis.comparison.arms import Arm, gather_arms
from simtool.analysis.comparison.compare import compare
from simtool.analysis.comparison.extrapolation import extrapolation
from simtool.analysis.comparison.runs import Run
from simtool.analysis.comparison.verdict import verdicts
from simtool.profile.judged_live import judged_live, stretch_error
from simtool.step.beyond import Beyond, stretch_of
from tests.synthetic import make_trace

TWICE = Beyond("schedule", "batch", 64, 1, 32)
FAR = Beyond("schedule", "batch", 640, 1, 32)
SMALL_OP = Beyond("read_confidence", "draft_tokens", 512, 16, 128)


def _arm(name: str, speeds: list[float], stretch: Beyond | None) -> Arm:
    runs = (
        Run(name, np.full(100, 8), np.full(100, round(1e9 / speed)), refitted=True, stretch=stretch) for speed in speeds
    )
    return Arm(f"{name} (modeled)", name, "modeled", tuple(runs), (), "modeled")


def _compared(gain: float, stretch: Beyond | None):
    speeds = np.array([10.0, 10.01, 9.99, 10.02])
    return compare(
        _arm("static", list(speeds), stretch), _arm("lag", list(speeds * [1, 1.001, 0.999, 1] * (1 + gain)), stretch)
    )


def test_a_step_is_stretched_by_its_batch_or_its_forwards_and_not_by_a_small_op():
    rows = Beyond("target", "target_rows", 512, 3, 256)
    assert stretch_of([SMALL_OP, rows, TWICE]) == TWICE
    assert stretch_of([SMALL_OP, rows]) == rows
    assert stretch_of([SMALL_OP]) is None
    assert stretch_of([Beyond("target", "validate_kv", 87, 366, 29_528)]) is None
    assert extrapolation([SMALL_OP]) is None


def test_the_error_is_that_of_the_nearest_stretch_judged_live():
    worst = {times: max(e.worst for e in judged_live().stretches if e.judged == times * e.fitted) for times in (2, 4)}
    for times, judged in ((1.3, 2), (2.0, 2), (2.1, 4), (4.0, 4)):
        found = stretch_error(times, above=True)
        assert found is not None
        assert found.worst == worst[judged]
    assert stretch_error(100.0, above=True) is None
    below = stretch_error(4.0, above=False)
    assert below is not None
    assert below.judged < below.fitted


def test_a_large_difference_keeps_its_direction_only():
    found = _compared(0.2, TWICE)
    worst = stretch_error(2.0, above=True).worst
    assert found.resolved
    assert found.verdict.endswith(
        f"; extrapolated beyond batch 32: direction only, costs stretched as far were up to {worst * 100:.1f} points "
        "off (docs/fidelity.md)"
    )
    assert str(found.extrapolation) in found.verdict


def test_a_difference_within_the_known_error_is_not_told():
    gain = stretch_error(2.0, above=True).worst / 2
    assert _compared(gain, None).resolved
    found = _compared(gain, TWICE)
    assert not found.resolved
    assert found.verdict.startswith("cannot tell lag from static: extrapolated beyond batch 32, and costs stretched")


def test_where_nobody_judged_a_stretch_nothing_is_told():
    found = _compared(0.5, FAR)
    assert not found.resolved
    assert "nobody judged costs stretched as far" in found.verdict


def test_what_spans_zero_names_the_stretch_too():
    found = compare(_arm("static", [10, 9, 11], TWICE), _arm("lag", [9, 11, 10], TWICE))
    assert found.spans
    assert found.verdict.endswith("; extrapolated beyond batch 32")
    (group,) = verdicts([_arm("static", [10, 9, 11], TWICE), *(_arm(n, [9, 11, 10], TWICE) for n in ("lag", "x"))])
    assert group.headline.endswith("; extrapolated beyond batch 32")


@pytest.mark.parametrize("stretch", [None, TWICE])
def test_the_headline_of_saved_replays_says_it(tmp_path, stretch):
    """The manifest carries it, so `compare` and `report` say what `replay` said."""
    beyond: dict[str, object] = {"beyond": [stretch.to_dict()]} if stretch else {}
    traces = [
        make_trace(tmp_path / name, name, origin="replayed", requests=18, details=beyond) for name in ("static", "lag")
    ]
    (group,) = verdicts(gather_arms(traces))
    assert ("extrapolated beyond batch 32" in group.headline) == bool(stretch)
