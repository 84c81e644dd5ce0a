"""Decode throughput of the engine beside transformers' own `generate`: same target, prompts and batch, in one run.

    python benchmarks/against_transformers.py --target FOLDER --draft FOLDER

Both decode greedily, `--new-tokens` from each of `--requests` prompts whatever is an end token, in float32, `--batch`
at a time: the engine admits the next request when one ends, transformers takes batch after batch. The engine drafts and
verifies (one torch thread in the device process, and the host), once at full width and once under `--policy` with its
predictor timed first; transformers decodes one token a step, once with one thread and once with all cores. Turns are
taken in rotating order; ratios are tokens per second, each engine run over each transformers run, with Student's
t interval over rounds. `agree`: prompts whose tokens are the same from all.

What decides: a verify runs N+1 rows where `generate` runs one. On one core, where rows cost arithmetic, drafting
pays by the tokens it gets accepted; that is a property of the pair, so the mean tokens a step stand beside the speeds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel

from simtool.engine.devices.open import open_device
from simtool.engine.devices.protocol import WorkTiming
from simtool.engine.prompts.files import stdlib_prompts
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import RunnerSpec
from simtool.engine.serving.host_load import MachineMeter
from simtool.engine.serving.predictor import live_predictor
from simtool.engine.serving.recorder import Recorder, StepFacts
from simtool.engine.serving.session import RunPlan, Session
from simtool.stats.student import ratio_interval
from simtool.step.controller import ControllerSettings
from simtool.step.placement import BUILT_IN

PROMPT_TOKENS = (32, 32)  # of one length, so that neither side pays for padding

Outputs = list[list[int]]


@dataclass(frozen=True)
class Result:
    """Tokens per second of each contender, and of each engine run over each transformers run: ratio, low, high."""

    batch: int
    requests: int
    new_tokens: int
    rounds: int
    tokens_per_s: dict[str, float]
    tokens_per_step: dict[str, float]
    ratios: dict[str, tuple[float, float, float]]
    agree: str
    others_share: float | None


def engine(session: Session, plan: RunPlan) -> Outputs:
    """Serve the batch in this repository's engine."""
    return [facts.output_ids for facts in session.run(plan).requests.values()]


def tokens_per_step(session: Session, plan: RunPlan) -> float:
    """Mean tokens that one sequence gets from one decode step, first tokens left out."""
    counted = Emitted(session.device.now_ns)
    session.run(plan, counted)
    return counted.tokens / counted.sequence_steps


class Emitted(Recorder):
    """Counts emitted tokens over decode steps of a sequence."""

    tokens = sequence_steps = 0

    def end_step(self, s: StepFacts, timings: Sequence[WorkTiming]) -> None:
        """Add one step."""
        if not s.prefill:
            self.tokens += sum(map(len, s.emitted))
            self.sequence_steps += len(s.emitted)


@torch.inference_mode()
def generate(model: PreTrainedModel, prompts: Sequence[Prompt], batch: int, threads: int) -> Outputs:
    """Serve the prompts in transformers, batch after batch."""
    torch.set_num_threads(threads)
    tokens: Outputs = []
    for at in range(0, len(prompts), batch):
        ids = torch.tensor([prompt.prompt_ids for prompt in prompts[at : at + batch]])
        new = prompts[at].max_new_tokens
        out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new,
                             do_sample=False, eos_token_id=None, pad_token_id=0)  # fmt: skip
        tokens += out[:, ids.shape[1] :].tolist()
    return tokens


def measure(
    contenders: dict[str, Callable[[], Outputs]], rounds: int
) -> tuple[dict[str, list[float]], dict[str, Outputs]]:
    """Return seconds by contender and round, and what each emitted."""
    outputs = {name: run() for name, run in contenders.items()}  # also the warm-up
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    for turn in range(rounds):
        for name in (*names[turn % len(names) :], *names[: turn % len(names)]):
            start = time.perf_counter()
            contenders[name]()
            seconds[name].append(time.perf_counter() - start)
    return seconds, outputs


def judge(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float, float]:
    """Return the speed of the first over the second, from seconds by round, and the ends of its interval."""
    ratio = ratio_interval(theirs, ours)
    low, high = ratio.bounds or (ratio.mean, ratio.mean)
    return ratio.mean, low, high


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--requests", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--policy", choices=[name for name in BUILT_IN if name != "static"], default="lag-overlap")
    parser.add_argument("--sl", type=int, default=None)
    print(json.dumps(asdict(compare(parser.parse_args())), indent=2))


def compare(given: argparse.Namespace) -> Result:
    """Run every contender in turns."""
    prompts = stdlib_prompts(given.target, given.requests, 0, PROMPT_TOKENS, given.new_tokens)
    context = PROMPT_TOKENS[1] + given.new_tokens + 32
    blocks = given.batch * -(-context // 16)
    spec = RunnerSpec(given.target, given.draft, given.batch, blocks, drafts=given.sl, context_tokens=context)
    model = AutoModelForCausalLM.from_pretrained(given.target, dtype=torch.float32).eval()
    cores = os.cpu_count() or 1
    with Session(open_device("cpu", spec), spec) as session:
        controller = ControllerSettings(live_predictor(session))
        plans = {f"engine, {name}": RunPlan(prompts, BUILT_IN[name], controller) for name in ("static", given.policy)}
        contenders: dict[str, Callable[[], Outputs]] = {
            **{name: partial(engine, session, plan) for name, plan in plans.items()},
            **{
                f"transformers, {n} threads": partial(generate, model, prompts, given.batch, n)
                for n in sorted({1, cores})
            },
        }
        meter = MachineMeter(session.device.pids)
        seconds, outputs = measure(contenders, given.rounds)
        use = meter.stop()
        emitted = {name: tokens_per_step(session, plan) for name, plan in plans.items()}
    *_, theirs = outputs.values()
    same = [all(out[i] == theirs[i][: len(out[i])] for out in outputs.values()) for i in range(len(prompts))]
    speeds = {name: sum(map(len, outputs[name])) / float(np.mean(times)) for name, times in seconds.items()}
    engines, others = ([name for name in seconds if name.startswith(who)] for who in ("engine", "transformers"))
    ratios = {f"{one} over {other}": judge(seconds[one], seconds[other]) for one in engines for other in others}
    return Result(
        batch=given.batch,
        requests=len(prompts),
        new_tokens=given.new_tokens,
        rounds=given.rounds,
        tokens_per_s=speeds,
        tokens_per_step=emitted,
        ratios=ratios,
        agree=f"{sum(same)} of {len(prompts)}",
        others_share=use.others if use else None,
    )


if __name__ == "__main__":
    main()
