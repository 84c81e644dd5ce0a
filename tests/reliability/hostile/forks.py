"""Work in a process of its own, so that no thread, module or limit of it stays here, and what it took."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pickle
import pkgutil
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

import xllm_2280

import simtool

T = TypeVar("T")


@dataclass(frozen=True)
class Forked(Generic[T]):
    """What the work gave. peak_bytes: the most memory it held, with what the process had from the start."""

    result: T
    seconds: float
    peak_bytes: int


def import_all() -> None:
    """Import what the commands import, once, so that forks need not; nothing of it runs, so no thread starts."""
    for package in (simtool, xllm_2280):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if module.name.rpartition(".")[2] != "__main__":
                importlib.import_module(module.name)


def in_fork(work: Callable[[], T]) -> T:
    """Run in a fork and return what it gives; raises RuntimeError when it does not end well."""
    return forked(work).result


def forked(work: Callable[[], T]) -> Forked[T]:
    """Run in a fork; raises RuntimeError, with the traceback or the signal, when it does not end well."""
    reader, writer = os.pipe()
    started_s = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            try:
                told = pickle.dumps((work(), None))
            except BaseException:
                told = pickle.dumps((None, said.getvalue() + traceback.format_exc()))
        with open(writer, "wb") as pipe:
            pipe.write(told)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        told = pipe.read()
    _, status, used = os.wait4(child, 0)
    result, failure = pickle.loads(told) if told else (None, f"ended by signal {os.WTERMSIG(status)}")
    if failure is not None:
        raise RuntimeError(failure)
    return Forked(cast(T, result), time.monotonic() - started_s, used.ru_maxrss << 10)
