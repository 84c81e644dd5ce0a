"""How functions over arrays are compiled, and where the code is kept; the one place that knows numba."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar, cast

from simtool.errors import UsageError
from simtool.replay.scenario import SimulatorChoice

_F = TypeVar("_F", bound=Callable[..., Any])

#: Sums keep their order and nothing is fused, so floats round as they do in Python. Kernels make no arrays, and without
#: a count of who refers to each (_nrt) they are several times as fast.
_OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False}


@cache
def numba() -> Any | None:
    """Return the compiler's module; None where it cannot be imported, whatever the reason, which a warning names."""
    try:
        return import_module("numba")
    except (ImportError, OSError, SystemError, AttributeError) as error:
        # absent, built for another numpy or LLVM, or a file beside the script that is run has a name that numba imports
        reason = f"{type(error).__name__}: {error}"
        warnings.warn(
            f"numba cannot be imported, so many replays run on SimPy, which is slower ({reason})",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def default_simulator() -> SimulatorChoice:
    """Return which simulator runs many replays: the compiled one, or SimPy where that cannot run."""
    return "simpy" if numba() is None else "compiled"


def check_compiler() -> None:
    """Raise UsageError where numba cannot be imported."""
    if numba() is None:
        raise UsageError(
            "the compiled simulator needs numba, which cannot be imported here; install it, or take --simulator simpy"
        )


def kernel(function: _F) -> _F:
    """Compile a function when it is first called; without numba it stays as it is: slow, and right."""
    return _compiled(function, **_OPTIONS)


def part(function: _F) -> _F:
    """Compile a function that only kernels call, as a piece of each of them."""
    return _compiled(function, **_OPTIONS, forceinline=True)


@cache
def code_folder(chosen: str = "") -> Path:
    """Return where compiled code is kept for later processes: a folder for these very sources, below the chosen one.

    The compiler looks at one file when it judges whether its code is current, and kernels are made of several.
    """
    base = Path(chosen or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = blake2b(digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return base / "simtool" / f"kernels-{digest.hexdigest()}"


def _compiled(function: _F, **options: Any) -> _F:
    module = numba()
    if module is None:
        return function
    before = module.config.CACHE_DIR
    try:
        module.config.CACHE_DIR = str(code_folder(before))
        return cast("_F", _mistrusting(module.njit(cache=True, **options)(function)))
    except (RuntimeError, OSError):  # nowhere to write: compiled anew in each process
        return cast("_F", module.njit(**options)(function))
    finally:
        module.config.CACHE_DIR = before


def _mistrusting(compiled: Any) -> Any:
    """Have kept code that cannot be read (a full disk cut it short) made anew, where numba would raise."""
    kept = compiled._cache  # numba has no public way to say what a damaged file means
    load = kept.load_overload

    def load_or_forget(signature: Any, target: Any) -> Any | None:
        try:
            return load(signature, target)
        except Exception:  # whatever unpickling damaged bytes comes to
            kept.flush()
            return None

    kept.load_overload = load_or_forget
    return compiled
