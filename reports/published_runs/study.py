"""Everything that is predicted, in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from published_runs.cost_table import Budgets, budgets, falls
from published_runs.others import GOOD_SHARPNESS, V4_FLASH_LENGTH, ascend, rocm, rocm_from_vllm, sglang
from published_runs.prediction import MISSES, Prediction
from published_runs.tables import verify_table
from published_runs.xllm import gains, load
from published_runs.xllm.exposed import ARMS, Exposed, exposed
from published_runs.xllm.load import SIGMAS, Load
from published_runs.xllm.machine import SLS
from published_runs.xllm.noise import Resolution, resolutions

_RUN_2_PROMPTS = 48
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class PublishedStudy:
    """predictions: of every source. budgets: by sharpness of the confidence. loads: replays of run 2's load, by SL.
    occupancy: 95 % range of requests at once at SL 7, by the sigma of the lengths. falls: in vLLM's table.
    """

    predictions: Sequence[Prediction]
    resolutions: Sequence[Resolution]
    budgets: dict[float, list[Budgets]]
    falls: Sequence[tuple[int, int, float]]
    loads: dict[int, list[Load]]
    occupancy: dict[float, tuple[float, float]]
    exposed: Sequence[Exposed]

    def of(self, source: str) -> list[Prediction]:
        """Return the predictions of one source."""
        return [each for each in self.predictions if each.source == source]

    @property
    def misses(self) -> list[Prediction]:
        """Return those that do not hold."""
        return [each for each in self.predictions if each.verdict in MISSES]


def run_study(folder: Path, profiles: Path, say: Say) -> PublishedStudy:
    """Predict every published figure that others imply. folder: of the figures. profiles: of the machine's file.

    Raises UsageError where the figures cannot be read.
    """
    say("other systems: from the arm that does not adapt")
    others = [*sglang(folder), *rocm(folder), *rocm_from_vllm(folder), *ascend(folder)]
    say("xLLM 2280: both runs, replayed at every corner of what is assumed")
    both = gains.replayed(folder, profiles)
    say("xLLM 2280: the load, replayed")
    loads = {sl: load.loads(folder, profiles, sl, _RUN_2_PROMPTS) for sl in SLS}
    occupancy = {sigma: load.range_of(load.loads(folder, profiles, SLS[0], _RUN_2_PROMPTS, sigma)) for sigma in SIGMAS}
    say("xLLM 2280: what lag-overlap moves, under draws of the assumed figures")
    figures = profiles / "xllm-2280-like.toml"
    return PublishedStudy(
        predictions=[*gains.predictions(folder, both), *load.predictions(folder, loads), *others],
        resolutions=resolutions(folder),
        budgets={sharpness: budgets(folder, V4_FLASH_LENGTH, sharpness) for sharpness in (0.0, GOOD_SHARPNESS)},
        falls=falls(verify_table(folder)),
        loads=loads,
        occupancy=occupancy,
        exposed=[exposed(folder, figures, arm, sl) for sl in SLS for arm in ARMS],
    )
