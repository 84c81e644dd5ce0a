"""The house is as docs/architecture.md says: no name twice, no folder too full, nothing but the table's rooms."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_MODULES = 15


def _modules() -> list[Path]:
    return [path for top in ("simtool", "reports/xllm_2280") for path in (ROOT / top).rglob("*.py")]


def test_no_two_public_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for path in _modules():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_no_folder_holds_more_modules_than_a_reader_can_take_in() -> None:
    counts: dict[str, int] = defaultdict(int)
    for path in [*_modules(), *(ROOT / "tests").rglob("*.py")]:
        counts[str(path.parent.relative_to(ROOT))] += path.name != "__init__.py"
    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_the_architecture_page_has_a_row_for_every_room() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = [path.parent.name for path in (ROOT / "simtool").glob("*/__init__.py")]
    engine = [path.parent.name for path in (ROOT / "simtool" / "engine").glob("*/__init__.py")]
    assert [room for room in (*rooms, *engine) if f"`{room}/`" not in page] == []


def test_benchmarks_and_examples_do_without_the_command_line() -> None:
    for folder in ("benchmarks", "examples"):
        for path in (ROOT / folder).glob("*.py"):
            if path.name == "hostile.py":  # what it tries is the command line itself
                continue
            assert "simtool.cli" not in path.read_text(), path.name
