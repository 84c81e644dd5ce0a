"""What comes from a file and goes to a terminal or a spreadsheet is shown there, not obeyed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from simtool.cli.main import run
from simtool.profile.storage import save_profile
from simtool.study.sweep import write_table
from simtool.trace.schema import TABLES
from simtool.trace.trace import open_trace, write_trace
from tests.reliability.hostile.inputs import add_all_outcomes
from tests.replay.synthetic import constant_costs, profile_of
from tests.synthetic import make_trace
from tests.trace.importers.kineto_file import call, kernel, save

_FAKED = "faked: a line of its own"
_ORDER = f"\x1b[2J\x9b31m\u202e\n{_FAKED}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two traces whose machine, models, warnings and requests are called by orders to a terminal."""
    folder = tmp_path_factory.mktemp("shown")
    for name, placement in (("toy", "lag"), ("toy2", "static")):
        made = make_trace(folder / f"plain-{name}", placement, requests=5, new_tokens=24)
        add_all_outcomes(made)
        tables = {each: open_trace(made.path).table(each) for each in TABLES}
        named = pl.col("request_id") + _ORDER
        tables |= {each: tables[each].with_columns(named) for each in ("requests", "rows", "outcomes")}
        tables["requests"] = tables["requests"].with_columns(kind=pl.lit(f"kind{_ORDER}"))
        models = {role: {"id": f"toy{_ORDER}", "sha256": "0" * 64} for role in ("target", "draft")}
        manifest = replace(made.manifest, models=models, tables=None, device_name=f"machine{_ORDER}")
        manifest = replace(manifest, engine=f"e{_ORDER}", warnings=[f"beware{_ORDER}"])
        write_trace(folder / name, manifest, tables)
    save_profile(replace(profile_of(constant_costs(pre=1_000, duration=5_000)), device_name=_ORDER), folder / "p.json")
    order = json.dumps(["schedule", f"x{_ORDER}"])
    (folder / "p.toml").write_text(f'name = "mine"\nlag_steps = 1\norder = {order}\n')
    save(folder / "k.json", [call(f"cudaLaunchKernel{_ORDER}", 5, 5, 1), kernel(f"a{_ORDER}", 12, 30, 1)])
    return folder


@pytest.mark.parametrize(
    "command",
    [
        ("inspect", "toy"),
        ("compare", "toy", "toy2"),
        ("lags", "toy"),
        ("placements", "p.toml"),
        ("replay", "toy", "--policy", "lag", "--profile", "p.json", "--allow-other-model"),
        ("import", "k.json", "--out", "out", "--force"),
        ("report", "toy", "--out", f"x{_ORDER}.html", "--force"),
        ("power", "toy", "toy2"),
        ("inspect", "toy", "--json"),
        ("export", f"no{_ORDER}"),
    ],
    ids=lambda command: " ".join(command[:2])[:20],
)
def test_orders_to_a_terminal_are_not_sent(
    command: tuple[str, ...], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert run(list(command)) in (0, 1, 2)
    told = "".join(capsys.readouterr())
    assert told
    assert not [letter for letter in _ORDER.split("\n", maxsplit=1)[0] if not letter.isprintable() and letter in told]
    assert not [line for line in told.split("\n") if line.startswith(_FAKED)]


def test_cells_that_look_like_formulas_are_quoted(tmp_path: Path) -> None:
    texts = ["=1+1", "+1", "-1", "@x", "\tx", "plain", "a=b"]
    write_table(pl.DataFrame({"trace": texts, "gain": [-1.0] * 7}), tmp_path / "t.csv")
    cells = pl.read_csv(tmp_path / "t.csv", infer_schema=False)
    assert cells["trace"].to_list() == ["'=1+1", "'+1", "'-1", "'@x", "'\tx", "plain", "a=b"]
    assert cells["gain"].to_list() == ["-1.0"] * 7
