"""The machine and the traffic that the pull request's figures are replayed on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from simtool.profile.cost import Cost
from simtool.profile.profile import Profile
from simtool.profile.storage import load_profile
from simtool.replay.synthetic.lengths import Lengths
from simtool.replay.synthetic.process import AcceptanceProcess, constant_acceptance
from simtool.replay.synthetic.trace import SyntheticPlan, draw_trace
from simtool.step.controller import LinearPredictor
from simtool.trace.trace import Trace
from simtool.units import NS_PER_MS

CONCURRENCY = 32
SLS = (7, 16)
#: Means as the paper on PagedAttention tells them of ShareGPT (arXiv 2309.06180, figure 11). That lengths are
#: lognormal, with this sigma, and cut at 2,048, is assumed.
PROMPTS, OUTPUTS = Lengths(161, 1.0, 1024), Lengths(338, 1.0, 2048)
SHARPNESS, AUTOCORRELATION = (0.3, 0.75), (0.3, 0.9)


@dataclass(frozen=True)
class Text:
    """How confident drafts are: nobody publishes it for these runs."""

    sharpness: float
    autocorrelation: float


#: The corners of what is assumed of the confidence, and its middle.
TEXTS = tuple(Text(sharp, lasting) for sharp in SHARPNESS for lasting in AUTOCORRELATION)
MIDDLE = Text(0.5, 0.6)


def acceptance(sl: int, acceptance_rate: float) -> tuple[float, ...]:
    """Return acceptance by position from a static arm's rate: all SL drafts are offered, and all alike."""
    return constant_acceptance(sl, 1 + sl * acceptance_rate)


def traffic(
    sl: int, acceptance_rate: float, text: Text, profile: Profile, requests: int, seed: int, outputs: Lengths = OUTPUTS
) -> Trace:
    """Return requests of ShareGPT-like lengths whose drafts are accepted as in a static arm."""
    process = AcceptanceProcess(
        acceptance=acceptance(sl, acceptance_rate),
        sharpness=text.sharpness,
        confidence_autocorrelation=text.autocorrelation,
    )
    plan = SyntheticPlan(process=process, requests=requests, prompt=PROMPTS, output=outputs, seed=seed)
    return draw_trace(plan, profile, CONCURRENCY)


def figures_profile(folder: Path) -> Profile:
    """Return the machine of the pull request's figures; most of its costs are assumed."""
    return load_profile(folder / "xllm-2280-like.json")


def rows_share(tokens_per_s: tuple[float, float], rates: tuple[float, float]) -> float:
    """Return what share of the SL 7 static step its validate rows are, from the static arms of both SLs.

    tokens_per_s, rates: at SL 7 and 16. Both arms serve the same requests at, it is taken, the same batch; the step is
    a constant and so much a row, and rows are SL + 1 a sequence.
    """
    seven, sixteen = ((1 + sl * rate) / tok for sl, tok, rate in zip(SLS, tokens_per_s, rates, strict=True))
    growth = sixteen / seven - 1
    return growth * (SLS[0] + 1) / (SLS[1] - SLS[0])


def with_rows_share(profile: Profile, share: float) -> Profile:
    """Return the machine with the time of a row such that rows are this share of a static step at SL 7.

    All else stays: the constant part is that of the profile's target and draft at the full batch.
    """
    rows, drafts = CONCURRENCY * (SLS[0] + 1), CONCURRENCY * SLS[0]
    device = profile.decode.device
    target, draft = device["target"].duration, device["draft"].duration
    constant = target.intercept_ns + draft.intercept_ns + draft.per_feature_ns["block_rows"] * drafts
    row_ns = constant * share / (1 - share) / rows
    dearer = replace(device["target"], duration=Cost(target.intercept_ns, {"validate_rows": row_ns}))
    decode = replace(profile.decode, device={**device, "target": dearer})
    predictor = LinearPredictor(target.intercept_ns / NS_PER_MS, row_ns / NS_PER_MS, 0.0)
    return replace(profile, name=f"{profile.name}, rows by the static arms", decode=decode, predictor=predictor)
