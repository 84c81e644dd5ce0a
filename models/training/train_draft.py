"""Train drafters: ``python -m models.training.train_draft --target FOLDER --greedy FILE --out FOLDER --only NAME``.

The target is frozen; every step runs it once and each named drafter learns from the same hidden states. Most
sequences are the target's own greedy text (what drafting meets when decoding is greedy), the rest real text.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from models.training import export
from models.training.blocks import TargetView, ViewStore, draft_hidden, following
from models.training.common import Clock, Optimizers, Team, load_state, save_state, schedule
from models.training.corpus import END_OF_TEXT, MASK, corpus_hash, documents, encoder, token_id, training_tokens
from models.training.greedy_text import read_sequences
from models.training.train_target import windows
from simtool.engine.models.checkpoint import load_target
from simtool.engine.models.draft import DraftConfig, DraftModel
from simtool.engine.models.target import TargetConfig, TargetModel

LENGTH = 320
TAPS = (0, 1, 2)
GREEDY_SHARE = 0.8
LOSS_WEIGHTS = {"cross_entropy": 0.5, "l1": 0.9, "confidence": 1.0}


@dataclass(frozen=True)
class Recipe:
    """One drafter: its name, drafts per block, blocks per sequence and step, and how far weights reach."""

    name: str
    dspark: bool
    drafts: int
    anchors: int
    decay: float


RECIPES = (
    Recipe("dspark_sl7", True, 7, 32, 4.0),
    Recipe("dspark_sl16", True, 16, 28, 8.0),
    Recipe("dflash_sl7", False, 7, 32, 4.0),
)


def draft_config(recipe: Recipe, target: TargetConfig, mask_id: int, layers: int) -> DraftConfig:
    """Layers of the target's width; DSpark with a vanilla Markov head and a confidence head."""
    return DraftConfig(
        algorithm="dspark" if recipe.dspark else "dflash",
        trained_drafts=recipe.drafts,
        samples_anchor_row=recipe.dspark,
        mask_token_id=mask_id,
        tap_ids=TAPS,
        vocab_size=target.vocab_size,
        hidden_size=target.hidden_size,
        intermediate_size=target.intermediate_size,
        layers=layers,
        heads=target.heads,
        kv_heads=target.kv_heads,
        head_dim=target.head_dim,
        rope_theta=target.rope_theta,
        eps=target.eps,
        max_positions=target.max_positions,
        own_embedding=recipe.dspark,
        own_head=recipe.dspark,
        markov_type="vanilla" if recipe.dspark else None,
        markov_rank=64 if recipe.dspark else 0,
        confidence_head=recipe.dspark,
        confidence_with_markov=recipe.dspark,
    )


def fresh_draft(config: DraftConfig, target: TargetModel, seed: int) -> DraftModel:
    """A drafter that starts from the target's last layers, with embedding and head copied and frozen."""
    torch.manual_seed(seed)
    draft = DraftModel(config, target)
    own = target.layers[-config.layers :]
    draft.layers.load_state_dict({f"{i}.{n}": p for i, layer in enumerate(own) for n, p in layer.state_dict().items()})
    draft.norm.load_state_dict(target.norm.state_dict())
    with torch.no_grad():
        draft.fc.weight.normal_(std=0.01)
        draft.fc.weight[:, -config.hidden_size :] += torch.eye(config.hidden_size)
        if draft.markov_head is not None:
            draft.markov_head.markov_w1.weight.normal_(std=0.1)
            draft.markov_head.markov_w2.weight.zero_()
        if draft.confidence_head is not None:
            nn.init.zeros_(draft.confidence_head.proj.weight)
            nn.init.zeros_(draft.confidence_head.proj.bias)
        if draft.embed_tokens is not None and draft.lm_head is not None:
            draft.embed_tokens.weight.copy_(target.embed_tokens.weight)
            draft.lm_head.weight.copy_(target.lm_head.weight)
    draft.requires_grad_(True)
    if draft.embed_tokens is not None and draft.lm_head is not None:
        draft.embed_tokens.requires_grad_(False)
        draft.lm_head.requires_grad_(False)
    return draft


