"""Decode throughput of the engine beside transformers' own `generate`: same target, prompts and batch, in one run.

    python benchmarks/against_transformers.py --target FOLDER --draft FOLDER

Both decode greedily, `--new-tokens` from each prompt whatever is an end token, in float32. The engine drafts and
verifies (one torch thread in the device process, and the host); transformers decodes one token a step, once with one
thread and once with all cores. Turns are taken in rotating order; the ratio is the engine's tokens per second over
the better of the two, with a bootstrap interval over rounds (Efron & Tibshirani 1993). `agree`: prompts whose tokens
are the same from both.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from scipy import stats
from transformers import AutoModelForCausalLM, PreTrainedModel

from simtool.engine.device import open_device
from simtool.engine.engine import Prompt
from simtool.engine.inputs import stdlib_prompts
from simtool.engine.machine import MachineMeter
from simtool.engine.session import RunPlan, Session
from simtool.engine.spec import RunnerSpec
from simtool.step.placement import BUILT_IN

CONFIDENCE = 0.95
RESAMPLES = 2_000
PROMPT_TOKENS = (32, 32)  # of one length, so that neither side pays for padding

Outputs = list[list[int]]


@dataclass(frozen=True)
class Result:
    """Tokens per second of each contender, and the engine over the better transformers run."""

    batch: int
    new_tokens: int
    rounds: int
    tokens_per_s: dict[str, float]
    ratio: float
    low: float
    high: float
    agree: str
    others_share: float | None


def engine(session: Session, prompts: Sequence[Prompt]) -> Outputs:
    """Serve the batch in this repository's engine, every draft verified."""
    result = session.run(RunPlan(prompts, BUILT_IN["static"]))
    return [result.output_ids[prompt.request_id] for prompt in prompts]


@torch.inference_mode()
def generate(model: PreTrainedModel, prompts: Sequence[Prompt], threads: int) -> Outputs:
    """Serve the batch in transformers."""
    torch.set_num_threads(threads)
    ids = torch.tensor([prompt.prompt_ids for prompt in prompts])
    new = prompts[0].max_new_tokens
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=new, min_new_tokens=new,
                         do_sample=False, eos_token_id=None, pad_token_id=0)  # fmt: skip
    tokens: Outputs = out[:, ids.shape[1] :].tolist()
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


def judge(seconds: dict[str, list[float]]) -> tuple[float, float, float]:
    """Return the engine's speed over the best other's, and the ends of its interval."""
    ours = np.array(seconds["engine"])
    best = np.array(min((times for name, times in seconds.items() if name != "engine"), key=np.mean))
    interval = stats.bootstrap(
        (ours, best), lambda a, b, axis=-1: b.mean(axis) / a.mean(axis), paired=True, vectorized=True,
        confidence_level=CONFIDENCE, method="percentile", n_resamples=RESAMPLES, rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return float(best.mean() / ours.mean()), float(interval.low), float(interval.high)


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    prompts = stdlib_prompts(given.target, given.batch, 0, PROMPT_TOKENS, given.new_tokens)
    context = PROMPT_TOKENS[1] + given.new_tokens + 32
    spec = RunnerSpec(given.target, given.draft, given.batch, given.batch * -(-context // 16), context_tokens=context)
    model = AutoModelForCausalLM.from_pretrained(given.target, dtype=torch.float32).eval()
    cores = os.cpu_count() or 1
    with Session(open_device("cpu", spec), spec) as session:
        worker_stop = session.info.eos_token_ids
        if worker_stop:
            print(f"note: the engine stops at {worker_stop}; agreement is counted up to there")
        meter = MachineMeter(session.device.pids)
        contenders: dict[str, Callable[[], Outputs]] = {
            "engine": lambda: engine(session, prompts),
            "transformers, 1 thread": lambda: generate(model, prompts, 1),
            f"transformers, {cores} threads": lambda: generate(model, prompts, cores),
        }
        seconds, outputs = measure(contenders, given.rounds)
        use = meter.stop()
    theirs = outputs["transformers, 1 thread"]
    same = sum(a == b[: len(a)] for a, b in zip(outputs["engine"], theirs, strict=True))
    speeds = {name: sum(map(len, outputs[name])) / float(np.mean(times)) for name, times in seconds.items()}
    ratio, low, high = judge(seconds)
    print(
        json.dumps(
            asdict(
                Result(given.batch, given.new_tokens, given.rounds, speeds, ratio, low, high,
                       f"{same} of {given.batch}", use.others if use else None)
            ),
            indent=2,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
