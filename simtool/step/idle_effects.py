"""What ran just before, as cost features: how long the host's last wait was, and the executor's last work.

Code that runs after a long pause, or after long work of another kind, finds cold caches and a core that has slept.
The costs that grow with that grow with its logarithm (docs/log/). A recording and a replay both come here for it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Of a host op: the length of the last wait that ended before it began.
HOST_IDLE = "host_lull"
#: Of device work: the time since its executor last took up work. Of the distance behind it: how long that work took.
DEVICE_IDLE = "device_lull"
IDLE_FEATURES = (HOST_IDLE, DEVICE_IDLE)

#: The time whose feature is 1: about where the effect sets in; predictions hardly change with 0.3 or 1 ms.
IDLE_UNIT_NS = 100_000


def idle_doublings(time_ns: int) -> float:
    """Return the feature of a time in ns: 0 for none, 1 for 0.1 ms, and one more for each doubling far above it."""
    return math.log2(1 + time_ns / IDLE_UNIT_NS)


@dataclass
class LastWait:
    """waited_ns: how long the host's last wait was; 0 before the first."""

    waited_ns: int = 0

    @property
    def doublings(self) -> float:
        """The feature of an op that begins now."""
        return idle_doublings(self.waited_ns)


@dataclass
class LastWork:
    """The last work of an in-order executor, in ns; none before the first."""

    start_ns: int | None = None
    end_ns: int = 0

    def doublings_behind(self) -> float:
        """Return the feature of the distance at which the next work follows this one."""
        return 0.0 if self.start_ns is None else idle_doublings(self.end_ns - self.start_ns)

    def doublings_at(self, start_ns: int) -> float:
        """Return the feature of work that starts at `start_ns`."""
        return 0.0 if self.start_ns is None else idle_doublings(start_ns - self.start_ns)
