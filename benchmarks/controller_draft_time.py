"""What does it buy to tell the controller how long the draft takes?

    python benchmarks/controller_draft_time.py --sl 16 --draft-ms 6

xLLM's controller is called with draft_ms = 0: it maximises tokens per millisecond of *validate*, though the step also
pays for the draft, so it prunes too much. Each placement runs with 0 and with --draft-ms, beside static, all live in
turns (engine/serving/interleave.py) on the same held-out prompts; ratios are tokens per second, with Student's t
intervals over repetitions.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

from simtool.analysis.fidelity.fidelity import speed_of
from simtool.analysis.metrics import Summary, summarise_trace
from simtool.engine.models.shipped import choose_models
from simtool.engine.prompts.source import PromptSource
from simtool.engine.runner.spec import SamplingConfig
from simtool.engine.serving.opening import SessionSettings, open_session
from simtool.engine.serving.predictor import controller_settings
from simtool.engine.serving.session import RunPlan
from simtool.stats.student import mean_interval
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace

CONCURRENCY = 8
PROMPT_SEED = 1
PLACEMENTS = ("this-step", "lag-overlap-late")


def record(sl: int, draft_ms: float, repeats: int, folder: Path) -> dict[str, list[Summary]]:
    """Return each arm's summaries, a repetition each."""
    models = choose_models(algorithm="dspark", sl=sl)
    prompts = PromptSource(32, 96, PROMPT_SEED).load(models.target)
    told = {f"{name}, {how}": (name, ms) for name in PLACEMENTS for how, ms in (("0 ms", 0.0), ("told", draft_ms))}
    arms = {"static": ("static", 0.0), **told}
    slots, sampling = CONCURRENCY * len(arms), SamplingConfig(seed=0)
    room = SessionSettings(models=models, concurrency=slots, sampling=sampling)
    with open_session(room, prompts) as session:
        controller = controller_settings(session, "live", 0.0, 0.0)
        plans = {
            name: RunPlan(prompts, BUILT_IN[placement], replace(controller, draft_ms=ms), PROMPT_SEED)
            for name, (placement, ms) in arms.items()
        }
        for plan in plans.values():
            session.warm_up(plan)
        for repeat in range(repeats):
            jobs = [(folder / f"{name}-{repeat}", plan) for name, plan in plans.items()]
            session.record_interleaved(jobs, force=True, details={}, progress=lambda _count: None)
    return {name: [summarise_trace(open_trace(folder / f"{name}-{k}")) for k in range(repeats)] for name in arms}


def ratio(ours: list[Summary], theirs: list[Summary]) -> list[float]:
    """Return the first's tokens per second over the second's, and the ends of its interval."""
    logs = [math.log(speed_of(a) / speed_of(b)) for a, b in zip(ours, theirs, strict=True)]
    found = mean_interval(logs).mapped(math.exp)
    return [found.mean, *(found.bounds or ())]


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sl", type=int, default=16)
    parser.add_argument("--draft-ms", type=float, default=6.0)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        arms = record(given.sl, given.draft_ms, given.repeats, Path(folder))
    pairs = [(f"{name}, told", f"{name}, 0 ms") for name in PLACEMENTS]
    pairs += [(name, "static") for name in arms if name != "static"]
    print(json.dumps({f"{a} over {b}": ratio(arms[a], arms[b]) for a, b in pairs}, indent=2))


if __name__ == "__main__":
    main()
