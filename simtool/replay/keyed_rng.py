"""Random numbers that are named, not counted: the same key draws the same under every placement and in every run."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b


@lru_cache(maxsize=4096)
def uniform(*key: int | str) -> float:
    """Return a number in [0, 1) that depends on the key alone."""
    digest = blake2b("\0".join(map(str, key)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64
