"""What long work tells while it runs. A caller that wants to hear nothing passes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

#: Is told a sentence for people.
Say = Callable[[str], None]


@dataclass(frozen=True)
class Expected:
    """How long a piece of work will take, as far as that is known before it starts. basis: what that rests on.

    at_most: it may well take less.
    """

    seconds: float
    basis: str
    at_most: bool = False


class ShowProgress(Protocol):
    """Shows a piece of work of `total` parts while the context is open; what it yields is told how many are done.

    expected: what it will take; None: nobody knows before.
    """

    def __call__(  # noqa: D102
        self, description: str, total: int, expected: Expected | None = None
    ) -> AbstractContextManager[Callable[[int], None]]: ...


def unsaid(_message: str) -> None:
    """Say nothing."""


@contextmanager
def unshown(description: str, total: int, expected: Expected | None = None) -> Iterator[Callable[[int], None]]:
    """Show nothing."""
    yield lambda _done: None
