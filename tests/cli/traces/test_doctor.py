"""Doctor's checks, each on an environment made for it."""

import json
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.cli.shared import diagnosis
from simtool.cli.shared.diagnosis import ABSENT, BROKEN, OK, Check


def _named(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def test_without_any_package_every_line_has_a_remedy(monkeypatch):
    monkeypatch.setattr(diagnosis, "package_version", lambda _name: None)
    checks = _named(diagnosis.diagnose({}))
    assert checks["polars"] == Check("polars", BROKEN, "not installed", "pip install simtool")
    assert checks["torch"].status == ABSENT
    assert checks["torch"].remedy == "pip install -e '.[engine]' in a checkout"


def test_a_torch_that_cannot_be_imported_for_want_of_cann(monkeypatch):
    monkeypatch.setattr(diagnosis, "package_version", lambda _name: "2.13.0")
    monkeypatch.setattr(diagnosis, "_TORCH_PROBE", "raise ImportError('libhccl.so: cannot open')")
    monkeypatch.setattr(diagnosis, "_CANN_DEFAULT", Path("/nonexistent"))
    checks = _named(diagnosis.diagnose({}))
    assert checks["torch"].status == BROKEN
    assert "libhccl.so" in checks["torch"].found
    assert checks["torch"].remedy == "export TORCH_DEVICE_BACKEND_AUTOLOAD=0"
    assert checks["CANN"].status == ABSENT


def test_torch_and_torch_npu_must_match(monkeypatch):
    versions = {"torch": "2.12.1+cpu", "torch_npu": "2.13.0.post1"}
    monkeypatch.setattr(diagnosis, "package_version", lambda name: versions.get(name, "1"))
    monkeypatch.setattr(diagnosis, "_TORCH_PROBE", """print('{"cuda": [], "npu": ["910B3"], "threads": 1}')""")
    checks = _named(diagnosis.diagnose({}))
    assert checks["npu"] == Check("npu", OK, "910B3")
    assert checks["torch_npu"].status == BROKEN
    assert checks["torch_npu"].remedy == "pip install torch==2.13.0"


def test_cann_in_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(diagnosis, "package_version", lambda _name: None)
    (tmp_path / "version.cfg").write_text("[runtime_running_version=8.2.RC1]\n")
    found = _named(diagnosis.diagnose({"ASCEND_HOME_PATH": str(tmp_path)}))["CANN"]
    assert found.status == OK
    assert "8.2.RC1" in found.found
    gone = _named(diagnosis.diagnose({"ASCEND_HOME_PATH": str(tmp_path / "gone")}))["CANN"]
    assert gone.remedy == "unset ASCEND_HOME_PATH"


@pytest.mark.parametrize("name", ["ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"])
def test_launches_that_block_make_a_recording_worthless(name, monkeypatch):
    monkeypatch.setattr(diagnosis, "package_version", lambda _name: None)
    launches = _named(diagnosis.diagnose({name: "1"}))["launches"]
    assert (launches.status, launches.remedy) == (BROKEN, f"unset {name}")
    assert _named(diagnosis.diagnose({name: "0"}))["launches"].status == OK
    assert "TASK_QUEUE_ENABLE=2" in _named(diagnosis.diagnose({"TASK_QUEUE_ENABLE": "2"}))["launches"].found


def test_the_command_says_broken_with_status_1(monkeypatch, capsys):
    monkeypatch.setattr(
        "simtool.cli.commands.traces.doctor.diagnose", lambda _env: [Check("torch", BROKEN, "bad", "mend me")]
    )
    assert run(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["checks"][0]["remedy"] == "mend me"
    assert run(["doctor"]) == 1
    assert "mend: mend me" in capsys.readouterr().out
