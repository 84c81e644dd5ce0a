"""Does sampling under a placement still follow the target? Every short output counted against its exact chance.

    python benchmarks/losslessness.py --target FOLDER --draft FOLDER --drafts 3 --requests 20000

One prompt is served many times, each request with random numbers of its own, on a device with a virtual clock (the
times do not matter here, the models are real). The vocabulary must be tiny: all outputs of `--tokens` tokens are
enumerated, their exact chances come from the target alone, and the counts are judged by a chi-square test (cells that
expect fewer than 5 are pooled). distance: total variation between the counts and the chances; as many draws from the
chances themselves would show the `by chance` column, plus or minus a little.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare

from simtool.engine.devices.protocol import WorkTiming
from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.models.checkpoint import load_target
from simtool.engine.outcomes.reference import DenseSequence
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.runner import Runner, load_runner
from simtool.engine.runner.sampling import probabilities
from simtool.engine.runner.spec import RunnerSpec, SamplingConfig
from simtool.engine.serving.recorder import Recorder, StepFacts
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, resolve_placement

Output = tuple[int, ...]
LEAST_EXPECTED = 5


@dataclass(frozen=True)
class Arm:
    """A placement and its controller."""

    name: str
    placement: str
    controller: ControllerSettings


@dataclass(frozen=True)
class Judgement:
    """Counts against chances. p_value: of seeing counts this far off, if the chances are right."""

    requests: int
    cells: int
    p_value: float
    distance: float
    distance_by_chance: float


def arms(batch: int) -> list[Arm]:
    """The placements under costs that really prune: a draft is worth its row when its path is above about 0.5.

    The last two ask for a least gain instead: a prefix must bring 0.75 tokens at once.
    """
    costs = ControllerSettings(LinearPredictor(0.5, 0.5 / batch, 0.0))
    steps = [Arm(name, name, costs) for name in BUILT_IN]
    least = ControllerSettings(None, min_gain=0.75 / batch)
    return [*steps, *(Arm(f"{name}, min_gain", name, least) for name in ("lag", "this-step"))]


def exact_chances(target: Path, prompt: Output, tokens: int, sampling: SamplingConfig) -> dict[Output, float]:
    """The chance of every output of that many tokens, from the target alone in float64."""
    model = load_target(target, torch.float64)
    vocabulary = range(model.config.vocab_size)
    chances: dict[Output, float] = {(): 1.0}
    for length in range(tokens):
        rows = {output: _next(model, (*prompt, *output), sampling) for output in chances}
        chances = {
            (*output, token): chances[output] * rows[output][token]
            for output, token in product(chances, vocabulary)
            if len(output) == length
        }
    return chances


@torch.inference_mode()
def _next(model: torch.nn.Module, context: Output, sampling: SamplingConfig) -> list[float]:
    hidden, _ = model(torch.tensor(context), torch.arange(len(context)), DenseSequence())
    chances: list[float] = probabilities(model.logits(hidden[-1]), sampling).tolist()
    return chances


class Offered(Recorder):
    """Counts how many drafts were offered, over how many sequence-steps."""

    drafts = sequence_steps = 0

    def end_step(self, s: StepFacts, timings: Sequence[WorkTiming]) -> None:
        """Add one step."""
        self.drafts += sum(s.prefix_lens)
        self.sequence_steps += len(s.prefix_lens)


@dataclass(frozen=True)
class Sample:
    """Outputs counted, and the mean prefix length of the steps that gave them."""

    counts: Counter[Output]
    mean_prefix: float


def sample(runner: Runner, spec: RunnerSpec, arm: Arm, prompt: Output, tokens: int, requests: int) -> Sample:
    """Serve the prompt `requests` times and count the outputs."""
    device = TimedDevice(runner, same_durations(1_000))
    prompts = [Prompt(f"r{i}", prompt, tokens, key=i) for i in range(requests)]
    offered = Offered(device.now_ns)
    result = Session(device, spec).run(RunPlan(prompts, resolve_placement(arm.placement), arm.controller), offered)
    counts = Counter(tuple(output) for output in result.output_ids.values())
    return Sample(counts, offered.drafts / offered.sequence_steps)


def judge(counts: Mapping[Output, int], chances: Mapping[Output, float], seed: int = 0) -> Judgement:
    """Chi-square and total variation of counts against exact chances."""
    seen = np.array([counts.get(output, 0) for output in chances], dtype=np.float64)
    hoped = np.array(list(chances.values()))
    requests = int(seen.sum())
    assert requests == sum(counts.values()), "an output of another length, or one that the target never gives"
    expected = hoped / hoped.sum() * requests
    common = expected >= LEAST_EXPECTED
    pooled = [np.append(x[common], x[~common].sum()) if (~common).any() else x for x in (seen, expected)]
    if pooled[1][-1] == 0:
        pooled = [x[:-1] for x in pooled]
    drawn = np.random.default_rng(seed).multinomial(requests, hoped / hoped.sum(), size=200)
    by_chance = np.mean([_distance(row, expected) for row in drawn])
    p_value = float(chisquare(pooled[0], pooled[1]).pvalue)
    return Judgement(requests, len(pooled[0]), p_value, _distance(seen, expected), float(by_chance))


def _distance(seen: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    return float(np.abs(seen - expected).sum() / expected.sum() / 2)


def main() -> None:
    """Print one line an arm."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--drafts", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--prompt", type=int, nargs="+", default=[1, 2, 3, 4])
    given = parser.parse_args()
    sampling, prompt = SamplingConfig(temperature=given.temperature, seed=11), tuple(given.prompt)
    room = len(prompt) + given.tokens + given.drafts + 1
    spec = RunnerSpec(
        target=given.target,
        draft=given.draft,
        slots=given.batch,
        kv_blocks=given.batch * room,
        block_size=1,
        drafts=given.drafts,
        context_tokens=room,
        sampling=sampling,
    )
    runner, chances = load_runner(spec), exact_chances(given.target, prompt, given.tokens, sampling)
    print(f"{'arm':26} {'prefix':>6} {'requests':>8} {'cells':>5} {'p value':>9} {'distance':>9} {'by chance':>9}")
    for arm in arms(given.batch):
        drawn = sample(runner, spec, arm, prompt, given.tokens, given.requests)
        j = judge(drawn.counts, chances)
        print(
            f"{arm.name:26} {drawn.mean_prefix:6.2f} {j.requests:8} {j.cells:5} {j.p_value:9.2g} {j.distance:9.4f} "
            f"{j.distance_by_chance:9.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
