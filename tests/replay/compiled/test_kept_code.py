"""Compiled code that is kept for later processes, whole or damaged."""

import math
from pathlib import Path
from typing import Any

import pytest

from simtool.replay.compiled import kernel

numba = pytest.importorskip("numba")


def _plus_root(x: float) -> float:
    return x + math.sqrt(x)


def test_code_cut_short_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that filled up may leave any part of a file: each is as good as none, and is written over."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    assert kernel.kernel(_plus_root)(4.0) == 6.0
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.nb?")}
    assert {path.suffix for path in kept} == {".nbi", ".nbc"}
    for suffix in (".nbi", ".nbc"):
        for share in (0, 0.5):
            for path in kept:
                if path.suffix == suffix:
                    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
            anew: Any = kernel.kernel(_plus_root)
            assert anew(4.0) == 6.0
            assert sum(anew.stats.cache_hits.values()) == 0
            again: Any = kernel.kernel(_plus_root)
            assert again(4.0) == 6.0
            assert sum(again.stats.cache_hits.values()) == 1
