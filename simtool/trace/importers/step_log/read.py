"""Reading a step log, plain or gzip, line by line: a broken line costs that line, a cut last line is told."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from simtool.errors import TraceError
from simtool.trace.importers.chrome_json.source import MAX_EXPANDED_BYTES
from simtool.trace.importers.given import check_file
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.request_traces.text import other_encoding
from simtool.trace.importers.step_log.lines import VERSION, Header, Line, LoggedStep, RequestLine, fault, without_places
from simtool.trace.importers.step_log.sglang import MARK as SGLANG
from simtool.trace.importers.step_log.sglang import read_sglang

_GZIP_MAGIC = b"\x1f\x8b"
#: Of a step; of SGLang's records, which stand in one line or in many, all of them.
_LONGEST_LINE = 256 << 20
_DECODER = msgspec.json.Decoder(Line)
_ANY = msgspec.json.Decoder()
_NEED_ALIKE = ("engine", "sl", "algorithm", "clock")


@dataclass
class StepLog:
    """steps: in order of their start. requests: by name, what all of their lines say. cut: the last line is half.

    notes: what is to be told of it besides.
    """

    path: Path
    header: Header
    steps: list[LoggedStep] = field(default_factory=list)
    requests: dict[str, dict[str, object]] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    resumed: int = 0
    cut: bool = False
    notes: list[str] = field(default_factory=list)


def looks_like_step_log(path: Path) -> bool:
    """Say whether a file begins with a step log's header, or is SGLang's records of its steps."""
    try:
        first = next(_raw_lines(path, Ledger()), b"")
    except (OSError, TraceError):
        return False
    return _header(first) is not None or SGLANG.encode() in first


def read_step_log(path: Path) -> StepLog:
    """Read a step log; lines that cannot be used are counted in its ledger by reason.

    Raises TraceError when the file cannot be read, does not begin with a header of a version this simtool reads, goes
    on as another engine's log, or holds no step.
    """
    check_file(path)
    ledger = Ledger()
    lines = _raw_lines(path, ledger)
    try:
        first = next(lines, b"")
        if _header(first) is None and (foreign := read_sglang(path, _joined(first, lines, path), ledger)) is not None:
            header, steps, notes = foreign
            return _checked(StepLog(path, header, steps, ledger=ledger, notes=notes))
        log = StepLog(path, _first(first, path), ledger=ledger)
        for number, raw in enumerate(lines, start=2):
            _take(raw, number, log)
    except OSError as error:
        raise TraceError(f"{path}: cannot be read ({error.strerror or error}); give a step log") from error
    return _checked(log)


def _checked(log: StepLog) -> StepLog:
    """The log with its steps in order; refused where there is none."""
    if not log.steps:
        reasons = "; ".join(log.ledger.warnings()) or "its writer was stopped before the first"
        raise TraceError(f"{log.path}: holds no step: {reasons}")
    log.steps.sort(key=lambda step: (step.start_ns, step.step))
    return log


def _raw_lines(path: Path, ledger: Ledger) -> Iterator[bytes]:
    with path.open("rb") as file:
        head = file.read(64)
    if encoding := other_encoding(head):
        raise TraceError(f"{path}: is {encoding} text; convert it first: iconv -f {encoding} -t UTF-8 {path.name}")
    folded = head.startswith(_GZIP_MAGIC)
    total = 0
    with gzip.open(path) if folded else path.open("rb") as file:
        try:
            while line := file.readline(_LONGEST_LINE + 1):
                total += len(line)
                if len(line) > _LONGEST_LINE:
                    raise TraceError(f"{path}: has a line of more than {_LONGEST_LINE >> 20} MiB; no step is that long")
                if folded and total > MAX_EXPANDED_BYTES:
                    raise TraceError(f"{path}: unfolds to more than {MAX_EXPANDED_BYTES >> 30} GiB; unpack it first")
                yield line
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            ledger.reject("compressed data is damaged or ends early", error)


def _joined(first: bytes, lines: Iterator[bytes], path: Path) -> bytes:
    data = bytearray(first)
    for line in lines:
        data += line
        if len(data) > _LONGEST_LINE:
            raise TraceError(f"{path}: begins with no step log's header, and is too long for SGLang's records of steps")
    return bytes(data)


def _header(raw: bytes) -> dict[str, object] | None:
    """The first line as a table, where it says that it is a step log's header."""
    if b'"header"' not in raw:  # a profile may be one line of a gigabyte
        return None
    try:
        table = _ANY.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return table if isinstance(table, dict) and table.get("line") == "header" and "version" in table else None


def _first(raw: bytes, path: Path) -> Header:
    table = _header(raw)
    if table is None:
        raise TraceError(f"{path}: does not begin with a step log's header line; see docs/step-log.md")
    version = table["version"]
    if isinstance(version, int) and version > VERSION:
        raise TraceError(f"{path}: step log version {version}, and this simtool reads up to {VERSION}; upgrade simtool")
    try:
        return msgspec.convert(table, Header)
    except msgspec.ValidationError as error:
        raise TraceError(f"{path}: header: {error}; see docs/step-log.md") from error


def _take(raw: bytes, number: int, log: StepLog) -> None:
    if not raw.strip():
        return
    if not raw.endswith(b"\n") and not _is_json(raw):
        log.cut = True
        return
    example = f"line {number}: {raw[:80].decode('utf-8', 'replace')}"
    try:
        line = _DECODER.decode(raw)
    except msgspec.ValidationError as error:
        log.ledger.reject(f"line is not as the format says: {without_places(error)}", example)
    except (msgspec.DecodeError, RecursionError):
        log.ledger.reject("line is not JSON", example)
    else:
        _take_line(line, example, log)


def _take_line(line: Line, example: str, log: StepLog) -> None:
    match line:
        case Header():
            _resume(line, log)
        case LoggedStep():
            wrong = fault(line, log.header.sl)
            if wrong:
                log.ledger.reject(f"step: {wrong}", example)
            else:
                log.steps.append(line)
        case RequestLine():
            known = {name: value for name, value in msgspec.structs.asdict(line).items() if value is not None}
            log.requests.setdefault(line.request, {}).update(known)


def _resume(header: Header, log: StepLog) -> None:
    """A writer that was started again goes on in the same file, with a header of its own."""
    for name in _NEED_ALIKE:
        if getattr(header, name) != getattr(log.header, name):
            raise TraceError(
                f"{log.path}: goes on with another header ({name} {getattr(log.header, name)!r}, then "
                f"{getattr(header, name)!r}); these are two logs: give each a file of its own"
            )
    log.resumed += 1


def _is_json(raw: bytes) -> bool:
    try:
        _ANY.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
