"""How quiet the machine was: a live figure is worth no more than the idle share beside it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")


@dataclass(frozen=True)
class MachineUse:
    """Shares of all cores' time over an interval. `others` is what neither this run nor its device process used."""

    cores: int
    idle: float
    ours: float
    others: float

    def to_dict(self) -> dict[str, float | int]:
        """Return plain numbers, shares rounded to a tenth of a percent."""
        return {
            "cores": self.cores,
            "idle_share": round(self.idle, 3),
            "own_share": round(self.ours, 3),
            "others_share": round(self.others, 3),
        }


class MachineMeter:
    """Reads the kernel's accounting at its start and at `stop`. pids: helper processes that count as ours."""

    def __init__(self, pids: tuple[int, ...] = ()) -> None:
        self._pids = pids
        self._start = self._read()

    def stop(self) -> MachineUse | None:
        """Return the use since the start, or None where the kernel keeps no such accounting."""
        if self._start is None:
            return None
        end = self._read()
        if end is None:
            return None
        cores = os.cpu_count() or 1
        busy, idle, own = (after - before for after, before in zip(end, self._start, strict=True))
        total = max(busy + idle, 1e-9)
        ours = min(own / total, 1.0)
        return MachineUse(cores, idle / total, ours, max(busy / total - ours, 0.0))

    def _read(self) -> tuple[float, float, float] | None:
        """Seconds of all cores busy and idle, and of ours busy, since boot."""
        if not _STAT.exists():
            return None
        tick = os.sysconf("SC_CLK_TCK")
        fields = [int(text) / tick for text in _STAT.read_text().splitlines()[0].split()[1:9]]
        idle = fields[3] + fields[4]
        own = time.process_time() + sum(_process_seconds(pid, tick) for pid in self._pids)
        return sum(fields) - idle, idle, own


def _process_seconds(pid: int, tick: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / tick
