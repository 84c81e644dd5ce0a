"""How long drawn requests are: all alike, or from a lognormal distribution that is cut off."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import special

from simtool.errors import UsageError
from simtool.files.reading import quoted

_MOST_TOKENS = 1_000_000


@dataclass(frozen=True)
class Lengths:
    """mean: tokens, of the distribution before it is cut. sigma: of the length's logarithm; 0: all alike. most: tokens
    that no request goes beyond.
    """

    mean: float
    sigma: float = 0.0
    most: int = _MOST_TOKENS

    def __post_init__(self) -> None:
        if not 1 <= self.mean <= _MOST_TOKENS or not 0 <= self.sigma <= 5 or not 1 <= self.most <= _MOST_TOKENS:
            raise UsageError(
                f"lengths of mean {self.mean:g}, sigma {self.sigma:g}, at most {self.most:g} tokens; expected 1 to "
                f"{_MOST_TOKENS:,} tokens and a sigma of 0 to 5"
            )

    def at(self, share: float) -> int:
        """Return the length that this share of requests is shorter than; share: between 0 and 1, neither."""
        middle = math.log(self.mean) - self.sigma**2 / 2
        return max(1, min(self.most, round(math.exp(middle + self.sigma * float(special.ndtri(share))))))

    def __str__(self) -> str:
        if not self.sigma:
            return f"{min(self.mean, self.most):g}"
        most = "" if self.most == _MOST_TOKENS else f":{self.most}"
        return f"lognormal:{self.mean:g}:{self.sigma:g}{most}"


def read_lengths(text: str) -> Lengths:
    """Parse "128", "lognormal:MEAN:SIGMA" or "lognormal:MEAN:SIGMA:MOST"; raises UsageError on anything else."""
    kind, *numbers = text.split(":")
    try:
        if not numbers:
            return Lengths(float(int(kind)))
        if kind == "lognormal" and len(numbers) in (2, 3):
            return Lengths(float(numbers[0]), float(numbers[1]), *map(int, numbers[2:]))
    except ValueError:
        pass
    raise UsageError(
        f"{quoted(text)} is no length; expected tokens such as 128, or lognormal:MEAN:SIGMA, and :MOST behind it"
    )
