"""The target's own greedy text, in batches: what the drafters will meet, so what they are trained on.

``python -m models.training.greedy_text --target FOLDER --out FILE --seed 0 --sequences 2048``
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from models.training.corpus import END_OF_TEXT, encoder, token_id, training_tokens
from simtool.engine.models.checkpoint import load_target
from simtool.engine.models.target import TargetModel


@dataclass
class BatchCache:
    """Preallocated keys and values of B sequences of equal length; an Attend that appends, then attends."""

    batch: int
    capacity: int
    filled: int = 0
    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """An Attend: q, k, v are [B * new, heads, d], sequence by sequence."""
        q, k, v = (t.view(self.batch, -1, t.shape[1], t.shape[2]).transpose(1, 2) for t in (q, k, v))
        new, kv_heads, size = k.shape[2], k.shape[1], k.shape[3]
        if layer not in self.keys:
            self.keys[layer] = k.new_empty(self.batch, kv_heads, self.capacity, size)
            self.values[layer] = k.new_empty(self.batch, kv_heads, self.capacity, size)
        until = self.filled + new
        self.keys[layer][:, :, self.filled : until] = k
        self.values[layer][:, :, self.filled : until] = v
        groups = q.shape[1] // kv_heads
        # fold query heads that share keys into rows: no copy of the cache per head
        folded = q.reshape(self.batch, kv_heads, groups * new, size)
        mask = torch.ones(new, until, dtype=torch.bool).tril(self.filled).repeat(groups, 1)
        out = functional.scaled_dot_product_attention(
            folded, self.keys[layer][:, :, :until], self.values[layer][:, :, :until], attn_mask=mask
        )
        out = out.reshape(self.batch, groups * kv_heads, new, size)
        return out.transpose(1, 2).reshape(-1, groups * kv_heads, size)


def continue_greedily(target: TargetModel, prompts: Tensor, length: int) -> Tensor:
    """Prompts [B, P] -> [B, length]: the prompts and the target's greedy tokens after them."""
    return continue_text(target, prompts, length, lambda logits: logits.argmax(-1))


def continue_sampled(
    target: TargetModel, prompts: Tensor, length: int, temperature: float, rng: torch.Generator
) -> Tensor:
    """Prompts [B, P] -> [B, length]: the prompts and tokens drawn from the target at ``temperature`` > 0."""

    def draw(logits: Tensor) -> Tensor:
        chances = (logits.squeeze(1).float() / temperature).softmax(-1)
        return torch.multinomial(chances, 1, generator=rng)

    return continue_text(target, prompts, length, draw)


@torch.inference_mode()
def continue_text(target: TargetModel, prompts: Tensor, length: int, choose: Callable[[Tensor], Tensor]) -> Tensor:
    """Prompts [B, P] -> [B, length]: the prompts and what ``choose`` takes ([B, 1, V] logits -> [B, 1] ids)."""
    batch, width = prompts.shape
    cache = BatchCache(batch, length)
    rows, tokens = prompts, [prompts]
    for position in range(width, length + 1):
        new = rows.shape[1]
        positions = torch.arange(position - new, position).repeat(batch)
        hidden, _ = target(rows.reshape(-1), positions, cache)
        cache.filled = position
        if position == length:
            break
        rows = choose(target.logits(hidden.view(batch, new, -1)[:, -1:]))
        tokens.append(rows)
    return torch.cat(tokens, dim=1)


def greedy_sequences(
    target: TargetModel, stream: np.ndarray, count: int, length: int, seed: int, batch: int = 256
) -> tuple[Tensor, Tensor]:
    """``count`` sequences [count, length] that start as real text, and how many tokens of each are real [count]."""
    rng = np.random.default_rng(seed)
    sequences: list[Tensor] = []
    widths: list[int] = []
    batch = min(batch, count)
    for _ in range(0, count, batch):
        width = int(rng.integers(24, length // 2))
        starts = rng.integers(0, len(stream) - width, size=batch)
        prompts = np.stack([stream[s : s + width] for s in starts]).astype(np.int64)
        sequences.append(continue_greedily(target, torch.from_numpy(prompts), length))
        widths += [width] * batch
    return torch.cat(sequences)[:count].clone(), torch.tensor(widths[:count])


def loop_share(continuations: Tensor, tail: int = 48, longest_period: int = 16) -> float:
    """Share of rows [B, T] whose last ``tail`` tokens repeat with a period of at most ``longest_period``."""
    last = continuations[:, -tail:]
    looping = torch.zeros(len(last), dtype=torch.bool)
    for period in range(1, longest_period + 1):
        looping |= (last[:, period:] == last[:, :-period]).all(dim=1)
    return looping.float().mean().item()


def read_sequences(files: Sequence[Path]) -> tuple[Tensor, Tensor]:
    """What :func:`main` wrote: tokens [count, length] and how many of each are real text [count]."""
    loaded = [load_file(file) for file in files]
    return torch.cat([part["tokens"] for part in loaded]).long(), torch.cat([part["real"] for part in loaded]).long()


def main() -> None:
    """Write greedy sequences from training prompts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sequences", type=int, default=2048)
    parser.add_argument("--length", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer, _ = encoder(args.target / "tokenizer.json")
    target = load_target(args.target, torch.float32)
    stream = training_tokens(tokenizer, token_id(tokenizer, END_OF_TEXT))
    tokens, real = greedy_sequences(target, stream, args.sequences, args.length, args.seed)
    save_file({"tokens": tokens.to(torch.int16), "real": real.to(torch.int16)}, args.out)
    print(f"{loop_share(tokens):.3f} of {len(tokens)} sequences loop at their end", flush=True)


if __name__ == "__main__":
    main()
