"""Builds the stand-in for CANN: libascendcl (runtime.cpp) and libopapi (kernels.cpp) behave, the others are stubs.

python -m tests.engine.npu.standin.build FOLDER      builds what is older than its source, for this Python's wheel
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.engine.npu.stubs import StubError, Wanted, build, defined, package, share, wanted

HERE = Path(__file__).parent


def build_all(folder: Path) -> None:
    """Compile against the wheel's own headers of CANN and torch's of the same environment. Raises StubError."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel, torch = package("torch_npu"), package("torch")
    cann = (f"-I{wheel / 'include'}", "-pthread", "-Wall", "-Wextra")
    behind = (f"-L{folder}", "-lascendcl")
    runtime = _fresh(folder / "libascendcl.so", HERE / "runtime.cpp", "-std=c++17", "-O1", *cann)
    torchs = (f"-I{torch / 'include'}", "-std=c++20", "-O0", *behind, f"-L{torch / 'lib'}", "-lc10", "-ltorch_cpu")
    _fresh(folder / "libopapi.so", HERE / "kernels.cpp", *cann, "-w", *torchs)
    share(folder / "libnnopbase.so", "-Wl,--no-as-needed", "-x", "c", "/dev/null", f"-L{folder}", "-lopapi")
    lacking = wanted()
    others = [name for name in lacking.libraries if name != runtime.name]
    build(folder, Wanted(others, lacking.symbols - defined([runtime])), *behind)


def _fresh(library: Path, source: Path, *flags: str) -> Path:
    newest = max(path.stat().st_mtime for path in (source, HERE / "standin.h", package("torch_npu") / "version.py"))
    if not library.exists() or library.stat().st_mtime < newest:
        share(library, str(source), *flags, compiler="g++")
    return library


if __name__ == "__main__":
    try:
        build_all(Path(sys.argv[1]))
    except StubError as error:
        sys.exit(f"no stand-in: {error}")
    print(sys.argv[1])
