"""Device events on the host's clock.

A device event tells only how far it is from another event. An anchor is an event whose host time is known to within
half the round trip that took it. Distances from the latest anchor are stretched by the rate between the two clocks,
which is what all anchors so far have shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simtool.units import NS_PER_MS


@dataclass(frozen=True)
class Anchor:
    """host_ns: middle of the round trip. width_ns: its length. since_last_ms: device time since the anchor before."""

    host_ns: int
    width_ns: int
    since_last_ms: float = 0.0


@dataclass
class ClockMap:
    """Maps device distances to host times."""

    _first: Anchor | None = None
    _last: Anchor | None = None
    _device_ns: float = 0.0
    _widths_ns: list[int] = field(default_factory=list)

    def add(self, anchor: Anchor) -> None:
        """Take a newer anchor."""
        if self._first is None:
            self._first = anchor
        self._last = anchor
        self._device_ns += anchor.since_last_ms * NS_PER_MS
        self._widths_ns.append(anchor.width_ns)

    @property
    def host_per_device(self) -> float:
        """Host ns per device ns over all anchors; 1 while there is one anchor."""
        assert self._first is not None
        assert self._last is not None
        return (self._last.host_ns - self._first.host_ns) / self._device_ns if self._device_ns > 0 else 1.0

    def host_ns(self, since_anchor_ms: float) -> int:
        """Return the host time of an event this far from the latest anchor (negative: before it)."""
        assert self._last is not None
        return self._last.host_ns + round(since_anchor_ms * NS_PER_MS * self.host_per_device)

    def to_dict(self) -> dict[str, object]:
        """Return what a manifest keeps: offsets are known to half a round trip, the drift to what that leaves."""
        assert self._first is not None
        assert self._last is not None
        span_ns = self._last.host_ns - self._first.host_ns
        ends_ns = (self._first.width_ns + self._last.width_ns) / 2
        return {
            "mapping": "device events, anchored to the host's clock",
            "anchors": len(self._widths_ns),
            "offset_uncertainty_ns": max(self._widths_ns) / 2,
            "drift_ppm": (self.host_per_device - 1) * 1e6 if span_ns else None,
            "drift_uncertainty_ppm": ends_ns / span_ns * 1e6 if span_ns else None,
        }
