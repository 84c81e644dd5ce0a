"""A first run finds what is wrong, goes on where something is refused, and says so in one report."""

from __future__ import annotations

import json

import pytest
import torch

from simtool.cli.main import run
from simtool.engine.first_run import attention, report
from simtool.engine.first_run.check import DeviceCheck, attempt
from simtool.engine.runner.attention import PlainKernels
from tests.cli.documents.schemas import checked

CPU = torch.device("cpu")


class OneKeyShort(PlainKernels):
    """Reads one key too few of each row."""

    def rows(self, cache, rows):
        rows.host_lengths.sub_(1).clamp_(min=1)
        return super().rows(cache, rows)

    def sequences(self, cache, rows, longest):
        rows.lengths.sub_(1)
        return super().sequences(cache, rows, longest)


class Refusing(PlainKernels):
    """Takes no rows, as an op does that a chip has not."""

    def rows(self, cache, rows):
        raise RuntimeError("head size 32 is not supported\nin 12 lines")


def verdicts(checks: list[DeviceCheck]) -> list[str]:
    return [check.verdict for check in checks]


@pytest.mark.parametrize(
    ("kernels", "expected"),
    [(PlainKernels(), ["ok", "ok"]), (OneKeyShort(), ["wrong", "wrong"]), (Refusing(), ["refused", "ok"])],
)
def test_attention_is_held_against_float64(monkeypatch, kernels, expected):
    monkeypatch.setattr(attention, "kernels_of", lambda device: {"own": kernels})
    checks = attention.check_attention(CPU, torch.float32)
    assert verdicts(checks) == expected
    assert [check.bad for check in checks] == [verdict != "ok" for verdict in expected]


def test_an_error_of_the_device_is_a_verdict_with_its_first_line():
    def check() -> DeviceCheck:
        raise RuntimeError("no such op\nand more")

    found = attempt("one", check)
    assert (found.verdict, found.said) == ("refused", "no such op")


def test_a_report_is_json_even_of_nan():
    found = DeviceCheck("one", "wrong", "nothing", {"largest_difference": {"a": float("nan")}, "b": 1})
    facts = json.loads(json.dumps(found.to_dict(), allow_nan=False))["facts"]
    assert facts == {"largest_difference": {"a": "nan"}, "b": 1}


def test_a_device_that_is_not_there_names_the_option(tmp_path, capsys):
    assert run(["first-run", "--device", "cuda:99", "--out", str(tmp_path / "report.json")]) != 0
    assert "--device says which to try: cpu, cuda or npu" in capsys.readouterr().err


def test_the_command_on_a_cpu(tmp_path, capsys):
    out = tmp_path / "report.json"
    assert run(["first-run", "--device", "cpu", "--out", str(out)]) == 0
    found = checked(out.read_text())
    assert {check["verdict"] for check in found["checks"]} == {"ok", "does not apply"}
    runs = [check for check in found["checks"] if check["name"].startswith("run")]
    assert [check["said"].split(" ", 1)[0] for check in runs] == ["48", "48"]
    assert all(check["facts"]["mean_ms"]["compute"]["target"] > 0 for check in runs)
    assert found["versions"]["torch"]
    absent = sum(check["verdict"] == "does not apply" for check in found["checks"])
    said = f"cpu: all {len(found['checks']) - absent} checks went well; {absent} do not apply to it"
    assert said in capsys.readouterr().out


def test_one_bad_check_is_a_finding(tmp_path, monkeypatch, capsys):
    here = dict.fromkeys(("device", "hardware", "python", "platform", "dtype"), "x")
    where = {**here, "versions": {}, "environment": {}, "cann": None, "layout_that_agrees": None}
    monkeypatch.setattr(report, "first_run", lambda *_: (where, [DeviceCheck("one", "refused", "no")]))
    out = tmp_path / "report.json"
    assert run(["first-run", "--device", "npu", "--out", str(out)]) == 1
    assert "npu: 1 of 1 checks failed: one" in capsys.readouterr().out
    assert json.loads(out.read_text())["checks"][0]["verdict"] == "refused"
