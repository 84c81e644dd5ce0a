"""A synthetic trace: requests and outcomes that were drawn, and the times that a profile gives them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.errors import UsageError
from simtool.profile.profile import Profile
from simtool.replay.replay import Replay, replay
from simtool.replay.scenario import Scenario, SimulatorChoice
from simtool.replay.synthetic.draw import DrawnBlocks, draw_blocks, generator
from simtool.replay.synthetic.lengths import Lengths
from simtool.replay.synthetic.process import AcceptanceProcess
from simtool.replay.synthetic.solve import Shape, solve
from simtool.step.controller import ControllerSettings
from simtool.step.placement import resolve_placement
from simtool.trace.frames import make_frame
from simtool.trace.manifest import Manifest
from simtool.trace.run_details import SyntheticOutcomes
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace
from simtool.version import __version__

_MOST_REQUESTS = 100_000
_MOST_ANCHORS = 50_000_000
_BLOCK_SIZE = 16
Drafter = Literal["dspark", "dflash"]


@dataclass(frozen=True, kw_only=True)
class SyntheticPlan:
    """What to draw: so many requests, of these lengths, whose outcomes are of this process."""

    process: AcceptanceProcess
    requests: int
    prompt: Lengths
    output: Lengths
    seed: int = 0
    drafter: Drafter = "dspark"

    def __post_init__(self) -> None:
        if not 1 <= self.requests <= _MOST_REQUESTS:
            raise UsageError(f"{self.requests} requests asked for; expected 1 to {_MOST_REQUESTS:,}")
        if not 0 <= self.seed < 1 << 63:
            raise UsageError(f"seed is {self.seed}; expected 0 or more")


def draw_trace(plan: SyntheticPlan, profile: Profile, concurrency: int, name: str = "synthetic") -> Trace:
    """Draw requests and outcomes: a trace without steps, as studies and `synthesize` replay it.

    profile, concurrency: whose machine and batch its manifest names. Raises UsageError for what cannot be drawn.
    """
    shape = solve(plan.process)
    prompts, outputs, blocks = _draw(plan, shape)
    requests = [f"synthetic-{i:06d}" for i in range(plan.requests)]
    tables = {"requests": _requests(requests, prompts, outputs), "outcomes": _outcomes(requests, prompts, blocks)}
    manifest = _manifest(plan, shape, profile, concurrency, blocks=_kv_blocks(plan.process, prompts, outputs))
    return Trace(Path(name), manifest, tables)


def synthesize(
    plan: SyntheticPlan,
    profile: Profile,
    scenario: Scenario,
    name: str = "synthetic",
    *,
    simulator: SimulatorChoice = "simpy",
) -> Replay:
    """Draw a trace and give it the steps, rows, events and times of a replay at a profile's costs.

    The outcomes of anchors that the replay visited are marked visited, all others filled, as in a recording.
    """
    drawn = draw_trace(plan, profile, scenario.concurrency, name)
    priced = replay(drawn, profile, scenario, simulator=simulator)
    seen = priced.tables["rows"].select("request_id", "anchor_position", visited=True)
    outcomes = priced.tables["outcomes"].join(
        seen, on=["request_id", "anchor_position"], how="left", maintain_order="left"
    )
    source = pl.when(pl.col("visited").is_not_null()).then(pl.lit("visited")).otherwise(pl.lit("filled"))
    tables = {**priced.tables, "outcomes": outcomes.with_columns(source=source).drop("visited")}
    manifest = dataclasses.replace(
        priced.manifest,
        origin="synthetic",
        engine="simtool synth",
        seed=plan.seed,
        details={**priced.manifest.details, "source": name},
    )
    return Replay(manifest, tables, priced.caveats)


def _draw(plan: SyntheticPlan, shape: Shape) -> tuple[list[int], list[int], list[DrawnBlocks]]:
    prompts, outputs, blocks, anchors = [], [], [], 0
    for request in range(plan.requests):
        chance = generator(plan.seed, request)
        first, second = np.maximum(chance.random(2), 2.0**-54).tolist()
        prompts.append(plan.prompt.at(first))
        outputs.append(max(2, plan.output.at(second)))  # the first token is the prefill's
        anchors += outputs[-1]
        if anchors > _MOST_ANCHORS:
            raise UsageError(f"more than {_MOST_ANCHORS:,} output tokens asked for; draw fewer or shorter requests")
        blocks.append(draw_blocks(shape, outputs[-1] - 1, chance))
    return prompts, outputs, blocks


def _requests(names: list[str], prompts: list[int], outputs: list[int]) -> pl.DataFrame:
    columns: dict[str, list[object]] = {
        "request_id": list(names),
        **{stamp: [0] * len(names) for stamp in ("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns")},
        "prompt_tokens": list(prompts),
        "output_tokens": list(outputs),
        "max_new_tokens": list(outputs),
        "finish_reason": ["length"] * len(names),
    }
    return make_frame(TABLES["requests"], columns)


def _outcomes(names: list[str], prompts: list[int], blocks: list[DrawnBlocks]) -> pl.DataFrame:
    anchors = [prompt + np.arange(len(each.match_run)) for prompt, each in zip(prompts, blocks, strict=True)]
    confidence: NDArray[np.float32] = np.concatenate([each.confidence for each in blocks])
    schema = TABLES["outcomes"].polars_schema
    counts = pl.Series([len(each) for each in anchors])
    frame = pl.DataFrame(
        {
            "request_id": pl.select(pl.lit(pl.Series(names)).repeat_by(counts).explode()).to_series(),
            "anchor_position": np.concatenate(anchors).astype(np.int32),
            "confidence": pl.Series(confidence).arr.to_list(),
            "draft_prob": pl.Series([None] * len(confidence), dtype=schema["draft_prob"]),
            "match_run": np.concatenate([each.match_run for each in blocks]),
            "source": pl.Series(["filled"] * len(confidence)),
            "draft_margin": pl.Series([None] * len(confidence), dtype=schema["draft_margin"]),
        }
    )
    return frame.select(list(schema)).cast(schema)


def _kv_blocks(process: AcceptanceProcess, prompts: list[int], outputs: list[int]) -> int:
    """A KV cache that holds all requests at once, so that it never has a say."""
    lookahead = process.drafts + 1
    return sum(
        -(-(prompt + output + lookahead) // _BLOCK_SIZE) for prompt, output in zip(prompts, outputs, strict=True)
    )


def _manifest(plan: SyntheticPlan, shape: Shape, profile: Profile, concurrency: int, *, blocks: int) -> Manifest:
    process = plan.process
    told = SyntheticOutcomes(
        acceptance=process.acceptance,
        sharpness=process.sharpness,
        confidence_autocorrelation=process.confidence_autocorrelation,
        acceptance_autocorrelation=shape.acceptance_autocorrelation,
        calibration_error=process.calibration_error,
        requests=plan.requests,
        prompt_tokens=str(plan.prompt),
        output_tokens=str(plan.output),
        seed=plan.seed,
    )
    return Manifest(
        origin="synthetic",
        engine="simtool synth",
        engine_version=__version__,
        device=profile.device,
        device_name=profile.device_name,
        algorithm=plan.drafter,
        sl=process.drafts,
        block_width=process.drafts + (plan.drafter == "dflash"),
        concurrency=concurrency,
        placement=resolve_placement("static").to_dict(),
        seed=plan.seed,
        clock="simulated ns from 0",
        controller=ControllerSettings(profile.predictor).to_dict(),
        sampling={"temperature": 0.0},
        warnings=[f"synthetic: outcomes are drawn from a stated process, nobody recorded them: {told}"],
        details={
            "synthetic": {**dataclasses.asdict(told), "acceptance": list(told.acceptance)},
            "block_size": _BLOCK_SIZE,
            "kv_blocks": blocks,
        },
        complete=True,
    )
