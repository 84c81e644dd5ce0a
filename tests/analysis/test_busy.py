import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simtool.analysis.busy import BusyTime

_INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(_INTERVALS, st.integers(0, 90), st.integers(0, 40))
def test_equals_counting_every_nanosecond(intervals, start, length):
    starts = np.array([s for s, _ in intervals], np.int64)
    ends = starts + np.array([n for _, n in intervals], np.int64)
    covered = {t for s, e in zip(starts, ends, strict=True) for t in range(s, e)}
    expected = sum(t in covered for t in range(start, start + length))
    assert BusyTime(starts, ends).within(start, start + length) == expected


def test_without_work_nothing_is_covered():
    assert BusyTime([], []).within([0, 5], [3, 9]).tolist() == [0, 0]
