"""A sweep on a real scheduler with worker processes, one of which is killed: the same table, to the last bit."""

import os
import signal

import pytest

from simtool.errors import UsageError
from simtool.study.runner import silent
from simtool.study.sweep import sweep
from tests.study.test_points import grid

distributed = pytest.importorskip("distributed")


def test_a_worker_that_dies_changes_nothing(tmp_path):
    made = grid(tmp_path, requests=20)
    killed = []
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:

        def kill_one(done: int) -> None:
            if done and not killed:
                killed.append(next(iter(cluster.workers.values())).pid)
                os.kill(killed[0], signal.SIGKILL)

        swept = sweep(made, processes=1, progress=kill_one, cluster=cluster.scheduler_address)
    assert killed
    assert swept.table.equals(sweep(made, processes=1, progress=silent).table)


def test_an_address_where_nobody_listens_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no scheduler answers there"):
        sweep(grid(tmp_path), processes=1, progress=silent, cluster="tcp://127.0.0.1:1")
