"""A scenario: everything about a replay that is neither in the trace nor in the profile."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from simtool.errors import TraceError, UsageError
from simtool.step.controller import ControllerSettings
from simtool.step.placement import Placement
from simtool.trace.manifest import Manifest
from simtool.units import NS_PER_S

#: Requests per second: from one in twenty minutes to one a nanosecond; the times of a million fit 64 bits of ns.
_LEAST_RATE, _MOST_RATE = 0.001, 1e9
_MOST_CONCURRENCY = 65_536
ArrivalKind = Literal["closed", "trace", "poisson"]
OutcomeMode = Literal["strict", "resample"]
NoiseMode = Literal["none", "residual"]
SimulatorChoice = Literal["simpy", "compiled"]


@dataclass(frozen=True)
class Arrivals:
    """When requests ask to be served.

    closed: all at once, each waiting for a free slot. trace: spaced as the requests' own arrivals, which a rate
    stretches or squeezes to that many per second on average. poisson: at random, at that rate on average.
    """

    kind: ArrivalKind = "closed"
    rate_per_s: float | None = None

    def __post_init__(self) -> None:
        _check_choice("arrivals", self.kind, get_args(ArrivalKind))
        if self.kind == "poisson" and self.rate_per_s is None:
            raise UsageError("arrivals poisson without a rate; expected poisson:RATE, in requests per second")
        if self.kind == "closed" and self.rate_per_s is not None:
            raise UsageError(f"arrivals closed with a rate of {self.rate_per_s}; a closed loop has none, leave it out")
        if self.rate_per_s is not None and not _LEAST_RATE <= self.rate_per_s <= _MOST_RATE:
            raise UsageError(
                f"arrival rate is {self.rate_per_s:g} per second; expected more than 0: {_LEAST_RATE:g} to "
                f"{_MOST_RATE:g}"
            )

    def times_ns(self, recorded_ns: Sequence[int], seed: int) -> list[int]:
        """Return the arrival of each request, in queue order, on a clock that starts at 0.

        Raises UsageError when recorded arrivals shall be scaled and all came at once.
        """
        if self.kind == "trace":
            return self._spaced(recorded_ns)
        if self.rate_per_s is None:
            return [0] * len(recorded_ns)
        draws, now, times = random.Random(f"{seed}:arrivals"), 0.0, []
        for _ in recorded_ns:
            now += draws.expovariate(self.rate_per_s)
            times.append(round(now * NS_PER_S))
        return times

    def _spaced(self, recorded_ns: Sequence[int]) -> list[int]:
        first, last = min(recorded_ns), max(recorded_ns)
        if self.rate_per_s is None:
            return [arrival - first for arrival in recorded_ns]
        if first == last:
            raise UsageError(
                f"arrivals trace:{self.rate_per_s:g} of {len(recorded_ns)} requests that came at once: there is no "
                f"spacing to scale; expected closed, or poisson:{self.rate_per_s:g}"
            )
        scale = (len(recorded_ns) - 1) * NS_PER_S / (self.rate_per_s * (last - first))
        return [round((arrival - first) * scale) for arrival in recorded_ns]


@dataclass(frozen=True)
class Scenario:
    """One replay to run. The draft block is always the trace's: another SL would draft other tokens.

    outcomes: strict refuses an anchor that the trace does not hold, resample substitutes a near one and counts it.
    noise: none is deterministic to the ns; residual adds resampled fit residuals, drawn alike under every placement.
    kv_blocks: size of the KV cache; None: the trace's, grown with the concurrency.
    stale_loss: what if a decision on old confidence cost this share of its accepted drafts, beyond what the outcomes
    say; its batch is as wide as before. 0 to 1.
    """

    placement: Placement
    concurrency: int
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    arrivals: Arrivals = field(default_factory=Arrivals)
    outcomes: OutcomeMode = "strict"
    noise: NoiseMode = "none"
    seed: int = 0
    kv_blocks: int | None = None
    stale_loss: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.concurrency <= _MOST_CONCURRENCY:
            raise UsageError(f"concurrency is {self.concurrency}; expected 1 or more, and at most {_MOST_CONCURRENCY}")
        if self.kv_blocks is not None and self.kv_blocks < 1:
            raise UsageError(f"KV cache of {self.kv_blocks} blocks; expected 1 or more")
        if not 0 <= self.stale_loss <= 1:
            raise UsageError(f"stale loss is {self.stale_loss:g}; expected a share of accepted drafts, 0 to 1")
        _check_choice("outcomes", self.outcomes, get_args(OutcomeMode))
        _check_choice("noise", self.noise, get_args(NoiseMode))

    def to_dict(self) -> dict[str, object]:
        """Return plain JSON values, for the manifest."""
        return {
            "placement": self.placement.to_dict(),
            "concurrency": self.concurrency,
            "controller": self.controller.to_dict(),
            "arrivals": asdict(self.arrivals),
            "outcomes": self.outcomes,
            "noise": self.noise,
            "seed": self.seed,
            "kv_blocks": self.kv_blocks,
            "stale_loss": self.stale_loss,
        }

    @property
    def what_ifs(self) -> tuple[str, ...]:
        """What the scenario supposes against the recorded outcomes, a sentence each; only where it has an effect."""
        told: tuple[str, ...] = ()
        if self.placement.splits_for_free:
            told = (
                f"{self.placement.name} splits its budget by this step's confidence on the device: nothing on the host "
                "waits for that, and it is priced at nothing",
            )
        if not self.stale_loss or not self.placement.lag_steps:
            return told
        return (*told, f"decisions on old confidence lose {self.stale_loss:.0%} of their accepted drafts")


def outcome_mode(manifest: Manifest) -> OutcomeMode:
    """Return how a study looks outcomes up, which asks nobody: an import holds only anchors that its run visited."""
    return "resample" if manifest.origin == "imported" else "strict"


def recorded_controller(manifest: Manifest) -> ControllerSettings:
    """Return the controller settings that a trace was recorded with; raises TraceError when they cannot be read."""
    try:
        return ControllerSettings.from_dict(manifest.controller)
    except UsageError as error:
        raise TraceError(f"manifest: controller: {error}") from error


def _check_choice(what: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{what} is {value!r}; expected one of {', '.join(choices)}")
