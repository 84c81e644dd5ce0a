"""The profiler's trace of the device process: it is written, and it holds the device's own work."""

from __future__ import annotations

import json

import pytest

from simtool.engine.devices.open import open_device
from simtool.engine.devices.profiling import TRACE_NAME
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import UsageError
from simtool.step.placement import BUILT_IN
from tests.engine import golden


def test_the_device_process_is_profiled_and_then_works_on(tmp_path):
    spec = golden.spec("dspark_b7", slots=1)
    case = golden.cases("dspark_b7")[0]
    plan = RunPlan([Prompt("r0", tuple(case["prompt"]), 12)], BUILT_IN["static"])
    with Session(open_device("cpu", spec), spec) as session:
        with pytest.raises(UsageError, match="0 steps to profile"):
            session.profile(tmp_path / "out", plan, 0)
        session.profile(tmp_path / "out", plan, 2)
        result = session.run(plan)
    assert result.output_ids["r0"] == case["output"][:12]
    names = {event.get("name") for event in json.loads((tmp_path / "out" / TRACE_NAME).read_text())["traceEvents"]}
    assert {"aten::mm", "aten::scaled_dot_product_attention"} <= names
