"""What the training scripts share: dense attention over batches, schedules, resumable state without pickle."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.distributed
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class CausalBatch:
    """Dense causal attention over a batch of equally long sequences, flattened to T = batch * length."""

    length: int

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """An Attend."""
        heads = q.shape[1]
        q, k, v = (t.view(-1, self.length, t.shape[1], t.shape[2]).transpose(1, 2) for t in (q, k, v))
        k, v = (t.repeat_interleave(heads // t.shape[1], dim=1) for t in (k, v))
        out = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return out.transpose(1, 2).reshape(-1, heads, q.shape[-1])


@dataclass
class Clock:
    """A wall-clock budget in seconds that survives restarts: ``spent`` is carried by the saved state."""

    budget: float
    spent: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def elapsed(self) -> float:
        """Seconds spent, earlier runs included."""
        return self.spent + time.monotonic() - self.started

    def fraction(self) -> float:
        """Share of the budget spent, 0..1."""
        return min(self.elapsed() / self.budget, 1.0)


def schedule(fraction: float, warmup: float = 0.02, flat_until: float = 0.3) -> float:
    """Learning-rate factor for the share of the budget already spent: warm up, hold, then fall to zero."""
    if fraction < warmup:
        return max(fraction / warmup, 0.02)
    if fraction < flat_until:
        return 1.0
    return max((1.0 - fraction) / (1.0 - flat_until), 0.0)


class Optimizers:
    """Muon for the inner matrices, AdamW for embeddings, norms and biases; one factor scales both."""

    def __init__(self, module: nn.Module, matrix_lr: float, other_lr: float) -> None:
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad]
        inner = [p for n, p in named if p.ndim == 2 and min(p.shape) > 1 and not _is_table(n)]
        ids = {id(p) for p in inner}
        other = [p for _, p in named if id(p) not in ids]
        self.parameters = [p for _, p in named]
        self.all: list[torch.optim.Optimizer] = [
            torch.optim.Muon(inner, lr=matrix_lr, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(other, lr=other_lr, betas=(0.9, 0.98), weight_decay=0.0),
        ]
        self.base = [matrix_lr, other_lr]

    def step(self, factor: float, clip: float = 1.0) -> None:
        """Clip, step and clear the gradients, with every learning rate times ``factor``."""
        torch.nn.utils.clip_grad_norm_(self.parameters, clip)
        for optimizer, base in zip(self.all, self.base, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = base * factor
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """The optimizers' state as named tensors."""
        found: dict[str, Tensor] = {}
        for which, optimizer in enumerate(self.all):
            for index, entry in optimizer.state_dict()["state"].items():
                for name, value in entry.items():
                    found[f"optimizer.{which}.{index}.{name}"] = torch.as_tensor(value).clone()
        return found

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Take back what :meth:`tensors` gave."""
        for which, optimizer in enumerate(self.all):
            state = optimizer.state_dict()
            prefix = f"optimizer.{which}."
            for key, value in tensors.items():
                if key.startswith(prefix):
                    index, name = key.removeprefix(prefix).split(".", 1)
                    state["state"].setdefault(int(index), {})[name] = value
            optimizer.load_state_dict(state)


def _is_table(name: str) -> bool:
    return "embed" in name or "lm_head" in name or "markov" in name


def save_state(path: Path, module: nn.Module, optimizers: Optimizers, facts: dict[str, float]) -> None:
    """Write a resumable state (atomically: a killed run leaves the previous one)."""
    tensors = {f"model.{n}": p.detach().clone() for n, p in module.named_parameters()}
    tensors |= optimizers.tensors()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(tensors, partial, metadata={"facts": json.dumps(facts)})
    partial.replace(path)


def load_state(path: Path, module: nn.Module, optimizers: Optimizers) -> dict[str, float]:
    """Read a state back into module and optimizers; returns its facts."""
    tensors = load_file(path)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(tensors[f"model.{name}"])
    optimizers.restore(tensors)
    with safe_open(path, "pt") as handle:
        facts: dict[str, float] = json.loads(handle.metadata()["facts"])
    return facts


class Team:
    """One-thread workers that average gradients once a step: far better than two threads on busy cores.

    Two threads meet at a barrier in every operation, and each barrier waits for whichever core is taken.
    """

    def __init__(self, rank: int, size: int, rendezvous: Path) -> None:
        self.rank, self.size = rank, size
        if size > 1:
            torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=size)

    def agree(self, *values: float) -> list[float]:
        """The first worker's values, everywhere."""
        shared = torch.tensor(values, dtype=torch.float64)
        if self.size > 1:
            torch.distributed.broadcast(shared, 0)
        return shared.tolist()

    def average_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the workers."""
        if self.size == 1:
            return
        grads = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([g.reshape(-1) for g in grads])
        torch.distributed.all_reduce(flat)
        flat /= self.size
        for grad, mean in zip(grads, torch.split(flat, [g.numel() for g in grads]), strict=True):
            grad.copy_(mean.view_as(grad))
