from __future__ import annotations

from pathlib import Path

from simtool.trace.schema import TABLES
from simtool.trace.schema_page import document

_PAGE = Path(__file__).parents[2] / "docs" / "trace-format.md"


def test_the_page_is_current() -> None:
    assert _PAGE.read_text() == document(), "run `make docs`"


def test_every_column_is_told() -> None:
    page = document()
    for table in TABLES.values():
        section = page.split(f"## {table.name}\n")[1].split("\n## ")[0]
        for column in table.columns:
            assert f"| `{column.name}` | {'List' if 'List' in str(column.dtype) else column.dtype}" in section
            assert column.meaning in section
