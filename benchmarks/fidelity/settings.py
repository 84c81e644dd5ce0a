"""What is validated for the published tables, and where it is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = ROOT / "traces" / "local" / "fidelity"
ARMS = ("static", "this-step", "lag", "lag-overlap", "lag-overlap-late", "lag-overlap-index")


@dataclass(frozen=True)
class Setting:
    """One validation: a drafter, a block length, a concurrency, and how it is judged."""

    algorithm: str
    sl: int
    concurrency: int
    timed: bool

    @property
    def name(self) -> str:
        """Its folder in WORK."""
        return f"{'time' if self.timed else 'tokens'}-{self.algorithm}-sl{self.sl}-c{self.concurrency}"

    @property
    def folder(self) -> Path:
        """Where its runs, its profile and its validation.json are."""
        return WORK / self.name

    @property
    def arguments(self) -> list[str]:
        """What `simtool validate` is told."""
        shared = ["--algorithm", self.algorithm, "--sl", str(self.sl), "--concurrency", str(self.concurrency)]
        if self.timed:
            arms = [argument for arm in ARMS for argument in ("--policy", arm)]
            prompts = max(32, 2 * self.concurrency) if self.concurrency > 1 else 16  # full for two requests, at least
            return [*shared, *arms, "--num-prompts", str(prompts), "--repeats", "5"]
        return [*shared, "--num-prompts", "208", "--max-new-tokens", "24", "--tokens-only"]


TIMED = [
    Setting(algorithm, sl, concurrency, True)
    for concurrency in (1, 8, 16, 32)
    for algorithm in ("dspark", "dflash")
    for sl in (7, 16)
]
EXACT = [
    Setting(algorithm, sl, concurrency, False)
    for algorithm in ("dspark", "dflash")
    for sl in (7, 16)
    for concurrency in (1, 4, 8, 16, 32)
]
