"""Every command's JSON is what the page says: held against its schema, and the page against the code."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import msgspec
import pytest

from simtool.cli.documents.index import DOCUMENTS
from simtool.cli.documents.of_traces import FillDocument
from simtool.cli.documents.page import json_schema, page
from simtool.cli.documents.record import document, schema_of
from simtool.cli.main import run
from simtool.cli.registry import COMMANDS
from tests.cli.documents.schemas import checked
from tests.cli.traces.test_fill import models, record
from tests.synthetic import make_trace

ROOT = Path(__file__).parents[3]
TRACE = str(ROOT / "traces" / "sl7-lag")
COSTS = ("--profile", str(ROOT / "models" / "profiles" / "measured-sl7.json"))
QUICK = ("--policy", "lag", "--policy", "static")

#: Command -> what it is asked. LIVE: a small recording; ARM: another; TOML, PROFILER: files of figures and of events.
ASKED: dict[str, tuple[str, ...]] = {
    "import": ("PROFILER", "--out", "imported"),
    "inspect": (TRACE,),
    "fill": ("LIVE", *models()),
    "synth": ("--acceptance", "0.8,0.5", *COSTS, "--num-requests", "4", "--out", "drawn"),
    "advise": (TRACE, *COSTS, "--policy", "lag", "--seeds", "3"),
    "compare": ("ARM-static-0", "ARM-lag-0", "ARM-static-1", "ARM-lag-1"),
    "power": ("ARM-static-0", "ARM-lag-0", "ARM-static-1", "ARM-lag-1"),
    "calibrate": (TRACE, "--confidence", "--out", "costs.json"),
    "profile": ("from-toml", str(ROOT / "models" / "profiles" / "xllm-2280-like.toml"), "--out", "like.json"),
    "replay": (TRACE, *COSTS, *QUICK, "--set", "schedule=0", "--noise", "residual", "--seeds", "2"),
    "why": (TRACE, *COSTS, "--policy", "lag", "--seeds", "2"),
    "sweep": (TRACE, *COSTS, *QUICK, "--out", "swept.csv"),
    "search": (TRACE, *COSTS, "--lag", "none", "--seeds", "0", "--top", "1"),
    "tornado": (TRACE, *COSTS, "--policy", "static"),
    "what-if": (TRACE, *COSTS, "--policy", "lag", "--concurrency", "8", "--seeds", "3", "--out", "what-if.html"),
    "break-even": (TRACE, *COSTS, "--decision-us", "0", "--seeds", "2"),
    "lags": (TRACE, *COSTS, "--lag", "1"),
    "report": ("ARM-static-0", "ARM-lag-0", "--out", "page.html"),
    "export": (TRACE, "--out", "events.json"),
    "placements": (),
    "policies": (),
    "doctor": (),
}
#: These run models for longer, or ask dozens of replays; their own tests hold them against the schema.
ELSEWHERE = {"record", "validate", "answers", "first-run"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("documents")
    for name in ("static", "lag"):
        for turn in range(2):
            make_trace(found / f"ARM-{name}-{turn}", name, noise_seed=turn, requests=12)
    record(found / "LIVE")
    event = {"ph": "X", "cat": "kernel", "name": "MatMul", "ts": 1.0, "dur": 2.0, "args": {"device": 0, "stream": 7}}
    (found / "PROFILER").write_text(json.dumps({"traceEvents": [event]}))
    return found


def test_every_command_has_a_document_and_every_document_a_command():
    assert set(DOCUMENTS) - {"validate-published"} == set(COMMANDS) == set(ASKED) | ELSEWHERE
    for command, kind in DOCUMENTS.items():
        assert schema_of(kind).startswith(f"simtool.{command}/")
        jsonschema.Draft202012Validator.check_schema(json_schema(command))


@pytest.mark.parametrize("command", ASKED)
def test_what_a_command_prints_is_what_its_schema_says(command, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert run([command, *ASKED[command], "--json"]) in (0, 1)
    found = checked(capsys.readouterr().out)
    assert found["schema"] == schema_of(DOCUMENTS[command])
    assert next(iter(found)) == "schema"
    assert "bundle" not in json.dumps(list(_keys(found)))


def _keys(value):
    """Every key but those of a manifest, which is as its file has it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from () if key == "manifest" else _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def test_the_page_is_what_the_code_makes_of_it():
    assert (ROOT / "docs" / "scripting.md").read_text() == page(), "run `make docs`"


def test_a_key_that_no_schema_has_is_a_fault_of_the_command():
    counts = dict.fromkeys(("anchors", "filled", "visited", "both", "disagreeing"), 1)
    told = {**counts, "confidence_gap": 0.0, "first_disagreement": None}
    assert document(FillDocument, told).filled == 1
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        document(FillDocument, told, filed=1)
    with pytest.raises(msgspec.ValidationError, match="Expected `int`"):
        document(FillDocument, told, filled="1")


def test_a_document_that_lacks_a_key_does_not_pass(capsys):
    assert run(["placements", "lag", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    del found["placements"][0]["order"]
    with pytest.raises(jsonschema.ValidationError, match="'order' is a required property"):
        checked(json.dumps(found))


def test_json_is_alone_on_standard_output(capsys):
    assert run(["replay", TRACE, "--policy", "lag", "--json"]) == 0
    printed = capsys.readouterr()
    checked(printed.out)
    assert "costs: calibrated from" in printed.err
    assert os.linesep in printed.err
