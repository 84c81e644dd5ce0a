"""What a foreign trace tells of: host calls, device work and step marks, before they are mapped to lanes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class WorkKind(StrEnum):
    """What a piece of device work is: only copies to and from the host decide a lane."""

    KERNEL = "kernel"
    UPLOAD = "upload"
    DOWNLOAD = "download"
    OTHER = "other"


@dataclass(frozen=True)
class HostCall:
    """A call on a host thread. link: what its device work knows it by. waits: the call is one wait for the device."""

    name: str
    thread: str
    span_ns: tuple[int, int]
    link: str | None
    waits: bool = False


@dataclass(frozen=True)
class ProfiledWork:
    """Work on a stream. bytes: moved between host and device."""

    name: str
    stream: str
    kind: WorkKind
    span_ns: tuple[int, int]
    link: str | None
    bytes: int = 0


@dataclass(frozen=True)
class StepMark:
    """The profiler's own mark of a step, with its own number."""

    step: int
    span_ns: tuple[int, int]


@dataclass
class Timeline:
    """What an importer found, before it is mapped."""

    calls: list[HostCall] = field(default_factory=list)
    works: list[ProfiledWork] = field(default_factory=list)
    marks: list[StepMark] = field(default_factory=list)
