"""A stopped sweep goes on: nothing is done twice, nothing half-written is used, and failures are told."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import pytest

from simtool.errors import ProfileError
from simtool.step.controller import LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.study.points import PointStore
from simtool.study.runner import Setting, silent
from simtool.study.sweep import Grid, sweep, with_gain
from simtool.trace.trace import open_trace
from tests.replay.synthetic import profile_of, random_costs, random_work, source_trace

ARMS = tuple(BUILT_IN[name] for name in ("static", "this-step", "lag"))


def grid(folder, requests=6) -> Grid:
    profile = replace(profile_of(random_costs(4)), predictor=LinearPredictor(0.5, 0.25, 0.001))
    path = folder / "s"
    source = open_trace(path) if path.exists() else source_trace(path, random_work(4, 3, requests, tokens=30))
    return Grid([Setting(source, profile, concurrency) for concurrency in (1, 2, 4)], ARMS)


def test_a_point_is_replayed_once_and_the_table_is_the_same(tmp_path):
    made, store = grid(tmp_path), PointStore(tmp_path / "points")
    plain = sweep(made, processes=1, progress=silent)
    half = replace(made, settings=made.settings[:2])
    assert sweep(half, processes=1, progress=silent, store=store).resumed == 0
    files = {path: path.stat().st_mtime_ns for path in store.folder.iterdir()}
    whole = sweep(made, processes=1, progress=silent, store=PointStore(store.folder))
    assert (whole.resumed, whole.table.equals(plain.table), whole.caveats) == (6, True, plain.caveats)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(list(store.folder.iterdir())) == 9


def test_another_input_is_another_point(tmp_path):
    made, store = grid(tmp_path), PointStore(tmp_path / "points")
    sweep(made, processes=1, progress=silent, store=store)
    setting = made.settings[0]
    changed = (
        replace(setting, profile=setting.profile.each_cost(lambda cost: cost.shifted(1))),
        replace(setting, stale_loss=0.5),
        replace(setting, seeds=(0,)),
        replace(setting, source=replace(setting.source, manifest=replace(setting.source.manifest, seed=9))),
    )
    for other in changed:
        assert sweep(Grid([other], ARMS), processes=1, progress=silent, store=store).resumed == 0
    assert store.get(setting, ARMS[0]) is not None


def test_a_damaged_point_is_replayed_again(tmp_path):
    made, store = grid(tmp_path), PointStore(tmp_path / "points")
    plain = sweep(made, processes=1, progress=silent, store=store)
    first, second, *_ = sorted(store.folder.iterdir())
    first.write_bytes(first.read_bytes()[:40])
    second.write_text("{}")
    again = sweep(made, processes=1, progress=silent, store=store)
    assert (again.resumed, again.table.equals(plain.table)) == (7, True)


def test_a_failing_point_is_told_and_the_rest_go_on(tmp_path):
    made = grid(tmp_path)
    decode = made.settings[1].profile.decode
    host = {name: cost for name, cost in decode.host.items() if name != "read_confidence"}
    lacking = replace(made.settings[1].profile, decode=replace(decode, host=host))
    broken = Grid([made.settings[0], replace(made.settings[1], profile=lacking)], ARMS)
    swept = sweep(broken, processes=1, progress=silent)
    assert swept.table.height == 5
    assert len(swept.failed) == 1
    assert swept.failed[0].startswith("s, this-step at concurrency 2: not replayed: profile synthetic has no cost of")
    assert set(with_gain(swept.table, "this-step")["concurrency"]) == {1}
    with pytest.raises(ProfileError, match="no cost of 'read_confidence'"):
        sweep(replace(broken, placements=ARMS[1:2], settings=broken.settings[1:]), processes=1, progress=silent)


def test_a_killed_sweep_goes_on(tmp_path):
    """Kill a sweep of another process once a point of it is there; the rest is done here, to the same table."""
    script = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from simtool.study.points import PointStore
        from simtool.study.runner import silent
        from simtool.study.sweep import sweep
        from tests.study.test_points import grid
        folder = Path(sys.argv[1])
        sweep(grid(folder), processes=1, progress=silent, store=PointStore(folder / "points"))
        """
    )
    made, points = grid(tmp_path, requests=40), tmp_path / "points"
    child = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], env=dict(os.environ))
    try:
        while not list(points.glob("*.json")):
            assert not child.poll()
            time.sleep(0.001)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    swept = sweep(made, processes=1, progress=silent, store=PointStore(points))
    assert swept.table.equals(sweep(made, processes=1, progress=silent).table)
    assert 1 <= swept.resumed <= 9
