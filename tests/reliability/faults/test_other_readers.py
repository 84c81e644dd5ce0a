"""Every reader of another program's file goes by the one that bounds and names what it reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from simtool.engine.prompts.chat import chat_template
from simtool.errors import CheckpointError, PlacementError, ProfileError, SimtoolError, TraceError
from simtool.profile.published import constructed_profile
from simtool.step.placement import load_placement
from simtool.trace.importers.detect import import_path
from simtool.trace.importers.profile import import_profile
from simtool.trace.importers.requests import read_requests
from simtool.trace.importers.step_log.read import read_step_log
from simtool.trace.importers.to_events.rules import load_rules

_READERS: list[tuple[Callable[[Path], object], type[SimtoolError]]] = [
    (lambda path: load_rules(str(path)), TraceError),
    (lambda path: constructed_profile(path, "today"), ProfileError),
    (load_placement, PlacementError),
]


@pytest.mark.parametrize(("read", "error"), _READERS)
@pytest.mark.parametrize(
    ("data", "told"), [(b"a = " + b"[" * 100_000, "nest too deep"), (b"a = '\xff'", "not UTF-8"), (b"a =", "not TOML")]
)
def test_toml_that_cannot_be(
    read: Callable[[Path], object], error: type[SimtoolError], data: bytes, told: str, tmp_path: Path
) -> None:
    (tmp_path / "x.toml").write_bytes(data)
    with pytest.raises(error, match=told):
        read(tmp_path / "x.toml")


def test_a_chat_template_in_another_encoding_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_bytes("{{ 'é' }}".encode("latin-1"))
    with pytest.raises(CheckpointError, match="not UTF-8"):
        chat_template(tmp_path)


def test_chat_templates_whose_names_are_none_are_passed_over(tmp_path: Path) -> None:
    templates = [{"name": ["default"], "template": "a"}, {"name": "default", "template": "b"}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    found = chat_template(tmp_path)
    assert found is not None
    assert found.text == "b"


@pytest.mark.parametrize("read", [import_path, import_profile, read_requests, read_step_log])
def test_a_pipe_is_waited_for_by_nobody(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(TraceError, match="is a pipe, not a file"):
        read(tmp_path / "pipe.json")
