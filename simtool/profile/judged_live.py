"""How far replays of the pair that ships were off where live runs judged them: three pages' figures.

`benchmarks.fidelity` writes them with the pages, so that a verdict can say them wherever simtool is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

#: The page of record, as a reader finds it.
PAGE = "docs/fidelity.md"


@dataclass(frozen=True, kw_only=True)
class JudgedArm:
    """What one placement gives over static in steady tokens/s, as shares. half: of the live 95 % interval."""

    placement: str
    replayed: float
    live: float
    half: float

    @property
    def off(self) -> float:
        """How far the replay was off."""
        return abs(self.replayed - self.live)


@dataclass(frozen=True, kw_only=True)
class Told:
    """What live controllers were told, and by whose costs replays were made. costs_of: the profile's name.

    predictor: of verify time, its three terms in ms. draft_ms: what a draft was said to take.
    """

    costs_of: str
    predictor: Mapping[str, float]
    draft_ms: float


@dataclass(frozen=True, kw_only=True)
class JudgedSetting:
    """One setting. page: that says so. models: role -> sha256. repetitions: live ones.

    told: None: controllers timed the verify themselves, as xLLM's do, and replays had costs of the setting's own.
    """

    page: str
    algorithm: str
    sl: int
    concurrency: int
    models: Mapping[str, str]
    device_name: str
    repetitions: int
    arms: tuple[JudgedArm, ...]
    told: Told | None = None

    @property
    def worst_off(self) -> float:
        """How far off a placement's difference to static was at worst, a share."""
        return max(each.off for each in self.arms)


@dataclass(frozen=True, kw_only=True)
class StretchError:
    """Costs fitted at one concurrency and judged at another: how far differences to static were off, as shares."""

    page: str
    fitted: int
    judged: int
    mean: float
    worst: float

    @property
    def times(self) -> float:
        """How far the costs were stretched."""
        return max(self.judged / self.fitted, self.fitted / self.judged)


@dataclass(frozen=True, kw_only=True)
class JudgedLive:
    """All that the pages hold."""

    settings: tuple[JudgedSetting, ...]
    stretches: tuple[StretchError, ...]


@cache
def judged_live() -> JudgedLive:
    """Return what was judged live."""
    return msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=JudgedLive)


def stretch_error(times: float, *, above: bool) -> StretchError | None:
    """Return the error of the smallest judged stretch that is at least as far; None: nobody judged one as far.

    above: priced at larger sizes than were fitted, and not at smaller ones. Of equal stretches the worse is taken.
    """
    far = [each for each in judged_live().stretches if (each.judged > each.fitted) == above and each.times >= times]
    return min(far, key=lambda each: (each.times, -each.worst), default=None)


def judged_settings(
    algorithm: str, sl: int, concurrency: int, models: Mapping[str, Mapping[str, str]]
) -> list[JudgedSetting]:
    """Return what was judged of these very models (role -> id, sha256) in this setting, on whatever machine."""
    mine = {role: model.get("sha256") for role, model in models.items()}
    asked = (algorithm, sl, concurrency, mine)
    return [s for s in judged_live().settings if (s.algorithm, s.sl, s.concurrency, dict(s.models)) == asked]
