"""Device work that was launched while what it follows still ran: the distance behind that, where it is one."""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from simtool.calibrate.observed import Growing, Growth

_LATE_LAUNCH = 0.95


class Queued:
    """Such work of one run, in order; whether it queued is told at the end, when it is known how long launches take.

    Work that was launched shortly before what it follows was done starts when its launch is over, and shows that.
    """

    def __init__(self) -> None:
        self._keys: dict[tuple[str, ...], int] = {}
        self._key, self._behind_ns, self._values = array("h"), array("q"), Growing()

    def add(self, key: tuple[str, ...], place: int, value_ns: int, behind_ns: int, past: float) -> None:
        """Add work. key: kind of step, op, work. behind_ns: from its op's busy time to the end of what it follows."""
        self._key.append(self._keys.setdefault(key, len(self._keys)))
        self._behind_ns.append(behind_ns)
        self._values.add_behind(value_ns, place, past)

    def tell(self, launch: Growth, queue: Growth) -> None:
        """Add what queued to a table by kind of step and work. launch: what launches took, by kind, op and work."""
        late = {key: np.quantile(np.frombuffer(seen.value_ns, np.int64), _LATE_LAUNCH) for key, seen in launch.items()}
        offsets = [
            late.get(key, max((v for k, v in late.items() if k[:2] == key[:2]), default=0.0)) for key in self._keys
        ]
        works = [(kind, work) for kind, _, work in self._keys]
        numbers = {work: number for number, work in enumerate(dict.fromkeys(works))}
        key = np.frombuffer(self._key, np.int16)
        queued = np.frombuffer(self._behind_ns, np.int64) >= np.array(offsets, np.float64)[key]
        number = np.array([numbers[work] for work in works], np.int64)[key]
        values, steps, pasts = _columns(self._values)
        found = [(np.flatnonzero(queued & (number == each)), work) for work, each in numbers.items()]
        for places, work in sorted(((places, work) for places, work in found if len(places)), key=_first):
            queue[work].add_all(values[places], steps[places], pasts[places])


def _first(found: tuple[NDArray[np.int64], tuple[str, str]]) -> int:
    return int(found[0][0])


def _columns(values: Growing) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    return (
        np.frombuffer(values.value_ns, np.int64),
        np.frombuffer(values.step, np.int32),
        np.frombuffer(values.past, np.float64),
    )
