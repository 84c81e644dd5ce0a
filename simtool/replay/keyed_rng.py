"""Random numbers that are named, not counted: the same key draws the same under every placement and in every run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import chain

import numpy as np
from numpy.typing import NDArray

_BYTES = 8


@lru_cache(maxsize=4096)
def uniform(*key: int | str) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    return int.from_bytes(_digest(key), "big") / 2**64


def uniforms(heads: Iterable[tuple[tuple[int | str, ...], Iterable[int]]]) -> NDArray[np.float64]:
    """Return `uniform` of each head with each of its numbers behind it, to the last bit, without remembering any."""
    drawn = np.frombuffer(b"".join(chain.from_iterable(_digests(*each) for each in heads)), ">u8")
    return drawn.astype(np.float64) / 2**64  # either division rounds once, for one by a power of two is exact


def _digests(head: tuple[int | str, ...], numbers: Iterable[int]) -> Iterator[bytes]:
    begun = blake2b(_text((*head, "")), digest_size=_BYTES)  # keys that begin alike are hashed so far once
    for number in numbers:
        whole = begun.copy()
        whole.update(b"%d" % number)
        yield whole.digest()


def _digest(key: tuple[int | str, ...]) -> bytes:
    return blake2b(_text(key), digest_size=_BYTES).digest()


def _text(key: tuple[int | str, ...]) -> bytes:
    return "\0".join(map(str, key)).encode()
