"""Device events on the host's clock, from anchors that are given here: no device, no waiting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simtool.engine.devices.clock_sync import Anchor, ClockMap

MS = 1_000_000


@given(drift_ppm=st.floats(-200, 200), gaps_ms=st.lists(st.integers(200, 400), min_size=1, max_size=20))
def test_a_steady_drift_is_found_and_taken_out(drift_ppm, gaps_ms):
    """The device's clock runs slow by drift_ppm: its milliseconds are longer."""
    rate = 1 + drift_ppm * 1e-6
    clock, host_ns = ClockMap(), 5_000_000_000
    clock.add(Anchor(host_ns, width_ns=20_000))
    for gap_ms in gaps_ms:
        host_ns += gap_ms * MS
        clock.add(Anchor(host_ns, width_ns=30_000, since_last_ms=gap_ms / rate))
    assert clock.host_ns(100 / rate) == pytest.approx(host_ns + 100 * MS, abs=2)
    assert clock.host_ns(-50 / rate) == pytest.approx(host_ns - 50 * MS, abs=2)
    facts = clock.to_dict()
    assert facts["anchors"] == len(gaps_ms) + 1
    assert facts["drift_ppm"] == pytest.approx(drift_ppm, abs=0.01)
    assert facts["offset_uncertainty_ns"] == 15_000
    assert facts["drift_uncertainty_ppm"] == pytest.approx(25_000 / (sum(gaps_ms) * MS) * 1e6)


def test_one_anchor_tells_an_offset_and_no_drift():
    clock = ClockMap()
    clock.add(Anchor(1_000, width_ns=100))
    assert clock.host_ns(0.5) == 501_000
    facts = clock.to_dict()
    assert (facts["drift_ppm"], facts["drift_uncertainty_ppm"], facts["offset_uncertainty_ns"]) == (None, None, 50)
