"""`simtool first-run` on the stand-in: what a bare NPU host would send back, of the wheel's own part of it."""

from __future__ import annotations

import pytest

from simtool.engine.first_run.report import first_run

pytestmark = pytest.mark.usefixtures("npu")


def test_every_check_applies_and_goes_well():
    where, checks = first_run("npu:0")
    assert {check.name: check.said for check in checks if check.verdict != "ok"} == {}
    layouts = {check.name.split(", ")[1] for check in checks if check.name.startswith("attention")}
    assert layouts == {"BSH", "TND"}
    (waits,) = (check.facts["waits"] for check in checks if "waits" in check.facts)
    assert isinstance(waits, dict)
    assert [name for name, held in waits.items() if held] == ["upload from unpinned memory", "item"]
    assert "no NPU" in str(where["hardware"])
