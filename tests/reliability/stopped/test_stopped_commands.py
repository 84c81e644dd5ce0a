"""Whole commands stopped from outside, live runs among them: nothing whole is lost, and nothing is left running."""

from __future__ import annotations

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
