import json
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.step.policies.catalogue import POLICIES
from tests.cli.documents.schemas import checked

ROOT = Path(__file__).parents[2]
COSTS = ("--profile", str(ROOT / "models" / "profiles" / "measured-sl7.json"))


def test_lists_all_with_ages_and_whether_they_are_lossless(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(["policies"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith(
        "Rules that decide how many drafts a step verifies; what each gains: docs/policies.md."
    )
    for name, kind in POLICIES.items():
        assert name in printed.out
        assert kind.what in printed.out
    assert "budget (drafts in total)" in printed.err
    assert "simtool placements" in printed.err


def test_one_in_detail_names_parameters_and_counters(capsys):
    assert run(["policies", "sglang-relay:budget_age=1"]) == 0
    printed = capsys.readouterr().out
    assert "budget_age = 1" in printed
    assert f"source: {POLICIES['sglang-relay'].source}" in printed
    assert "RELAY_LAG_STEPS" in printed
    assert "not_ready_steps" in printed
    assert "this-step@sglang-relay" in printed


def test_json(capsys):
    assert run(["policies", "--json"]) == 0
    told = {each["name"]: each for each in json.loads(capsys.readouterr().out)["policies"]}
    assert set(told) == set(POLICIES)
    assert (told["vllm-adaptive"]["budget_age"], told["vllm-adaptive"]["split_age"]) == (1, 0)
    assert told["bandit"]["lossless"].startswith("yes")


@pytest.mark.parametrize("name", ["nobody", "oracle:x=1"])
def test_an_unknown_one_is_bad_use(capsys, name):
    assert run(["policies", name]) == 2
    assert "expected one of" in capsys.readouterr().err or name != "nobody"


def test_a_placement_with_a_policy_prints_json(capsys):
    assert run(["placements", "threshold:least=0.5", "--json"]) == 0
    (told,) = checked(capsys.readouterr().out)["placements"]
    assert told["policy"] == {"name": "threshold", "age": 0, "least": 0.5}


def test_a_replay_under_a_policy_prints_what_it_counted(capsys):
    assert run(["replay", str(ROOT / "traces" / "sl7-lag"), *COSTS, "--policy", "threshold", "--json"]) == 0
    static, threshold = checked(capsys.readouterr().out)["runs"]
    assert static["policy_counters"] is None
    assert threshold["policy_counters"] == {"full_width_rows": 0}
