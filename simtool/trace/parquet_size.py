"""How much a Parquet file unfolds to, read from its footer alone: a few bytes can stand for billions of equal values.

The footer is Thrift in the compact protocol: structs are fields of a type and a number, ended by a zero byte. Only
counts are wanted, so everything else is stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simtool.errors import TraceError

#: About a gigabyte of numbers; a recording of a million steps holds a tenth of it.
MOST_VALUES = 1 << 27
_MAGIC = b"PAR1"
_MOST_FOOTER_BYTES = 1 << 26
_DEEPEST = 16

# compact protocol's types
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
# FileMetaData.row_groups, RowGroup.columns, ColumnChunk.meta_data, ColumnMetaData.num_values
_ROW_GROUPS, _COLUMNS, _META_DATA, _NUM_VALUES = 4, 1, 3, 5
# ColumnMetaData.total_compressed_size, data_page_offset, dictionary_page_offset
_COMPRESSED_SIZE, _DATA_OFFSET, _DICTIONARY_OFFSET = 7, 9, 11


def check_size(path: Path) -> None:
    """Raise TraceError for a file that is no Parquet, or that holds more values than are read."""
    values = count_values(path)
    if values > MOST_VALUES:
        raise TraceError(f"{path}: unfolds to {values:,} values, and at most {MOST_VALUES:,} are read; cut the trace")


def count_values(path: Path) -> int:
    """Return the values of all columns, each in a list for itself; raises TraceError when there is no footer."""
    try:
        return _values(_Compact(_footer(path)), path.stat().st_size)
    except (OSError, ValueError, IndexError) as error:
        raise TraceError(f"{path}: cannot be read as Parquet ({error}); the trace is damaged") from error


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


def _values(footer: _Compact, file_bytes: int) -> int:
    """Count values; a column that is said to lie outside the file is not looked for there."""
    total = 0
    for group_type in footer.structs(_ROW_GROUPS):
        for column_type in group_type.structs(_COLUMNS):
            for meta in column_type.structs(_META_DATA):
                told = meta.numbers()
                size, start = told.get(_COMPRESSED_SIZE, 0), told.get(_DICTIONARY_OFFSET) or told.get(_DATA_OFFSET, 0)
                if told.get(_NUM_VALUES, 0) < 0 or size < 0 or start < 0 or start + size > file_bytes:
                    raise ValueError("a column lies outside the file")
                total += told.get(_NUM_VALUES, 0)
    return total


@dataclass
class _Compact:
    """A reader that stands at the start of a struct."""

    data: bytes
    at: int = 0
    depth: int = 0

    def structs(self, wanted: int) -> Iterator[_Compact]:
        """Step through this struct's fields and stop at each struct in the wanted one, a struct or a list of them.

        What is yielded must be read to its end before the next.
        """
        for number, kind in self._fields():
            if number != wanted or kind not in (_STRUCT, _LIST):
                self._skip(kind, self.depth)
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
        found: dict[int, int] = {}
        for number, kind in self._fields():
            if kind in (_I16, _I32, _I64):
                found[number] = self._number()
            else:
                self._skip(kind, self.depth)
        return found

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
