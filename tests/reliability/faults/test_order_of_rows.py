"""A table is a set of rows, and of columns by name: in another order it says the same, or it is told of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from simtool.analysis.metrics import summarise_trace
from simtool.calibrate.fit import calibrate
from simtool.profile.profile import Profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.checks.check import Severity, check_stored
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, open_trace
from tests.reliability.hostile.inputs import add_all_outcomes
from tests.reliability.hostile.spoiling import own_hash
from tests.replay.synthetic import constant_costs, profile_of
from tests.synthetic import make_trace

_ORDERS: dict[str, Callable[[pl.DataFrame], pl.DataFrame]] = {
    "rows reversed": lambda frame: frame.reverse(),
    "rows drawn": lambda frame: frame.sample(fraction=1.0, shuffle=True, seed=1),
    "columns out of order": lambda frame: frame.select(sorted(frame.columns)),
}


def _told(trace: Trace) -> object:
    """What the trace comes to: its own figures, its costs, and its replay."""
    fitted = calibrate([trace], name="c", command="c", created="2026-01-01")
    again = replay(trace, profile_of(constant_costs(pre=1_000, duration=5_000)), Scenario(BUILT_IN["lag-overlap"], 2))
    return summarise_trace(trace), _costs(fitted), [again.tables[name].rows() for name in ("steps", "rows", "events")]


def _costs(profile: Profile) -> list[float]:
    """The fitted lines, rounded as sums in another order are."""
    return [
        round(number, 3)
        for steps in (profile.prefill, profile.decode)
        for _, host in sorted(steps.host.items())
        for number in (host.pre.intercept_ns, *host.pre.per_feature_ns.values())
    ]


@pytest.mark.parametrize("order", _ORDERS)
@pytest.mark.parametrize("table", TABLES)
def test_in_another_order_a_table_says_the_same_or_is_told_of(table: str, order: str, tmp_path: Path) -> None:
    add_all_outcomes(make_trace(tmp_path / "run", "lag", requests=5, new_tokens=24))
    before = _told(open_trace(tmp_path / "run"))
    file = tmp_path / "run" / f"{table}.parquet"
    _ORDERS[order](pl.read_parquet(file)).write_parquet(file)
    own_hash(tmp_path / "run", table)
    trace = open_trace(tmp_path / "run")
    if not any(each.severity is not Severity.NOTE for each in check_stored(trace)):
        assert _told(trace) == before
