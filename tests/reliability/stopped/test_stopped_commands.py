"""Whole commands stopped from outside, live runs among them: nothing whole is lost, and nothing is left running."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.reliability.stopped.stopping import How, Moment, after, helped, prepare, run_again, stop, writing

#: One after the other at the same place, each on what the one before has left; then the command runs to its end.
_STOPS: dict[str, list[tuple[How, Moment]]] = {
    "record": [
        (How.KILL, helped),
        (How.HELPER, helped),
        (How.KILL, writing),
        (How.INTERRUPT, after(0.1)),
        (How.INTERRUPT, helped),
        (How.INTERRUPT, writing),
    ],
    "sweep": [(How.KILL, helped), (How.HELPER, helped), (How.INTERRUPT, helped)],
    "import": [(How.KILL, writing), (How.INTERRUPT, after(0.1))],
    "report": [(How.KILL, writing)],
}


@pytest.mark.parametrize("name", _STOPS)
def test_stopped_again_and_again(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    prepare(folder, live=False)
    for how, moment in _STOPS[name]:
        assert stop(folder, name, how, moment).wrong == [], how
    assert run_again(folder, name) == []


#: Commands of every kind; `benchmarks/hostile.py interrupts` does it to all of them, at several times each.
_INTERRUPTED = ("validate", "search", "answers", "replay")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted") / "work"
    prepare(folder, live=False)
    return folder


@pytest.mark.parametrize("name", _INTERRUPTED)
def test_ctrl_c_ends_a_command_in_one_line(name: str, prepared: Path) -> None:
    assert stop(prepared, name, How.INTERRUPT, after(random.Random(name).uniform(0.05, 1.0))).wrong == []
