"""One check of a first run, and how a check that fails becomes a line instead of an end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

Verdict = Literal["ok", "wrong", "refused", "does not apply"]


@dataclass(frozen=True)
class DeviceCheck:
    """What was asked of the device and what it did.

    verdict: ok; wrong: it ran and gave something else; refused: it raised. said: one plain sentence. facts: what was
    measured, for whoever reads the report.
    """

    name: str
    verdict: Verdict
    said: str
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        """Whether somebody must look at it."""
        return self.verdict in ("wrong", "refused")

    def to_dict(self) -> dict[str, object]:
        """As it stands in the report; JSON has no NaN, so those are texts there."""
        return {**asdict(self), "facts": _plain(self.facts)}


def attempt(name: str, check: Callable[[], DeviceCheck]) -> DeviceCheck:
    """Run a check; an error of the device's becomes its verdict, with the error's first line."""
    try:
        return check()
    except (RuntimeError, ValueError, AttributeError, TypeError) as error:  # what a framework raises for an op
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return DeviceCheck(name, "refused", lines[0], {"error": type(error).__name__, "text": "\n".join(lines[:20])})


def does_not_apply(name: str, why: str) -> DeviceCheck:
    """A check that this kind of device has nothing for."""
    return DeviceCheck(name, "does not apply", why)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
