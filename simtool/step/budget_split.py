"""A budget of drafts split over a batch: the likeliest first, whoever they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def split(paths: Sequence[Sequence[float]], budget: int) -> list[int]:
    """Return the prefix length of each sequence, `budget` drafts in all.

    paths: per sequence the probability that the drafts up to and with each are all accepted. It never grows along a
    sequence, so the likeliest drafts are prefixes; equals go by position, then by sequence.
    """
    order = sorted((-path, place, i) for i, row in enumerate(paths) for place, path in enumerate(row))
    shares = Counter(i for _, _, i in order[:budget])
    return [shares[i] for i in range(len(paths))]
