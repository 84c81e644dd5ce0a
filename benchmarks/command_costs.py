"""What whole commands cost, each in a process of its own: seconds, CPU seconds and the peak of its resident memory.

    python benchmarks/command_costs.py memory    # a million rows: replay to disk, inspect, report: a minute
    python benchmarks/command_costs.py sweep     # 256 replays
    python benchmarks/command_costs.py answers   # the page of answers from every trace that ships

Imports are part of what is measured; compiled kernels are there already, which a first run sees to where it matters.
The peak is read from /proc, so it is told on Linux alone: what a parent holds counts in no other figure as its own.
"""

from __future__ import annotations

import argparse
import dataclasses
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from simtool.trace.manifest import read_manifest, write_manifest

ROOT = Path(__file__).parents[1]
#: About a million rows.
REQUESTS = 25_600
PLACEMENTS = ("static", "this-step", "lag", "lag-overlap")

#: Runs a module or a script as it runs by itself, and lastly tells the peak of the process.
_RUN = """
import atexit, pathlib, runpy, sys
status = pathlib.Path("/proc/self/status")
if status.exists():
    atexit.register(lambda: sys.stderr.write(next(line for line in status.open() if line.startswith("VmHWM:"))))
sys.argv = sys.argv[1:]
if sys.argv[0].endswith(".py"):
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@dataclass(frozen=True)
class Cost:
    """peak_mb: of resident memory of the process itself, not of its workers; None where the system does not tell."""

    wall_s: float
    cpu_s: float
    peak_mb: float | None

    def row(self, name: str) -> str:
        peak = "" if self.peak_mb is None else f"{self.peak_mb:,.0f} MB"
        return f"| {name} | {self.wall_s:.1f} | {self.cpu_s:.1f} | {peak} |"


def main() -> None:
    tables: Mapping[str, Callable[[Path], None]] = {"memory": memory, "sweep": sweep, "answers": answers}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="+", choices=tables)
    for name in parser.parse_args().tables:
        print("| command | s | CPU s | peak |\n|---|---|---|---|")
        with tempfile.TemporaryDirectory() as folder:
            tables[name](Path(folder))
        print(flush=True)


def memory(folder: Path) -> None:
    """Replay about a million rows to disk, and read them again."""
    kept = folder / "kept"
    script = ROOT / "benchmarks" / "replay_speed.py"
    print(cost_of([str(script), "--requests", str(REQUESTS), "--keep", str(kept)]).row("replay to disk"))
    print(cost_of(["simtool", "inspect", str(kept)]).row("`inspect` of it"))
    print(cost_of(["simtool", "report", str(kept), "--out", str(folder / "page.html")]).row("`report` of it"))
    again = ["simtool", "replay", str(kept), "--profile", str(ROOT / "models/profiles/measured-sl7.json")]
    print(cost_of([*again, "--policy", "lag", "--out", str(folder / "again")]).row("`replay --out` of it again"))
    manifest = dataclasses.replace(
        read_manifest(kept), origin="live"
    )  # costs of a replay are refused: nothing is measured
    write_manifest(kept, manifest)
    print(cost_of(["simtool", "calibrate", str(kept), "--out", str(folder / "costs.json")]).row("`calibrate` of it"))


def sweep(folder: Path) -> None:
    """4 placements, 2 SL, 4 concurrencies and 8 seeds; the first run may have to compile."""
    command = ["simtool", "sweep", str(ROOT / "traces/sl7-lag"), str(ROOT / "traces/sl16-lag")]
    command += [word for name in PLACEMENTS for word in ("--policy", name)]
    command += ["--concurrency", "1,8,32,64", "--seeds", "8", "--waves", "4", "--out"]
    cost_of([*command, str(folder / "first.parquet")])
    for run in ("second", "third"):
        print(cost_of([*command, str(folder / f"{run}.parquet")]).row(f"`sweep`, 256 replays, {run} run"))


def answers(folder: Path) -> None:
    """The page of answers, as `make answers` makes it."""
    traces = [str(path.parent) for path in sorted((ROOT / "traces").glob("*/manifest.json"))]
    figures = ROOT / "models/profiles/xllm-2280-like.toml"
    command = ["simtool", "answers", *traces, "--figures", str(figures), "--page", str(folder / "answers.html")]
    command += ["--out", str(folder / "answers.md"), "--profiles", str(folder / "profiles")]
    print(cost_of(command).row(f"`answers` of {len(traces)} traces"))


def cost_of(command: Sequence[str]) -> Cost:
    """Run a module or a script with its arguments; raises RuntimeError with its message when it fails."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", _RUN, *command], capture_output=True, text=True, check=False)
    wall_s, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode not in (0, 1):  # 1: it found something to say of the trace
        raise RuntimeError(f"{' '.join(command)}: {ran.stderr[:2000]}")
    peaks = [int(line.split()[1]) / 1024 for line in ran.stderr.splitlines() if line.startswith("VmHWM:")]
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall_s, cpu_s, peaks[-1] if peaks else None)


if __name__ == "__main__":
    main()
