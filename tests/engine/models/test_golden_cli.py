"""The golden cases through the command line, on the real device process, read back from the trace."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simtool.cli.main import run
from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.trace import open_trace
from tests.engine import golden


@pytest.mark.parametrize("name", golden.NAMES)
def test_every_step_of_the_reference_is_in_the_rows_table(name, tmp_path, capsys):
    cases = golden.cases(name)
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(
        "".join(json.dumps({"prompt_ids": c["prompt"], "max_new_tokens": len(c["output"])}) + "\n" for c in cases)
    )
    folder = golden.FOLDER / name
    options = ["--target", str(folder / "target"), "--draft", str(folder / "draft"), "--prompt-ids", str(prompts)]
    assert run(["record", *options, "--policy", "static", "--dtype", "float32", "--out", str(tmp_path / "b")]) == 0
    assert f"{len(cases)} prompts of" in capsys.readouterr().err
    trace = open_trace(tmp_path / "b")
    assert trace.manifest.complete
    assert {finding.severity for finding in check_trace(trace)} <= {Severity.NOTE}  # anchors not visited
    assert trace.manifest.sl == len(cases[0]["steps"][0]["draft"])
    outputs = trace.table("requests").sort("request_id")["output_ids"].to_list()
    assert outputs == [case["output"] for case in cases]
    rows = trace.table("rows")
    for i, case in enumerate(cases):
        ours = rows.filter(request_id=f"r{i:04d}").sort("step").to_dicts()
        # the z-lab reference records no round that lacks room for a whole block, so its list may be shorter
        assert len(ours) >= len(case["steps"]) > 0
        for row, step in zip(ours, case["steps"], strict=False):
            assert row["anchor_position"] == step["start"]
            assert row["draft_tokens"] == step["draft"]
            assert row["accepted"] == step["accepted"]
            assert row["prefix_len"] == trace.manifest.sl
            if step.get("confidence_logits") is None:
                assert row["confidence"] == row["draft_prob"]
            else:
                np.testing.assert_allclose(logit(row["confidence"]), step["confidence_logits"], atol=1e-4)


def logit(probabilities: list[float]) -> np.ndarray:
    p = np.array(probabilities, dtype=np.float64)
    return np.log(p / (1 - p))
