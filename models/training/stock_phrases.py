"""How much of the target's greedy text is stock phrases, and what they do to acceptance.

``python -m models.training.stock_phrases --checkpoints FOLDER``
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from models.training.blocks import view_of
from models.training.corpus import END_OF_TEXT, encoder, heldout_tokens, token_id
from models.training.evaluate import PROMPT
from models.training.greedy_text import continue_greedily
from models.training.outcomes import outcomes, visited
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.prompts.stdlib import heldout_prompts

GRAM, DRAFTS, TOKENS = 12, 7, 144


def shared(texts: Sequence[Sequence[int]], size: int) -> list[list[bool]]:
    """For each text and start, whether its ``size`` tokens from there stand in another of the texts too."""
    grams = [[tuple(text[k : k + size]) for k in range(len(text) - size + 1)] for text in texts]
    owners: dict[tuple[int, ...], set[int]] = defaultdict(set)
    for index, mine in enumerate(grams):
        for gram in mine:
            owners[gram].add(index)
    return [[len(owners[gram]) > 1 for gram in mine] for mine in grams]


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=72)
    args = parser.parse_args()
    tokenizer, encode = encoder(args.checkpoints / "target" / "tokenizer.json")
    target = load_target(args.checkpoints / "target", torch.float32)
    prompts = heldout_prompts(encode, args.prompts, 7, PROMPT, PROMPT)
    tokens = continue_greedily(target, torch.tensor([p.prompt_ids for p in prompts]), PROMPT + TOKENS)
    greedy = tokens[:, PROMPT:].tolist()
    rng = np.random.default_rng(0)
    real = [
        stream[start : start + TOKENS].tolist()
        for stream in heldout_tokens(tokenizer, token_id(tokenizer, END_OF_TEXT)).values()
        for start in rng.integers(0, len(stream) - TOKENS, args.prompts // 3)
    ]
    for name, texts in (("greedy text", greedy), ("real text", real)):
        sys.stdout.write(f"{name}: {np.mean(shared(texts, GRAM)):.3f} of {GRAM}-grams stand in another text too\n")
    draft = load_draft(args.checkpoints / "dspark_sl7", target, torch.float32)
    runs = outcomes(draft, view_of(target, tokens, draft.config.tap_ids), PROMPT, DRAFTS).match_run
    stock, seen = np.array(shared(greedy, DRAFTS))[:, 1:], visited(runs)  # an anchor's block begins one token later
    for name, blocks in (("in stock phrases", stock & seen), ("elsewhere", ~stock & seen)):
        sys.stdout.write(f"{name}: {blocks.sum()} of {seen.sum()} blocks, rate {runs[blocks].mean() / DRAFTS:.3f}\n")


if __name__ == "__main__":
    main()
