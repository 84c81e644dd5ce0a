"""Jobs on the workers of a Dask scheduler; a worker that dies is made up for by the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from simtool.errors import UsageError

_J = TypeVar("_J")
_R = TypeVar("_R")
_CONNECT_S = 10


def on_cluster(address: str, run: Callable[[_J], _R], jobs: Sequence[_J]) -> Iterator[_R]:
    """Yield `run` of each job, in their order. address: of a scheduler, such as tcp://host:8786.

    Raises UsageError where no scheduler answers, or distributed is not installed.
    """
    try:
        from distributed import Client  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise UsageError("--cluster needs Dask's distributed; install simtool[cluster]") from error
    try:
        client = Client(address, timeout=_CONNECT_S, set_as_default=False)  # type: ignore[no-untyped-call]  # untyped there
    except (OSError, ValueError) as error:
        raise UsageError(f"--cluster {address}: no scheduler answers there; expected tcp://HOST:PORT of one") from error
    with client:
        for future in client.map(run, jobs, pure=False):
            yield future.result()
