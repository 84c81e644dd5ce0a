"""docs/reliability.md names a test for every fault; here, that each of them is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

_TESTS = Path(__file__).parents[2]
_PAGE = _TESTS.parent / "docs" / "reliability.md"
_ROW = re.compile(r"\| (?P<number>[1-7]\.\d+) \| (?P<fault>[^|]+) \| (?P<tests>[^|]+) \|")
_NAMED = re.compile(r"`(?P<file>[\w/.]+\.py)::(?P<test>\w+)`")


@cache
def _tests_of(file: str) -> set[str]:
    tree = ast.parse((_TESTS / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_fault_has_a_test_that_is_there() -> None:
    rows = list(_ROW.finditer(_PAGE.read_text()))
    numbers = [row["number"] for row in rows]
    assert [len([each for each in numbers if each.startswith(f"{item}.")]) for item in range(1, 8)] == _BULLETS
    assert len(set(numbers)) == len(numbers)
    for row in rows:
        named = list(_NAMED.finditer(row["tests"]))
        assert named, row[0]
        for test in named:
            assert test["test"] in _tests_of(test["file"]), test[0]


#: Faults of each kind that the page lists; a row that goes must go from here too.
_BULLETS = [11, 6, 6, 3, 5, 19, 7]
