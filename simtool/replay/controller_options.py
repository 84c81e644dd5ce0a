"""What a replay's controller knows: the recorded settings, but for what is asked for; one default for all commands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from simtool.profile.profile import Profile
from simtool.replay.scenario import recorded_controller
from simtool.step.controller import ControllerSettings
from simtool.trace.trace import Trace

#: Whose validate-time predictor the controller uses.
PredictorChoice = Literal["trace", "profile", "none"]


@dataclass(frozen=True)
class ControllerOptions:
    """What is asked for instead of the recorded settings; None: as recorded, and for the predictor the default.

    The default predictor is the profile's, for that is fitted on the machine whose costs the replay pays; the trace's
    where the profile has none. draft_ms: draft time that the controller assumes. min_gain: relative gain that
    a longer prefix must bring.
    """

    predictor: PredictorChoice | None = None
    draft_ms: float | None = None
    min_gain: float | None = None

    def choice(self, profile: Profile) -> PredictorChoice:
        """Return whose predictor is used."""
        return self.predictor or ("profile" if profile.predictor is not None else "trace")

    def settings(self, source: Trace, profile: Profile) -> ControllerSettings:
        """Return the controller of a replay of the source at the profile's costs."""
        recorded = recorded_controller(source.manifest)
        fitted = {"trace": recorded.predictor, "profile": profile.predictor, "none": None}
        return replace(
            recorded,
            predictor=fitted[self.choice(profile)],
            draft_ms=recorded.draft_ms if self.draft_ms is None else self.draft_ms,
            min_gain=recorded.min_gain if self.min_gain is None else self.min_gain,
            temperatures=profile.temperatures or recorded.temperatures,
        )

    def told(self, source: Trace, profile: Profile) -> str:
        """Say whose predictor decides, where it comes from another device than the trace, and what a draft is said
        to take.
        """
        choice = self.choice(profile)
        settings = self.settings(source, profile)
        draft = f", told that a draft takes {settings.draft_ms:g} ms" if settings.draft_ms else ""
        if settings.predictor is None:
            return f"controller without a predictor{draft}"
        other = choice == "profile" and profile.device_name != source.manifest.device_name
        where = f" ({profile.name}, of {profile.device_name}; the trace is of {source.manifest.device_name})"
        return f"controller with the {choice}'s predictor of verify time{where if other else ''}{draft}"
