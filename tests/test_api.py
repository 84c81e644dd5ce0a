"""The public API: every name is there, lazily, and the example that uses it runs."""

from __future__ import annotations

import ast
import pydoc
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import simtool

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", simtool.__all__)
def test_each_name_loads_and_is_documented(name: str) -> None:
    value = getattr(simtool, name)
    assert name in dir(simtool)
    assert isinstance(value, Mapping) or pydoc.getdoc(value)


def test_checkers_and_the_interpreter_see_the_same_names() -> None:
    """mypy reads the imports under TYPE_CHECKING, Python the table beside them."""
    homes: dict[str, str] = {}
    for node in ast.walk(ast.parse((ROOT / "simtool" / "__init__.py").read_text())):
        if isinstance(node, ast.If):
            for line in (line for line in node.body if isinstance(line, ast.ImportFrom)):
                for alias in line.names:
                    public = alias.asname or alias.name
                    suffix = f":{alias.name}" if public != alias.name else ""
                    homes[public] = f"{line.module}{suffix}"
    assert homes == simtool._HOMES
    assert sorted(simtool.__all__) == sorted(homes)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'replya'"):
        _ = simtool.replya  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import simtool", ("torch", "polars", "plotly", "numpy", "simpy", "typer")),
        ("import simtool; help(simtool)", ("torch", "typer")),
        ("import simtool.replay.replay, simtool; assert callable(simtool.replay)", ("torch", "plotly")),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(program: str, absent: tuple[str, ...]) -> None:
    check = f"{program}\nimport sys\nprint('HEAVY', *(set(sys.modules) & {set(absent)!r}))"
    run = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, cwd=ROOT, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[-1].split() == ["HEAVY"]


def test_help_teaches_the_four_nouns() -> None:
    told = re.sub(".\b", "", pydoc.render_doc(simtool))  # bold is a letter, a backspace, the letter again
    for word in ("Trace", "Profile", "Placement", "Scenario", "st.record(", "st.replay("):
        assert word in told


def test_the_example_answers(capsys: pytest.CaptureFixture[str]) -> None:
    ran = runpy.run_path(str(ROOT / "examples" / "first_answer.py"))
    said = capsys.readouterr().out
    assert "95 % interval" in said
    assert "rows that differ from the recording: 0\n" in said
    assert ran["again"].height == ran["trace"].table("rows").height
    assert ran["swept"].table.height == 8
