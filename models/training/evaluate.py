"""Judge the pair on held-out text: ``python -m models.training.evaluate --checkpoints FOLDER [--json FILE]``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from models.training.blocks import view_of
from models.training.corpus import END_OF_TEXT, encoder, heldout_tokens, token_id
from models.training.greedy_text import continue_greedily, loop_share
from models.training.outcomes import figures, outcomes, visited
from models.training.train_target import heldout_losses
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.prompts.stdlib import DOMAINS, heldout_prompts

PROMPT, LOOP_TOKENS = 64, 96
RUNS = (("dspark_sl7", 7), ("dspark_sl16", 16), ("dflash_sl7", 7), ("dspark_sl7", 16), ("dflash_sl7", 16))


def loops_by_domain(tokens: Tensor, domains: list[str]) -> dict[str, float]:
    """The share of 96-token texts that loop at their end, overall and by domain."""
    shares = {"all": round(loop_share(tokens), 4)}
    for name in DOMAINS:
        rows = torch.tensor([domain == name for domain in domains])
        shares[name] = round(loop_share(tokens[rows]), 4)
    return shares


def real_loops(streams: dict[str, np.ndarray]) -> dict[str, float]:
    """The same share in the held-out text itself: what a target without any fault would show."""
    whole = {name: stream[: len(stream) // LOOP_TOKENS * LOOP_TOKENS] for name, stream in streams.items()}
    return {name: round(loop_share(torch.from_numpy(s.reshape(-1, LOOP_TOKENS))), 4) for name, s in whole.items()}


def acceptance_of(match_run: np.ndarray, rows: list[bool], drafts: int) -> float:
    """The static acceptance rate of the chosen prompts."""
    chosen = match_run[np.asarray(rows)]
    return round(float(chosen[visited(chosen)].mean() / drafts), 4)


def main() -> None:
    """Parse the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--prompts", type=int, default=96)
    parser.add_argument("--tokens", type=int, default=144)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--target-only", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    tokenizer, encode = encoder(args.checkpoints / "target" / "tokenizer.json")
    target = load_target(args.checkpoints / "target", torch.float32)
    streams = heldout_tokens(tokenizer, token_id(tokenizer, END_OF_TEXT))
    prompts = heldout_prompts(encode, args.prompts, args.seed, PROMPT, PROMPT)
    tokens = continue_greedily(target, torch.tensor([p.prompt_ids for p in prompts]), PROMPT + args.tokens)
    domains = [str(p.domain) for p in prompts]
    result: dict[str, object] = {
        "heldout_nats": {name: round(nats, 3) for name, nats in heldout_losses(target, streams).items()},
        "loop_share": loops_by_domain(tokens[:, PROMPT : PROMPT + LOOP_TOKENS], domains),
        "loop_share_of_real_text": real_loops(streams),
    }
    for name, drafts in () if args.target_only else RUNS:
        draft = load_draft(args.checkpoints / name, target, torch.float32)
        view = view_of(target, tokens, draft.config.tap_ids)
        found = outcomes(draft, view, PROMPT, drafts)
        rows = {d: acceptance_of(found.match_run, [x == d for x in domains], drafts) for d in DOMAINS}
        result[f"{name} at SL {drafts}"] = figures(found) | {"acceptance_rate_by_domain": rows}
    text = json.dumps(result, indent=1)
    sys.stdout.write(text + "\n")
    for prompt, row in list(zip(prompts, tokens, strict=True))[: args.samples]:
        start, rest = tokenizer.decode(list(prompt.prompt_ids)), tokenizer.decode(row[PROMPT:].tolist())
        sys.stdout.write(f"--- {prompt.domain}\n{start}>>>{rest}\n")
    if args.json is not None:
        args.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
