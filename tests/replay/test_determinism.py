"""The same scenario gives the same trace to the nanosecond, in any process."""

import os
import subprocess
import sys

_SCRIPT = """
import hashlib, tempfile
from pathlib import Path
from simtool.replay.replay import replay
from simtool.replay.scenario import Arrivals, Scenario
from simtool.replay.workload import Workload
from simtool.step.scheduler import Request
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import STREAMS, profile_of, random_costs, random_work, source_trace

profile, digest = profile_of(random_costs(5), STREAMS), hashlib.sha256()
with tempfile.TemporaryDirectory() as folder:
    source = source_trace(Path(folder) / "source", random_work(5, 4, 9))
    asked = tuple(Request(f"q{i}", 3 + i, 5 * i + 1, 700 * i) for i in range(9))
    for served in (source, Workload("made up", asked).drawn_from(source, 2)):
        for placement in BUILT_IN.values():
            scenario = Scenario(placement, 3, arrivals=Arrivals("poisson", 1e6), noise="none", seed=2)
            for name, table in sorted(replay(served, profile, scenario).tables.items()):
                digest.update(f"{name}{table.rows()}".encode())
print(digest.hexdigest())
"""


def _digest(hash_seed):
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.strip()


def test_two_processes_agree_to_the_nanosecond():
    first, second = _digest("1"), _digest("2")
    assert len(first) == 64
    assert first == second
