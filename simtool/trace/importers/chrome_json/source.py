"""The bytes of a trace file, piece by piece, plain or gzip, with what was lost told."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger

#: How many bytes a compressed trace may unfold to, unless the caller allows more.
MAX_EXPANDED_BYTES = 4 << 30
_PIECE_BYTES = 4 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_ZIP_MAGIC = b"PK\x03\x04"
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_pieces(path: Path, ledger: Ledger, max_expanded_bytes: int = MAX_EXPANDED_BYTES) -> Iterator[bytes]:
    """Yield the file's bytes, unpacked, without a byte-order mark.

    A damaged or cut-short .gz ends early and is counted in the ledger. Raises TraceError when the file cannot be
    read, is UTF-16 or a zip archive, or unfolds to more than `max_expanded_bytes`.
    """
    pieces = _raw_pieces(path, ledger)
    first = next(pieces, b"")
    if first.startswith(_UTF16_MARKS):
        raise TraceError(f"{path}: is UTF-16 text; save it as UTF-8 and import it again")
    if first.startswith(_ZIP_MAGIC):
        raise TraceError(f"{path}: is a zip archive; unpack it and give the JSON file, plain or .gz")
    yield first.removeprefix(_UTF8_MARK)
    total = len(first)
    for piece in pieces:
        total += len(piece)
        if total > max_expanded_bytes:
            limit = f"{max_expanded_bytes / (1 << 30):.3g} GiB"
            raise TraceError(f"{path}: unfolds to more than {limit}; raise the limit with --max-expanded-gib")
        yield piece


def _raw_pieces(path: Path, ledger: Ledger) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] == _GZIP_MAGIC:
                yield from _unpacked(path, ledger)
            else:
                while piece := file.read(_PIECE_BYTES):
                    yield piece
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror}); give a trace in JSON, plain or .gz") from error


def _unpacked(path: Path, ledger: Ledger) -> Iterator[bytes]:
    done = 0
    with gzip.open(path) as file:
        try:
            while piece := file.read1(_PIECE_BYTES):
                done += len(piece)
                yield piece
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            ledger.reject("compressed data is damaged or ends early", f"after {done} bytes: {error}")
