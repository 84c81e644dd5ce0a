"""The text of a request trace: plain or gzip, UTF-8; anything else is named for what it is."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from simtool.errors import TraceError
from simtool.trace.importers.ledger import Ledger

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
#: Ten million requests; as rows they take some ten times that.
_MAX_EXPANDED_BYTES = 512 << 20
_UTF_32 = ((b"\xff\xfe\x00\x00", "UTF-32"), (b"\x00\x00\xfe\xff", "UTF-32"))
_OTHER_ENCODINGS = (*_UTF_32, (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))


def read_text(path: Path, ledger: Ledger) -> str:
    """Return the text; a gzip file that breaks off gives what came before, and the loss goes into the ledger.

    Raises TraceError when the file cannot be read, is UTF-16 or UTF-32, or unfolds to more than 512 MiB.
    """
    try:
        data = _unfold(path, ledger, _MAX_EXPANDED_BYTES)
    except OSError as error:
        raise TraceError(
            f"{path}: cannot be read ({error.strerror or error}); give a request trace, CSV or JSON lines"
        ) from error
    if len(data) > _MAX_EXPANDED_BYTES:
        raise TraceError(f"{path}: unfolds to more than {_MAX_EXPANDED_BYTES >> 20} MiB; give a part of it")
    if encoding := other_encoding(data[:64]):
        raise TraceError(f"{path}: is {encoding} text; convert it first: iconv -f {encoding} -t UTF-8 {path.name}")
    return data.decode("utf-8-sig", errors="replace")


def read_head(path: Path, size: int) -> str:
    """Return about the first `size` bytes as text, unfolded; empty when they cannot be read."""
    try:
        return _unfold(path, Ledger(), size)[:size].decode("utf-8-sig", errors="replace")
    except OSError:
        return ""


def other_encoding(head: bytes) -> str | None:
    """Return the name of an encoding that is not UTF-8, by its byte order mark or by the zeros between letters."""
    for mark, name in _OTHER_ENCODINGS:
        if head.startswith(mark):
            return name
    odd, even = head[1::2], head[::2]
    if len(head) >= 4 and (not any(odd) or not any(even)):
        return "UTF-16LE" if any(even) else "UTF-16BE"
    return None


def _unfold(path: Path, ledger: Ledger, limit: int) -> bytes:
    """The file's bytes, unfolded; at most a chunk more than the limit."""
    with path.open("rb") as file:
        folded = file.read(2) == _GZIP_MAGIC
    data = bytearray()
    with gzip.open(path) if folded else path.open("rb") as source:
        try:
            while len(data) <= limit and (chunk := source.read1(_CHUNK_BYTES)):
                data += chunk
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            ledger.reject("compressed data is damaged or ends early", f"after {len(data)} bytes: {error}")
    return bytes(data)
