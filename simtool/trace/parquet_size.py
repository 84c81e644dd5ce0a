"""How much a Parquet file unfolds to, group by group of its rows, read from its footer alone.

A few bytes can stand for billions of equal values, so that is asked before anything is unfolded. The footer is Thrift
in the compact protocol: structs are fields of a type and a number, ended by a zero byte. Only counts are wanted, so
everything else is stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from simtool.errors import TraceError

#: About a gigabyte of numbers; a recording of a million steps holds a tenth of it. Where rows are read a stretch at a
#: time this holds of each group of rows, where they are read at once of all that is read.
MOST_VALUES = 1 << 27
_MAGIC = b"PAR1"
_MOST_FOOTER_BYTES = 1 << 26
_DEEPEST = 16

# compact protocol's types
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
# FileMetaData.row_groups, RowGroup.columns, RowGroup.num_rows, ColumnChunk.meta_data, ColumnMetaData.num_values
_ROW_GROUPS, _COLUMNS, _NUM_ROWS, _META_DATA, _NUM_VALUES = 4, 1, 3, 3, 5
# ColumnMetaData.total_compressed_size, data_page_offset, dictionary_page_offset
_COMPRESSED_SIZE, _DATA_OFFSET, _DICTIONARY_OFFSET = 7, 9, 11


@dataclass(frozen=True)
class RowGroup:
    """Rows that are stored together. values: of all columns, each in a list for itself."""

    rows: int
    values: int


def read_row_groups(path: Path) -> list[RowGroup]:
    """Return a file's groups of rows; raises TraceError when it has no footer or a group is larger than any is read."""
    try:
        groups = list(_groups(_Compact(_footer(path)), path.stat().st_size))
    except (OSError, ValueError, IndexError) as error:
        raise TraceError(f"{path}: cannot be read as Parquet ({error}); the trace is damaged") from error
    for group in groups:
        check_values(path, max(group.values, group.rows))
    return groups


def check_values(path: Path, values: int) -> None:
    """Raise TraceError for more values than are read at once."""
    if values > MOST_VALUES:
        raise TraceError(f"{path}: unfolds to {values:,} values, and at most {MOST_VALUES:,} are read; cut the trace")


def _footer(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(size - 8, 0))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if len(tail) < 8 or tail[4:] != _MAGIC or length > min(size - 8, _MOST_FOOTER_BYTES):
            raise ValueError("it does not end as such a file does")
        file.seek(size - 8 - length)
        return file.read(length)


def _groups(footer: _Compact, file_bytes: int) -> Iterator[RowGroup]:
    """Yield the groups; a column that is said to lie outside the file is not looked for there."""
    for group in footer.structs(_ROW_GROUPS):
        values = 0
        for column in group.structs(_COLUMNS):
            for meta in column.structs(_META_DATA):
                told = meta.numbers()
                size, start = told.get(_COMPRESSED_SIZE, 0), told.get(_DICTIONARY_OFFSET) or told.get(_DATA_OFFSET, 0)
                if told.get(_NUM_VALUES, 0) < 0 or size < 0 or start < 0 or start + size > file_bytes:
                    raise ValueError("a column lies outside the file")
                values += told.get(_NUM_VALUES, 0)
        rows = group.told.get(_NUM_ROWS, 0)
        if rows < 0:
            raise ValueError("it tells of a negative number of rows")
        yield RowGroup(rows, values)


@dataclass
class _Compact:
    """A reader that stands at the start of a struct. told: the whole numbers among the fields that it has passed."""

    data: bytes
    at: int = 0
    depth: int = 0
    told: dict[int, int] = field(default_factory=dict)

    def structs(self, wanted: int) -> Iterator[_Compact]:
        """Step through this struct's fields and stop at each struct in the wanted one, a struct or a list of them.

        What is yielded must be read to its end before the next.
        """
        for number, kind in self._fields():
            if number != wanted or kind not in (_STRUCT, _LIST):
                self._pass(number, kind)
                continue
            count = 1
            if kind == _LIST:
                count, inner = self._list_head()
                if inner != _STRUCT:
                    raise ValueError("its footer is of another form")
            for _ in range(count):
                child = _Compact(self.data, self.at, self.depth + 1)
                yield child
                self.at = child.at

    def numbers(self) -> dict[int, int]:
        """Step through this struct's fields and return its whole numbers."""
        for number, kind in self._fields():
            self._pass(number, kind)
        return self.told

    def _pass(self, number: int, kind: int) -> None:
        if kind in (_I16, _I32, _I64):
            self.told[number] = self._number()
        else:
            self._skip(kind, self.depth)

    def _fields(self) -> Iterator[tuple[int, int]]:
        number = 0
        while (head := self._byte()) & 0x0F != _STOP:
            number = number + (head >> 4) if head >> 4 else self._number()
            yield number, head & 0x0F

    def _skip(self, kind: int, depth: int) -> None:
        if depth > _DEEPEST:
            raise ValueError("its footer nests too deep")
        if kind in (_I16, _I32, _I64):
            self._varint()
        elif kind in (_BYTE, _DOUBLE):
            self._forward(1 if kind == _BYTE else 8)
        elif kind == _BINARY:
            self._forward(self._varint())
        elif kind in (_LIST, _SET):
            count, inner = self._list_head()
            for _ in range(count):
                self._skip(_BYTE if inner in (_TRUE, _FALSE) else inner, depth + 1)
        elif kind == _STRUCT:
            for _, inner in self._fields():
                self._skip(inner, depth + 1)
        elif kind == _MAP:
            raise ValueError("its footer is of another form")

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4 if head >> 4 != 15 else self._varint()
        if count > len(self.data):
            raise ValueError("its footer promises more than it holds")
        return count, head & 0x0F

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value
            if shift > 70:
                raise ValueError("its footer holds a number without end")

    def _byte(self) -> int:
        byte = self.data[self.at]
        self.at += 1
        return byte

    def _forward(self, count: int) -> None:
        if count > len(self.data) - self.at:
            raise ValueError("its footer ends early")
        self.at += count
