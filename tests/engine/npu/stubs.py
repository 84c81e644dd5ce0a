"""Stub objects for the CANN libraries, so that the real torch_npu wheel can be imported where there is no CANN.

Everything is read from the wheel itself: which libraries its objects name and nobody has, and which symbols nobody
defines. Stub functions fail (non-zero, or null where a text is asked for), so the import sees a machine without a
device. Nothing computed here has run on an NPU.

    python -m tests.engine.npu.stubs FOLDER      builds them for the torch_npu of this Python, and prints FOLDER
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_OBJECTS = ("_C.*.so", "lib/*.so")
#: The import reads these as texts; null says that there is none.
_NULL = ("aclGetRecentErrMsg", "aclrtGetSocName")


class StubError(Exception):
    """The stubs cannot be built here; the message says why."""


@dataclass(frozen=True)
class Wanted:
    """What the wheel needs and this machine lacks: names of libraries, and symbols that nobody defines."""

    libraries: list[str]
    symbols: set[str]


def wanted() -> Wanted:
    """Read it from the wheel. Raises StubError where nothing is lacking."""
    objects = [path for pattern in _OBJECTS for path in sorted(package("torch_npu").glob(pattern))]
    suppliers = [*objects, *sorted((package("torch") / "lib").glob("*.so*"))]
    python = Path(sys.executable).resolve()
    symbols = _undefined(objects) - defined([*suppliers, python, *_system_libraries([*objects, python])])
    own = {path.name for path in suppliers}
    missing = sorted(name for name in _needed(objects) if name not in own and not _loads(name))
    if not missing:
        raise StubError("every library that torch_npu needs is here: this machine has CANN, use it")
    return Wanted(missing, symbols)


def build(folder: Path, lacking: Wanted, *linked: str) -> list[Path]:
    """Compile a stub of each library, with all the symbols. linked: arguments that link what stands behind them."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "stubs.c"
    lines = (f"long {symbol}(void) {{ return {int(symbol not in _NULL)}; }}\n" for symbol in sorted(lacking.symbols))
    source.write_text("".join(lines))
    # built-in declarations of a few names differ from the stub's, which is of no account here
    flags = ("-w", "-fno-builtin", "-Wl,--no-as-needed", str(source), *linked)
    return [share(folder / name, *flags) for name in lacking.libraries]


def share(library: Path, *arguments: str, compiler: str = "gcc") -> Path:
    """Compile a shared library; raises StubError with the compiler's words."""
    flags = ("-shared", "-fPIC", f"-Wl,-soname,{library.name}")
    _run(compiler, *flags, "-o", str(library), *arguments)
    return library


def package(name: str) -> Path:
    """The folder of an installed package; raises StubError."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise StubError(f"{name} is not installed in {sys.prefix}")
    return Path(found.origin).parent


def _needed(objects: Iterable[Path]) -> set[str]:
    """Library names in the objects' dynamic sections."""
    lines = _run("readelf", "--dynamic", "--wide", *map(str, objects)).splitlines()
    return {line.partition("[")[2].rstrip("] ") for line in lines if "(NEEDED)" in line}


def _undefined(objects: Iterable[Path]) -> set[str]:
    """Symbols that must be found elsewhere; weak ones may stay undefined."""
    lines = _run("nm", "--dynamic", "--undefined-only", "--no-weak", *map(str, objects)).splitlines()
    return {fields[1].partition("@")[0] for fields in map(str.split, lines) if len(fields) == 2 and fields[0] == "U"}


def defined(objects: Iterable[Path]) -> set[str]:
    """Symbols that the objects define for others."""
    lines = _run("nm", "--dynamic", "--defined-only", *map(str, objects)).splitlines()
    return {line.split()[-1].partition("@")[0] for line in lines if len(line.split()) == 3}


def _system_libraries(objects: Iterable[Path]) -> set[Path]:
    """Paths of the libraries that the loader finds for the objects, itself included."""
    fields = {field for line in _run("ldd", *map(str, objects)).splitlines() for field in line.split()}
    return {Path(field) for field in fields if field.startswith("/") and not field.endswith(":")}


def _loads(name: str) -> bool:
    cached = {line.split()[0] for line in _run("/sbin/ldconfig", "-p").splitlines() if line.startswith("\t")}
    return name in cached


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise StubError(f"{command[0]} is not installed (Debian: apt-get install g++ binutils)") from error
    if done.returncode:
        raise StubError(f"{' '.join(command[:4])}...: {done.stderr.strip()[:2000]}")
    return done.stdout


if __name__ == "__main__":
    try:
        build(Path(sys.argv[1]), wanted())
    except StubError as error:
        sys.exit(f"no stub libraries: {error}")
    print(sys.argv[1])