def draft_loss(draft: DraftModel, target: TargetModel, view: TargetView, starts: Tensor, decay: float) -> Tensor:
    """DSpark: cross-entropy + L1 to the target's distribution + confidence; DFlash: cross-entropy alone."""
    drafts = draft.config.trained_drafts
    tokens, previous, behind = following(view, starts, drafts)
    weights = torch.exp(-torch.arange(drafts) / decay)
    weights = weights / weights.sum()
    hidden = draft_hidden(draft, view, starts, drafts)
    logits = draft.logits(hidden)
    if draft.markov_head is None or draft.confidence_head is None:
        nats = functional.cross_entropy(logits.float().transpose(1, 2), tokens, reduction="none")
        return (nats * weights).sum(-1).mean()
    embedded = draft.markov_head.embed(previous)
    correction, _ = draft.markov_head.step(embedded, hidden, embedded)  # vanilla: every position at once
    log_q = (logits + correction).float().log_softmax(-1)
    nats = -log_q.gather(-1, tokens[..., None]).squeeze(-1)
    with torch.no_grad():
        p = target.logits(behind).float().softmax(-1)
        # decoding is greedy here, so a draft is accepted exactly when both likeliest tokens agree
        accepted = (log_q.argmax(-1) == p.argmax(-1)).float()
    distance = (log_q.exp() - p).abs().sum(-1)
    sure = draft.confidence_head(hidden, embedded).float()
    confidence = functional.binary_cross_entropy_with_logits(sure, accepted, reduction="none")
    w = LOSS_WEIGHTS
    total = w["cross_entropy"] * nats + w["l1"] * distance + w["confidence"] * confidence
    return (total * weights).sum(-1).mean()


def anchors_in(first: Tensor, count: int, length: int, drafts: int, rng: torch.Generator) -> Tensor:
    """``count`` different anchor positions per sequence, from ``first`` [B] on: [B, count], sorted."""
    last = length - drafts - 1
    scores = torch.rand(len(first), last, generator=rng)
    scores[torch.arange(last) < first[:, None].clamp(max=last - count)] = -1.0
    return scores.topk(count, dim=1).indices.sort(dim=1).values


@dataclass
class Trainer:
    """Some drafters, their optimizers and the text they share."""

    target: TargetModel
    recipes: tuple[Recipe, ...]
    drafters: dict[str, DraftModel]
    optimizers: dict[str, Optimizers]
    views: ViewStore
    first: Tensor
    team: Team
    batch: int
    rng: torch.Generator

    def step(self, factor: float, *, shared: bool) -> dict[str, float]:
        """One step of every drafter at learning-rate factor ``factor``; returns the losses.

        ``shared``: DSpark drafters of all workers learn as one (they differ in SL alone).
        """
        rows = torch.randint(len(self.first), (self.batch,), generator=self.rng)
        view, first = self.views.pick(rows), self.first[rows]
        losses: dict[str, float] = {}
        for recipe in self.recipes:
            starts = anchors_in(first, recipe.anchors, LENGTH, recipe.drafts, self.rng)
            with torch.autocast("cpu", torch.bfloat16):
                loss = draft_loss(self.drafters[recipe.name], self.target, view, starts, recipe.decay)
            loss.backward()  # type: ignore[no-untyped-call]
            if shared and recipe.dspark:
                self.team.average_gradients(self.optimizers[recipe.name].parameters)
            self.optimizers[recipe.name].step(factor)
            losses[recipe.name] = loss.item()
        return losses

    def save(self, out: Path, state: Path, progress: dict[str, float], facts: dict[str, object]) -> None:
        """Write every drafter's folder and resumable state."""
        for recipe in self.recipes:
            draft = self.drafters[recipe.name]
            weights = LOSS_WEIGHTS if recipe.dspark else {"cross_entropy": 1.0}
            recipe_facts = {
                "blocks_seen": int(progress["step"]) * self.batch * recipe.anchors,
                "loss_weights": weights,
                "position_decay": recipe.decay,
                "training_loss": progress.get(recipe.name),
            }
            export.save_draft(out / recipe.name, draft, self.target, facts | recipe_facts)
            save_state(state / f"{recipe.name}.safetensors", draft, self.optimizers[recipe.name], progress)

    def resume(self, state: Path) -> dict[str, float]:
        """Take up the saved state of every drafter, or start where there is none."""
        progress: dict[str, float] = {"seconds": 0.0, "step": 0}
        files = {name: state / f"{name}.safetensors" for name in self.drafters}
        if all(file.exists() for file in files.values()):
            for name, file in files.items():
                progress = load_state(file, self.drafters[name], self.optimizers[name])
        return progress


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--greedy", type=Path, required=True, nargs="+", help="files of models.training.greedy_text")
    names = [recipe.name for recipe in RECIPES]
    parser.add_argument("--only", choices=names, default=names, nargs="+")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rank", type=int, default=0, help="this process's place in a team of --team")
    parser.add_argument("--team", type=int, default=1, help="processes that train one DSpark drafter each")
    parser.add_argument("--share-until", type=float, default=0.6, help="budget share during which they train as one")
    return parser.parse_args()


