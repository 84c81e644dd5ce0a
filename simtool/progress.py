"""What long work tells while it runs. A caller that wants to hear nothing passes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

#: Is told a sentence for people.
Say = Callable[[str], None]


class ShowProgress(Protocol):
    """Shows a piece of work of `total` parts while the context is open; what it yields is told how many are done."""

    def __call__(self, description: str, total: int) -> AbstractContextManager[Callable[[int], None]]: ...  # noqa: D102


def unsaid(_message: str) -> None:
    """Say nothing."""


@contextmanager
def unshown(description: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show nothing."""
    yield lambda _done: None
