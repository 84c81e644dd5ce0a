"""What the README and the page of five questions show is what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest

from simtool.cli.documents.transcripts import Transcript, printed_by, refreshed, transcripts

ROOT = Path(__file__).parents[3]
PAGES = ("README.md", "docs/questions.md")
SHOWN = [(page, each) for page in PAGES for each in transcripts((ROOT / page).read_text())]


@pytest.mark.parametrize(("page", "shown"), SHOWN, ids=[f"{page}: {each.command[:40]}" for page, each in SHOWN])
def test_a_page_shows_what_its_command_prints(page: str, shown: Transcript) -> None:
    printed = printed_by(shown.command, ROOT)
    assert max(map(len, printed)) <= 80
    assert shown.shown
    assert shown.holds(printed), f"{page} is stale (make docs); it prints:\n" + "\n".join(printed)


def test_both_pages_answer_the_five_questions():
    asked = {each.command.split()[0] for _, each in SHOWN}
    assert {"advise", "why", "tornado", "compare"} <= asked
    for page in PAGES:
        assert len(transcripts((ROOT / page).read_text())) >= 4


def test_what_is_left_out_may_be_anything_and_nothing_else_may():
    (shown,) = transcripts("text\n\n    $ simtool x\n    first\n    ...\n    last\n\nmore\n")
    assert shown.command == "x"
    assert shown.holds(["first", "a", "b", "last"])
    assert shown.holds(["first", "last"])
    for printed in (["first", "a"], ["a", "last"], ["first", "last", "a"], []):
        assert not shown.holds(printed)


def test_a_page_is_refreshed_in_place():
    text = "before\n\n    $ simtool placements nothing --json\n    stale\n    stale\n\nafter\n"
    assert refreshed(text, ROOT) == "before\n\n    $ simtool placements nothing --json\n\nafter\n"
    found = refreshed(text.replace("nothing --json", "lag"), ROOT)
    assert "    lag: legal." in found
    assert "stale" not in found
    assert found.endswith("\n\nafter\n")


def test_what_shows_the_first_lines_only_is_refreshed_to_as_many():
    found = refreshed("    $ simtool placements lag\n    stale\n    ...\n", ROOT)
    assert found.splitlines()[1:] == [f"    {printed_by('placements lag', ROOT)[0]}", "    ..."]
