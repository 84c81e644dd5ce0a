"""What the answers tell apart among shipped traces of one algorithm: the block length, and greedy or sampled texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from simtool import Trace


@dataclass(frozen=True, order=True)
class Load:
    """sl: draft tokens per block. temperature: 0 is greedy."""

    sl: int
    temperature: float = 0.0

    @classmethod
    def of(cls, trace: Trace) -> Load:
        """Return a trace's."""
        temperature = cast("float | None", trace.manifest.sampling.get("temperature"))  # a number: the manifest's check
        return cls(trace.manifest.sl, float(temperature or 0.0))

    def __str__(self) -> str:
        """As pages name it, behind the word SL."""
        return f"{self.sl} at T {self.temperature:g}" if self.temperature else str(self.sl)

    @property
    def slug(self) -> str:
        """As names of profiles end."""
        return f"sl{self.sl}-t{self.temperature:g}" if self.temperature else f"sl{self.sl}"
