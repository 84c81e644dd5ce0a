"""Files that are odd in a way of their own: each ends in one line, in bounded time, and writes nowhere else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from simtool.cli.main import run
from simtool.engine.prompts import chat
from simtool.engine.prompts.files import read_text_prompts
from simtool.errors import CheckpointError, SimtoolError, TraceError, UsageError
from simtool.trace.importers.request_traces import text
from simtool.trace.importers.requests import read_requests
from simtool.trace.manifest import Manifest
from tests.reliability.hostile.inputs import MODELS, make_inputs
from tests.reliability.hostile.spoiling import own_hash
from tests.synthetic import make_trace
from tests.trace.small import small_manifest


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("odd") / "inputs"
    make_inputs(folder)
    return folder


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": {"target": 3}}, "models.target is 3; expected a table"),
        ({"warnings": [1]}, "a warning is 1; expected a text"),
        ({"warnings": "x"}, "warnings is 'x'; expected a list"),
        ({"controller": {"draft_ms": "x"}}, "controller: draft_ms is 'x'"),
        ({"details": {"dtype": 3}}, "dtype is 3; expected a text"),
        ({"details": {"graphs": 3}}, "graphs"),
        ({"details": {"executors": 3}}, "executors is 3; expected a table"),
    ],
)
def test_values_of_the_wrong_kind_inside_a_manifest(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SimtoolError, match=message):
        _ = Manifest.from_dict({**small_manifest().to_dict(), **changes}).run


def _line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err.splitlines()[-1]


def test_a_dtype_that_is_none_is_a_line(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    manifest = made / "live" / "manifest.json"
    good = manifest.read_text()
    told = json.loads(good)
    told["details"]["dtype"] = "x"
    manifest.write_text(json.dumps(told))
    try:
        assert run(["fill", "live", *MODELS]) == 2
    finally:
        manifest.write_text(good)
    assert "details.dtype is 'x'; expected one of" in _line(capsys)


@pytest.mark.parametrize("column", ["prompt_ids", "output_ids"])
def test_ids_out_of_the_vocabulary_are_a_line(
    column: str, made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    table, manifest = made / "live" / "requests.parquet", made / "live" / "manifest.json"
    good = table.read_bytes(), manifest.read_text()
    frame = pl.read_parquet(table)
    frame.with_columns(pl.col(column).list.eval(pl.element() + 1_000)).write_parquet(table)
    own_hash(made / "live", "requests")
    try:
        assert run(["fill", "live", *MODELS]) == 2
    finally:
        table.write_bytes(good[0])
        manifest.write_text(good[1])
    assert "outside 0..7" in _line(capsys)


def test_a_link_in_a_trace_leads_nobody_astray(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fill follows no link, neither under the name of its table nor under one that a temporary file might have."""
    monkeypatch.chdir(made)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    links = [made / "live" / name for name in (".outcomes.parquet.tmp", "outcomes.parquet.tmp", ".manifest.json.tmp")]
    for link in links:
        link.symlink_to(victim)
    try:
        assert run(["fill", "live", *MODELS]) in (0, 2)
    finally:
        for link in links:
            link.unlink(missing_ok=True)
    capsys.readouterr()
    outcomes = made / "live" / "outcomes.parquet"
    outcomes.rename(tmp_path / "outcomes")
    outcomes.symlink_to(victim)
    try:
        assert run(["fill", "live", *MODELS]) == 2
    finally:
        outcomes.unlink()
        (tmp_path / "outcomes").rename(outcomes)
    assert victim.read_text() == "mine"


def test_a_quoted_tilde_of_an_output_is_the_home_folder(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(made)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x.json").write_text("mine")
    for command in (["export", "toy", "--out", "~/x.json"], ["calibrate", "toy", "--out", "~/x.json"]):
        assert run(command) == 2
        assert f"{tmp_path / 'x.json'} is already there" in _line(capsys)
    assert run(["sweep", "toy", "--policy", "static", "--out", "~/s.parquet", "--jobs", "1"]) == 0
    written = sorted(path.name for path in tmp_path.iterdir() if path.name != ".cache")  # which keeps compiled code
    assert written == ["s.parquet", "x.json"]
    assert (tmp_path / "x.json").read_text() == "mine"
    assert not (made / "~").exists()


def test_a_trace_without_first_tokens_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_trace(tmp_path / "run", "lag")
    table = tmp_path / "run" / "requests.parquet"
    pl.read_parquet(table).with_columns(first_token_ns=pl.lit(None, pl.Int64)).write_parquet(table)
    own_hash(tmp_path / "run", "requests")
    for command in (["report", "run", "--out", "x.html"], ["inspect", "run"], ["compare", "run", "run"]):
        assert run(command) in (0, 1, 2)
    assert "Traceback" not in "".join(capsys.readouterr())


def _tokenizer(folder: Path) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"<unk>": 0, "say": 1}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"vocab_size": 2}')
    return folder


def test_half_a_surrogate_pair_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"prompt": "say \\ud800"}\n')
    with pytest.raises(UsageError, match=r"p\.jsonl line 1: a text holds what is no Unicode character"):
        read_text_prompts(tmp_path / "p.jsonl", _tokenizer(tmp_path), 4)


def test_a_template_without_an_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_LONGEST_S", 0.2)
    loops = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{{ c }}"
    endless = loops + 3 * "{% endfor %}"
    with pytest.raises(CheckpointError, match=r"t\.jinja: no end after 0\.2 s"):
        chat.ChatTemplate("t.jinja", endless, {}).render([{"role": "user", "content": "x"}])


def test_a_request_trace_unfolds_within_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_MAX_EXPANDED_BYTES", 4 << 20)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b" " * (8 << 20)))
    with pytest.raises(TraceError, match="unfolds to more than"):
        read_requests(tmp_path / "a.jsonl.gz")
