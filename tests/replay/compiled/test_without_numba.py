"""Where numba cannot be imported, replays run on SimPy and one warning says why."""

import subprocess
import sys
from pathlib import Path

import simtool

SCRIPT = """
from simtool.errors import UsageError
from simtool.replay.compiled import controller, clock, planner
from simtool.replay.compiled.kernel import check_compiler, default_simulator

print(default_simulator())
try:
    check_compiler()
except UsageError as error:
    print(error)
"""


def test_a_file_in_the_way_of_numba_is_named_once(tmp_path: Path) -> None:
    """A script's folder comes first in the search for modules: any file there may hide one that numba needs."""
    (tmp_path / "llvmlite.py").write_text("")
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, tmp_path / "script.py"],
        env={"PYTHONPATH": str(Path(simtool.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    chosen, error = ran.stdout.splitlines()
    assert chosen == "simpy"
    assert "--simulator simpy" in error
    assert ran.stderr.count("numba cannot be imported") == 1
    assert "llvmlite" in ran.stderr


def test_no_benchmark_hides_a_module_that_is_installed() -> None:
    """The scripts of benchmarks/ are run from their folder, so their names come before installed packages."""
    folder = Path(__file__).parents[3] / "benchmarks"
    scripts = [path.stem for path in folder.glob("*.py")]
    assert len(scripts) > 5
    found = subprocess.run(
        [sys.executable, "-c", _FIND, *scripts], cwd=folder.parent, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []


_FIND = """
import sys
from importlib.util import find_spec
print(*[name for name in sys.argv[1:] if find_spec(name) is not None])
"""
