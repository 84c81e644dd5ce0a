"""The errors a user can meet. One boundary in the command line prints them; a library caller catches them.

A message is one line that says what was given, what was expected, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'X'?" for the known word that a mistyped one is closest to, or nothing."""
    close = get_close_matches(text, list(known), n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


class SimtoolError(Exception):
    """Base of every error that is the caller's to mend. Exit status 2 at the command line."""


class Terminated(BaseException):
    """The process was asked to end; the text is the signal's name. Like KeyboardInterrupt it comes at any moment and
    passes every `except Exception`.
    """


class UsageError(SimtoolError):
    """An option or argument that cannot be honoured."""


class WorkerError(SimtoolError):
    """A process that computed a part of a study ended before it had."""


class OutputError(SimtoolError):
    """A place that nothing can be written to, or that another process is writing."""


class PlacementError(SimtoolError):
    """A placement whose order breaks a data dependency, or that names an unknown op."""


class TraceError(SimtoolError):
    """A trace that is missing, foreign, from a future schema version, or at odds with its schema."""


class CheckpointError(SimtoolError):
    """A model folder whose config or tensors are not what the engine runs."""


class ProfileError(SimtoolError):
    """A cost profile that lacks an op or a feature that the scenario needs."""


class CapacityError(SimtoolError):
    """A request that can never fit the KV cache or the model's context."""


class DeviceError(SimtoolError):
    """A device that is absent, or that failed while running."""