def main() -> None:
    """Train until the budget is spent."""
    args = parse()
    torch.set_num_threads(1)
    clock = Clock(args.minutes * 60)
    tokenizer, _ = encoder(args.target / "tokenizer.json")
    target = load_target(args.target, torch.float32)
    stream = training_tokens(tokenizer, token_id(tokenizer, END_OF_TEXT))
    greedy, widths = read_sequences(args.greedy)
    real = windows(stream, round(len(greedy) * (1 - GREEDY_SHARE)), LENGTH - 1, np.random.default_rng(args.seed))
    first = torch.cat((widths - 1, torch.full((len(real),), 8)))
    views = ViewStore.of(target, torch.cat((greedy, real)), TAPS)
    print(f"{clock.elapsed():.0f} s: {len(greedy)} greedy and {len(real)} real sequences viewed", flush=True)
    mask_id = token_id(tokenizer, MASK)
    recipes = tuple(recipe for recipe in RECIPES if recipe.name in args.only)
    drafters = {
        r.name: fresh_draft(draft_config(r, target.config, mask_id, args.layers), target, args.seed) for r in recipes
    }
    optimizers = {name: Optimizers(d, matrix_lr=0.006, other_lr=0.003) for name, d in drafters.items()}
    team = Team(args.rank, args.team, args.state / "rendezvous")
    rng = torch.Generator()
    trainer = Trainer(target, recipes, drafters, optimizers, views, first, team, args.batch, rng)
    progress = trainer.resume(args.state)
    clock.spent, step = progress["seconds"], int(progress["step"])
    rng.manual_seed(args.seed + step * args.team + args.rank)
    corpus = corpus_hash(documents(held_out=False))
    recent: list[dict[str, float]] = []
    saved = logged = time.monotonic()

    def save() -> None:
        facts = export.provenance(
            args.seed, corpus, steps=step, seconds=round(clock.elapsed()), greedy_sequences=len(greedy),
            greedy_share=GREEDY_SHARE, shared_until=args.share_until if args.team > 1 else 0.0,
        )  # fmt: skip
        trainer.save(args.out, args.state, means | {"seconds": clock.elapsed(), "step": step}, facts)

    means: dict[str, float] = {}
    while True:
        (fraction,) = team.agree(clock.fraction())
        if fraction >= 1.0:
            break
        recent.append(trainer.step(schedule(fraction), shared=fraction < args.share_until))
        step += 1
        if time.monotonic() - logged > 20:
            logged = time.monotonic()
            means = {name: round(float(np.mean([losses[name] for losses in recent])), 4) for name in drafters}
            recent.clear()
            print(f"{clock.elapsed():7.0f} s  step {step}  {means}", flush=True)
        if time.monotonic() - saved > 180:
            saved = time.monotonic()
            save()
    save()
    print(f"done {step} {means}", flush=True)


if __name__ == "__main__":
    main()
