"""Every page's links lead somewhere, and the commands that it shows exist with the options it gives them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from simtool.cli.main import app

ROOT = Path(__file__).parents[1]
PAGES = [
    page
    for folder in (
        "",
        "docs",
        "docs/log",
        "models",
        "models/profiles",
        "traces",
        "reports",
        "reports/xllm_2280",
        "integrations",
    )
    for page in sorted((ROOT / folder).glob("*.md"))
]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HISTORY = ("CHANGELOG.md",)  # what was run once stays as it was typed


def _lines() -> list[tuple[str, str]]:
    """Page and command line, for each line of a code block that runs simtool; a backslash joins lines."""
    found = []
    for page in PAGES:
        if page.name in _HISTORY or page.parent.name == "log":
            continue
        fenced = False
        for line in page.read_text().replace("\\\n", " ").splitlines():
            fenced ^= line.startswith("```")
            bare = line.strip().removeprefix("$ ")
            if bare.startswith("simtool ") and (fenced or line.startswith("    ")):
                found.append((page.name, bare))
    return sorted(set(found))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_lead_somewhere(page):
    targets = [target.partition("#")[0] for target in _LINK.findall(page.read_text())]
    gone = [target for target in targets if target and "://" not in target and not (page.parent / target).exists()]
    assert not gone


def test_commands_in_pages_exist_with_their_options():
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="simtool")
    wrong = []
    for page, line in _lines():
        words = shlex.split(line.partition(" #")[0].partition(" > ")[0], comments=False)[1:]
        if not words or words[0].startswith(("-", "[", "<")) or words[0] not in group.list_commands(context):
            wrong.append(f"{page}: {line}") if words and words[0].isalpha() and words[0].islower() else None
            continue
        command = group.get_command(context, words[0])
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        given = {word.partition("=")[0] for word in words[1:] if word.startswith("--")}
        wrong += [f"{page}: {words[0]} has no {option}" for option in sorted(given - known - {"--help"})]
    assert not wrong
