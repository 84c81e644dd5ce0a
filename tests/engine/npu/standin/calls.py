"""What the stand-in counts and logs, read through ctypes. See standin.h."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

#: Calls that hold their caller up until the device has come so far.
BLOCKING = ("sync_stream", "sync_event", "sync_device", "copy_unpinned")


class _Call(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_int32),
        ("thread", ctypes.c_int32),
        ("ns", ctypes.c_int64),
        ("object", ctypes.c_uint64),
    )


@dataclass(frozen=True)
class Call:
    """One call. thread: its caller's, by the kernel's number; ns: CLOCK_MONOTONIC at its start; object: its handle."""

    kind: str
    thread: int
    ns: int
    object: int


@dataclass
class Calls:
    """The calls of a `with watched()`; complete once it is left."""

    made: list[Call] = field(default_factory=list)

    def count(self, *kinds: str) -> int:
        """How many of these kinds."""
        return sum(call.kind in kinds for call in self.made)

    def by_kind(self) -> Counter[str]:
        """Calls of each kind."""
        return Counter(call.kind for call in self.made)


def library() -> ctypes.CDLL | None:
    """The libascendcl that is loaded or would be, if it is the stand-in."""
    try:
        found = ctypes.CDLL("libascendcl.so")
    except OSError:
        return None
    return found if hasattr(found, "standin_count") else None


@contextmanager
def watched() -> Iterator[Calls]:
    """Log every call of the block, from all threads."""
    standin = _here()
    calls = Calls()
    standin.standin_log(1)
    try:
        yield calls
    finally:
        count = standin.standin_read_log(None, ctypes.c_uint64(0))
        raw = (_Call * max(count, 1))()
        standin.standin_read_log(raw, ctypes.c_uint64(count))
        standin.standin_log(0)
        calls.made.extend(Call(_kind(one.kind), one.thread, one.ns, one.object) for one in raw[:count])


def events_alive() -> int:
    """Events that were created and not destroyed."""
    alive: int = _here().standin_events_alive()
    return alive


@cache
def _kind(number: int) -> str:
    name: bytes = _here().standin_kind_name(number)
    return name.decode()


@cache
def _here() -> ctypes.CDLL:
    found = library()
    assert found is not None, "libascendcl is not the stand-in: run this lane through make test-npu-wheel"
    found.standin_kind_name.restype = ctypes.c_char_p
    found.standin_events_alive.restype = ctypes.c_uint64
    found.standin_read_log.restype = ctypes.c_uint64
    return found
