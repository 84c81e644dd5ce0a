"""`simtool validate --published`: the page that ships is the one that is made, and bad use is refused."""

from pathlib import Path

import pytest
from published_runs import study
from published_runs.xllm import exposed, gains, load, machine

from simtool.cli.main import run
from tests.cli.documents.schemas import checked

PAGE = Path(__file__).parents[2] / "docs" / "published.md"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The page from fewer draws than the one that ships, twice."""
    paths = [tmp_path_factory.mktemp("published") / "page.md" for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gains, "TEXTS", (machine.MIDDLE,))
        patch.setattr(gains, "_SEEDS", (0,))
        patch.setattr(load, "_SEEDS", 3)
        patch.setattr(study, "SIGMAS", (1.0,))
        patch.setattr(exposed, "_POWER", 1)
        for path in paths:
            assert run(["validate", "--published", "--out", str(path)]) == 0
    return paths


def test_the_page_is_deterministic(made):
    assert made[0].read_text() == made[1].read_text()


def test_the_page_that_ships_has_the_same_sections(made):
    heads = [line for line in made[0].read_text().splitlines() if line.startswith(("#", "- **", "- *"))]
    shipped = [line for line in PAGE.read_text().splitlines() if line.startswith(("#", "- **", "- *"))]
    assert [head.partition(",")[0].partition(":")[0][:20] for head in heads] == [
        head.partition(",")[0].partition(":")[0][:20] for head in shipped
    ]


def test_the_page_shows_its_misses(made):
    text = made[0].read_text()
    told = text.partition("## The misses")[2]
    assert text.count("| **missed**") == sum(int(part.split(" of ")[0]) for part in told.split("**, ")[1:])


def test_it_is_not_written_over(made, capsys):
    assert run(["validate", "--published", "--out", str(made[0])]) == 2
    assert "already there" in capsys.readouterr().err


@pytest.mark.parametrize("option", [["--repeats", "5"], ["--sl", "7"], ["--policy", "lag"], ["--tokens-only"]])
def test_options_of_a_recording_are_refused(option, capsys):
    assert run(["validate", "--published", *option]) == 2
    assert f"{option[0]} has no effect with --published" in capsys.readouterr().err


def test_a_recording_needs_a_folder(capsys):
    assert run(["validate", "--sl", "7"]) == 2
    assert "--out is missing" in capsys.readouterr().err


def test_for_machines(monkeypatch, capsys):
    monkeypatch.setattr(gains, "replayed", lambda *_: {})
    monkeypatch.setattr(load, "loads", lambda *_: [])
    monkeypatch.setattr(load, "range_of", lambda _: (0.0, 0.0))
    monkeypatch.setattr(load, "predictions", lambda *_: [])
    monkeypatch.setattr(study, "exposed", lambda *_: None)
    assert run(["validate", "--published", "--json"]) == 0
    told = checked(capsys.readouterr().out)
    names = {"source", "setting", "figure", "low", "high", "published", "verdict", "spread"}
    assert names <= set(told["predictions"][0])
    assert told["headline"].startswith("Of 34 predictions of published figures")
