import json

from simtool.cli.main import run
from simtool.step.placement import BUILT_IN


def test_lists_the_built_ins_with_order_and_lag(capsys):
    assert run(["placements"]) == 0
    printed = capsys.readouterr().out
    for name in BUILT_IN:
        assert name in printed
    rows = {line.split()[0]: line.split() for line in printed.splitlines() if line}
    assert rows["lag-overlap"] == ["lag-overlap", "1", "after", "read_states", "-"]
    assert rows["static"] == ["static", "-", "never", "-"]
    assert rows["xllm-2280/lag"][-2:] == ["fill_varlen,", "launch_verify|-"]
    assert "build_varlen|build_dense" not in printed
    assert run(["placements", "--verbose"]) == 0
    assert "build_varlen|build_dense" in capsys.readouterr().out
    assert run(["placements", "lag"]) == 0
    assert "lag: legal. lag 1: the decision reads confidence 1 step old." in capsys.readouterr().out


def test_json_gives_each_need_its_giver(capsys):
    assert run(["placements", "this-step", "--json"]) == 0
    (placement,) = json.loads(capsys.readouterr().out)["placements"]
    assert placement["lag_steps"] == 0
    assert placement["dependencies"]["decide"] == {"states": "read_states", "decision_confidence": "read_confidence"}


def test_a_lagged_confidence_comes_with_the_states(capsys):
    assert run(["placements", "lag", "--json"]) == 0
    (placement,) = json.loads(capsys.readouterr().out)["placements"]
    assert placement["dependencies"]["decide"]["decision_confidence"] == "read_states"


def test_checks_a_file(tmp_path, capsys):
    legal = tmp_path / "mine.toml"
    order = " ".join(str(slot) for slot in BUILT_IN["lag"].order)
    legal.write_text(f'order = "{order}"\nlag_steps = 1\n')
    assert run(["placements", str(legal)]) == 0
    assert "mine: legal" in capsys.readouterr().out

    illegal = tmp_path / "early.toml"
    illegal.write_text('order = "decide schedule"\nlag_steps = 0\n')
    assert run(["placements", str(illegal)]) == 2
    assert "early" in capsys.readouterr().err


def test_what_runs_for_the_next_step_is_shown_with_what_it_needs_of_this_one(capsys):
    assert run(["placements", "lag-ahead", "--json"]) == 0
    (placement,) = json.loads(capsys.readouterr().out)["placements"]
    needs = placement["dependencies"]
    assert needs["next:advance_query"] == {"verdict": "launch_verify"}
    assert needs["next:launch_draft"] == {"query_batch": "next:advance_query", "context": "extend_context"}
    assert needs["launch_draft"] == {"query_batch": "build_query"}
    assert run(["placements", "lag-ahead"]) == 0
    assert "nothing was launched ahead for" in capsys.readouterr().out
