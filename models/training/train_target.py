"""Train the target: ``python -m models.training.train_target --tokenizer FILE --out FOLDER --minutes 40``.

The budget is wall-clock time, so the figures depend on the machine; the seed fixes initialisation and data order.
State goes to ``--state`` every few minutes, and a run that finds one there resumes it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.spawn import start_processes
from torch.nn import functional

from models.training import export
from models.training.common import CausalBatch, Clock, Optimizers, Team, load_state, save_state, schedule
from models.training.corpus import (
    END_OF_TEXT,
    broken_ids,
    corpus_hash,
    documents,
    encoder,
    heldout_tokens,
    token_id,
    training_tokens,
)
from models.training.own_text import OwnText
from simtool.engine.models.target import TargetConfig, TargetModel

LENGTH = 512
OWN_REFRESH_S = 30.0
OWN_PROMPTS = 192
FAULTY_SEQUENCES = 10
FAULTY_WEIGHT = 1.0
SOUND_SEQUENCES = 6
SOUND_WEIGHT = 0.2


def small_config(vocab: int, end_id: int) -> TargetConfig:
    """The target that ships: 2.06 M parameters at a vocabulary of 1,024."""
    return TargetConfig(
        vocab_size=vocab, hidden_size=192, intermediate_size=640, layers=4, heads=6, kv_heads=2, head_dim=32,
        rope_theta=10_000.0, eps=1e-6, max_positions=LENGTH, tied_embeddings=True, eos_token_ids=(end_id,),
    )  # fmt: skip


def fresh_target(config: TargetConfig, seed: int) -> TargetModel:
    """A target with small random weights; projections into the residual stream start smaller."""
    torch.manual_seed(seed)
    model = TargetModel(config)
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            into_residual = name.endswith(("o_proj.weight", "down_proj.weight"))
            std = 0.02 if "embed" in name else 0.06
            torch.nn.init.normal_(parameter, std=std / (2 * config.layers) ** 0.5 if into_residual else std)
    return model


def windows(stream: np.ndarray, count: int, length: int, rng: np.random.Generator) -> Tensor:
    """``count`` random windows of length + 1 tokens: int64 [count, length + 1]."""
    starts = rng.integers(0, len(stream) - length - 1, size=count)
    return torch.from_numpy(np.stack([stream[s : s + length + 1] for s in starts]).astype(np.int64))


def next_token_loss(model: TargetModel, batch: Tensor) -> Tensor:
    """Mean cross-entropy in nats of [B, length + 1] token windows."""
    length = batch.shape[1] - 1
    positions = torch.arange(length).repeat(len(batch))
    hidden, _ = model(batch[:, :-1].reshape(-1), positions, CausalBatch(length))
    return functional.cross_entropy(model.logits(hidden).float(), batch[:, 1:].reshape(-1))


def own_losses(model: TargetModel, own: OwnText, workers: int) -> tuple[Tensor, Tensor]:
    """What the model's own faulty and sound texts ask of it, this worker's share; 0 while there are none."""
    return own.amends(model, FAULTY_SEQUENCES // workers), own.surprise(model, SOUND_SEQUENCES // workers)


def heldout_losses(model: TargetModel, streams: dict[str, np.ndarray], count: int = 16) -> dict[str, float]:
    """Nats per token of each domain's held-out text, from up to ``count`` windows of each."""
    losses: dict[str, float] = {}
    with torch.no_grad():
        for name, stream in streams.items():
            whole = [stream[s : s + LENGTH + 1] for s in range(0, len(stream) - LENGTH - 1, LENGTH)]
            chosen = whole[:: max(len(whole) // count, 1)][:count]
            losses[name] = next_token_loss(model, torch.from_numpy(np.stack(chosen).astype(np.int64))).item()
    return losses


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--own-from", type=float, default=0.55, help="share of the budget before the own text joins")
    return parser.parse_args()


def train(rank: int, args: argparse.Namespace) -> None:
    """One worker: train until the budget is spent. The first worker keeps the clock, logs and saves."""
    torch.set_num_threads(1)
    team = Team(rank, args.workers, args.state.with_suffix(".rendezvous"))
    tokenizer, _ = encoder(args.tokenizer)
    end_id = token_id(tokenizer, END_OF_TEXT)
    stream = training_tokens(tokenizer, end_id)
    model = fresh_target(small_config(tokenizer.get_vocab_size(), end_id), args.seed)
    optimizers = Optimizers(model, matrix_lr=0.006, other_lr=0.004)
    clock, step = Clock(args.minutes * 60), 0
    if args.state.exists():
        facts = load_state(args.state, model, optimizers)
        clock.spent, step = facts["seconds"], int(facts["step"])
    rng = np.random.default_rng((args.seed, step, rank))
    own = OwnText(stream, broken_ids(tokenizer), rng)

    def save(windows_judged: int) -> None:
        save_state(args.state, model, optimizers, {"seconds": clock.elapsed(), "step": step})
        losses = heldout_losses(model, heldout_tokens(tokenizer, end_id), windows_judged)
        facts = export.provenance(
            args.seed, corpus_hash(documents(held_out=False)), steps=step, seconds=round(clock.elapsed()),
            tokens_seen=step * args.batch * LENGTH, workers=args.workers, own_from=args.own_from,
            heldout_nats=losses,
        )  # fmt: skip
        export.save_target(args.out, model, facts, args.tokenizer)
        print("held out " + json.dumps(losses), flush=True)

    saved, logged, refreshed = time.monotonic(), time.monotonic(), -math.inf
    recent: list[float] = []
    while True:
        fraction, now = team.agree(clock.fraction(), time.monotonic())
        if fraction >= 1.0:
            break
        if fraction >= args.own_from and now - refreshed > OWN_REFRESH_S:
            refreshed = now
            own.refresh(model, OWN_PROMPTS // args.workers)
        batch = windows(stream, args.batch // args.workers, LENGTH, rng)
        with torch.autocast("cpu", torch.bfloat16):
            loss = next_token_loss(model, batch)
            faults, sound = own_losses(model, own, args.workers)
        (loss + FAULTY_WEIGHT * faults + SOUND_WEIGHT * sound).backward()  # type: ignore[no-untyped-call]
        team.average_gradients(optimizers.parameters)
        optimizers.step(schedule(fraction))
        step += 1
        recent.append(loss.item())
        if rank == 0 and now - logged > 20:
            logged = now
            means = f"{np.mean(recent):.4f}  faults {faults.item():.3f}  own {sound.item():.3f}"
            print(f"{clock.elapsed():7.0f} s  step {step}  {means}", flush=True)
            recent.clear()
        if rank == 0 and now - saved > 180:
            saved = now
            save(windows_judged=4)
    if rank == 0:
        save(windows_judged=16)
        print("done", flush=True)


def main() -> None:
    """Start the workers."""
    args = parse()
    args.state.parent.mkdir(parents=True, exist_ok=True)
    args.state.with_suffix(".rendezvous").unlink(missing_ok=True)
    start_processes(train, (args,), nprocs=args.workers, start_method="spawn")  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
