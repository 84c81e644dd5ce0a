"""`simtool validate` refuses what it cannot judge in one line, with exit 2, before anything is written."""

from __future__ import annotations

import pytest

from simtool.cli.main import run
from tests.engine import golden

PAIR = golden.FOLDER / "dspark_b7"
MODELS = ["--target", str(PAIR / "target"), "--draft", str(PAIR / "draft")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--repeats", "1"], "--repeats is 1; an interval needs 2 or more"),
        (["--policy", "static", "--policy", "static"], "--policy static is given twice"),
        (["--policy", "fastest"], "unknown placement 'fastest'"),
        (["--tokens-only", "--repeats", "3"], "--tokens-only times nothing"),
        (["--policy", "static", "--draft-ms", "2"], "--draft-ms has no effect on static"),
        (["--min-gain", "-1"], "--min-gain is -1.0; expected 0 or more"),
        (["--sl", "0"], "--sl is 0"),
        (["--num-prompts", "0"], "--num-prompts is 0"),
        (["--max-new-tokens", "0"], "--max-new-tokens is 0"),
        ([], "no tokenizer.json in it"),  # its prompts are text, and this pair has no tokenizer
    ],
)
def test_bad_use_is_one_line_and_leaves_nothing(options, message, tmp_path, capsys):
    assert run(["validate", *MODELS, "--out", str(tmp_path / "v"), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_is_there_is_not_replaced_without_force(tmp_path, capsys):
    page = tmp_path / "page.html"
    page.write_text("mine")
    assert run(["validate", *MODELS, "--out", str(tmp_path / "v"), "--report", str(page)]) == 2
    assert "is already there; pass --force" in capsys.readouterr().err
    assert page.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [page]


def test_the_help_of_published_shows_what_goes_with_it_and_no_more(capsys):
    assert run(["validate", "--published", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Predict what others published" in shown
    assert {word for word in shown.replace(",", " ").split() if word.startswith("--")} == {
        "--out", "--published", "--json", "--force", "--help",
    }  # fmt: skip
    assert run(["validate", "--help"]) == 0
    assert "--repeats" in capsys.readouterr().out
    assert run(["validate", "--published", "--repeats", "3"]) == 2
    assert "--repeats has no effect with --published" in capsys.readouterr().err
