"""The frame: exit statuses, one-line errors, and a --help that imports nothing heavy."""

import dataclasses
import gc
import subprocess
import sys

import pytest
import typer

from simtool.cli.main import run
from simtool.cli.registry import COMMANDS, Listed
from simtool.errors import UsageError

_HEAVY = ("torch", "polars", "plotly", "simpy", "scipy")


def _register(monkeypatch: pytest.MonkeyPatch, command: object) -> None:
    monkeypatch.setattr(sys.modules[__name__], "probe", command, raising=False)
    monkeypatch.setitem(COMMANDS, "probe", Listed(f"{__name__}:probe", "A probe"))


def test_help_lists_every_command_and_imports_nothing_heavy():
    script = (
        "import sys; from simtool.cli.main import run; status = run(['--help']);"
        f"print('HEAVY', [m for m in {_HEAVY!r} if m in sys.modules], status)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "HEAVY [] 0" in result.stdout
    for name in COMMANDS:
        assert name in result.stdout


def test_help_cuts_no_line_off_at_80_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, listed in COMMANDS.items():
        assert any(line.split() == [name, *listed.help.split()] for line in lines)


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["frobnicate"], "no command 'frobnicate'"),
        (["doctor", "--frobnicate"], "No such option: --frobnicate; see 'simtool doctor --help'"),
        (["placements", "fastest"], "unknown placement 'fastest'; expected one of static"),
    ],
)
def test_bad_use_is_one_line_and_status_2(arguments, fragment, capsys):
    assert run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert fragment in printed.err


def test_a_simtool_error_is_one_line_and_status_2(monkeypatch, capsys):
    def probe() -> None:
        raise UsageError("--rows is -1; expected 1 or more")

    _register(monkeypatch, probe)
    assert run(["probe"]) == 2
    assert capsys.readouterr().err == "simtool: --rows is -1; expected 1 or more\n"


def test_garbage_is_searched_rarely_but_where_something_is_timed(monkeypatch):
    default, seen = gc.get_threshold(), []
    _register(monkeypatch, lambda: seen.append(gc.get_threshold()))
    run(["probe"])
    monkeypatch.setitem(COMMANDS, "probe", dataclasses.replace(COMMANDS["probe"], timed=True))
    run(["probe"])
    assert seen[0] > default == seen[1] == gc.get_threshold()
    assert [name for name, listed in COMMANDS.items() if listed.timed and name != "probe"] == [
        *("record", "fill", "validate", "first-run", "doctor")
    ]


def test_a_finding_is_status_1(monkeypatch):
    def probe() -> None:
        raise typer.Exit(1)

    _register(monkeypatch, probe)
    assert run(["probe"]) == 1


def test_an_unexpected_error_keeps_its_traceback(monkeypatch):
    def probe() -> None:
        raise ZeroDivisionError("a bug")

    _register(monkeypatch, probe)
    with pytest.raises(ZeroDivisionError):
        run(["probe"])


def test_a_missing_extra_names_the_command_that_brings_it(monkeypatch, capsys):
    def probe() -> None:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    _register(monkeypatch, probe)
    assert run(["probe"]) == 2
    assert "pip install -e '.[engine]' in a checkout" in capsys.readouterr().err


def test_the_module_runs_and_no_command_shows_help():
    result = subprocess.run([sys.executable, "-m", "simtool"], capture_output=True, text=True, check=True)
    assert "Usage: simtool" in result.stdout
