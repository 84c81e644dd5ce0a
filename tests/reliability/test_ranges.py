"""Every number and name that comes from a file has a range; what lies outside is one line that names it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simtool.cli.main import run
from simtool.engine.prompts.chat import ChatTemplate
from simtool.engine.prompts.files import read_prompt_ids
from simtool.engine.prompts.time_limit import stopped_after
from simtool.errors import CheckpointError, PlacementError, ProfileError, UsageError
from simtool.files.names import shown
from simtool.profile.profile import Profile
from simtool.profile.whatif import with_change
from simtool.replay.scenario import Arrivals, Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, load_placement
from tests.replay.synthetic import constant_costs, profile_of

Change = Callable[[dict[str, Any]], None]


def _predictor(value: float) -> Change:
    def act(table: dict[str, Any]) -> None:
        table["predictor"] = {"intercept_ms": value, "query_token_ms": 0.1, "query_prefix_ms": 0.0}

    return act


def _target(key: str, value: object) -> Change:
    def act(table: dict[str, Any]) -> None:
        table["decode"]["device"]["target"]["duration"][key] = value

    return act


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_predictor(float("nan")), "predictor.intercept_ms is nan; expected a number from 0"),
        (_predictor(-1.0), "predictor.intercept_ms is -1"),
        (_target("intercept_ns", -5e6), "decode.target.duration: comes to -5e+06 ns; a time is 0 or more"),
        (_target("intercept_ns", float("nan")), "intercept_ns is nan"),
        (_target("intercept_ns", 1e300), "intercept_ns is 1e+300; expected at most 1e+15"),
        (_target("per_feature_ns", {"batch": float("inf")}), "per_feature_ns.batch is inf"),
        (_target("residuals_ns", [10**30]), "a residual is 1e+30"),
        (_target("ranges", {"batch": [0, float("nan")]}), "ranges.batch is nan"),
        (lambda table: table.update(name="../x"), "name '../x' holds a path separator"),
        (lambda table: table.update(name=3), "name is 3; expected a text"),
        (lambda table: table.update(graphs={"draft": ["x"]}), "graphs.draft is ['x']"),
        (lambda table: table.update(executors=3), "is not a profile"),
    ],
)
def test_profiles(change: Change, message: str) -> None:
    table = profile_of(constant_costs(pre=1_000, duration=5_000)).to_dict()
    Profile.from_dict(table)
    change(table)
    with pytest.raises(ProfileError) as error:
        Profile.from_dict(table, "p.json")
    assert message in str(error.value)
    assert str(error.value).startswith("p.json: ")


_NO_NAMES = ["../../../x", "/abs", "a/b/c", "a/../b", "a\\b", ".hidden", "~x", "-x", "", " ", "a\x1b[2J", "x" * 200]


@pytest.mark.parametrize("name", _NO_NAMES)
def test_placement_names_are_names(name: str, tmp_path: Path) -> None:
    order = BUILT_IN["lag"].to_dict()["order"]
    (tmp_path / "p.toml").write_text(f"name = {json.dumps(name)}\nlag_steps = 1\norder = {json.dumps(order)}\n")
    with pytest.raises(PlacementError, match="name"):
        load_placement(tmp_path / "p.toml")


def test_a_placement_cannot_write_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    order = BUILT_IN["static"].to_dict()["order"]
    (tmp_path / "p.toml").write_text(f'name = "../escaped"\norder = {json.dumps(order)}\n')
    out = tmp_path / "deep" / "out"
    assert run(["replay", str(tmp_path / "none"), "--policy", str(tmp_path / "p.toml"), "--out", str(out)]) == 2
    assert "starts with '.'" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.toml"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: LinearPredictor(float("inf"), 0.0, 0.0),
        lambda: ControllerSettings(None, float("nan"), 0.0),
        lambda: ControllerSettings(None, "x", 0.0),  # type: ignore[arg-type]
        lambda: ControllerSettings(None, 0.0, 1e13),
        lambda: Arrivals("poisson", 1e-300),
        lambda: Arrivals("poisson", float("nan")),
        lambda: Arrivals("poisson", 1e300),
        lambda: Scenario(BUILT_IN["static"], 10**9),
        lambda: with_change(profile_of(constant_costs(duration=1)), "target=" + "9" * 400 + "s"),
        lambda: with_change(profile_of(constant_costs(duration=1)), "target=x" + "9" * 400),
        lambda: with_change(profile_of(constant_costs(duration=1)), "target=１s"),
    ],
)
def test_settings(make: Callable[[], object]) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert len(str(error.value)) < 400


def test_costs_times_one_change_nothing() -> None:
    profile = profile_of(constant_costs(pre=1_000, duration=5_000))
    changed = with_change(profile, "device.target=x1")
    assert replace(changed, provenance=profile.provenance) == profile


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 1 / 0 }}", "ZeroDivisionError"),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", "RecursionError"),
        ("{{ messages.nothing.at.all() }}", "refuses|fails"),
    ],
)
def test_a_template_that_fails_is_a_line(text: str, message: str) -> None:
    with pytest.raises((CheckpointError, UsageError), match=message):
        ChatTemplate("t.jinja", text, {}).render([{"role": "user", "content": "x"}])


def test_what_never_ends_is_stopped() -> None:
    with pytest.raises(TimeoutError), stopped_after(0.05, TimeoutError):
        _never_end()


def _never_end() -> None:
    while True:
        time.sleep(0.001)


def test_a_line_separator_in_a_text_ends_no_line(tmp_path: Path) -> None:
    lines = '{"prompt_ids": [1], "note": "a\u2028b"}\n{"prompt_ids": [2]}\r\n'
    (tmp_path / "p.jsonl").write_text(lines, newline="")
    assert [prompt.prompt_ids for prompt in read_prompt_ids(tmp_path / "p.jsonl", 8, 4)] == [(1,), (2,)]


def test_orders_to_a_terminal_are_shown() -> None:
    assert shown("a\x1b[2Jb\x9bc\u202ed\ud800é\n") == r"a\x1b[2Jb\x9bc\u202ed\ud800é" + "\n"
