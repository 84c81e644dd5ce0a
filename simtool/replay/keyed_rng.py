"""Random numbers that are named, not counted: the same key draws the same under every placement and in every run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

_BYTES = 8


@lru_cache(maxsize=4096)
def uniform(*key: int | str) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    return int.from_bytes(_digest(key), "big") / 2**64


def uniforms(keys: Iterable[tuple[int | str, ...]]) -> NDArray[np.float64]:
    """Return `uniform` of each key, to the last bit, without remembering any: for many at once."""
    drawn = np.frombuffer(b"".join(map(_digest, keys)), ">u8")
    return drawn.astype(np.float64) / 2**64  # either division rounds once, for one by a power of two is exact


def _digest(key: tuple[int | str, ...]) -> bytes:
    return blake2b("\0".join(map(str, key)).encode(), digest_size=_BYTES).digest()
