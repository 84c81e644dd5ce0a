"""The teacher-forced pass: the drafter's outcome at every anchor of a recorded request, visited or not.

Under greedy decoding, and where sampled drafts only have to match, the target emits the same tokens whatever was
pruned, and the drafter sees only committed context. So the block drafted at an anchor, its confidence and its match run
depend on the anchor alone, and one teacher-forced pass over the recorded tokens yields them all. Any placement can then
be replayed token-exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from simtool.engine.models.draft import DraftModel
from simtool.engine.models.heads import probability_of
from simtool.engine.models.target import TargetModel
from simtool.engine.outcomes.estimate import ANCHORS_AT_ONCE
from simtool.engine.outcomes.reference import DenseSequence, dense_attention
from simtool.engine.runner.matched import perturbed
from simtool.engine.runner.sampling import gaps
from simtool.engine.runner.spec import SamplingConfig


@dataclass(frozen=True)
class RequestOutcomes:
    """Outcomes at anchors `start`, start + 1, ... of one request; lists are per anchor, inner lists per draft.

    draft_margin: smallest gap between the drafter's two likeliest logits over drafts 1 to m + 1. flips: positions of
    output tokens that the teacher-forced target would not have chosen, and the gap between its two likeliest logits.
    """

    start: int
    confidence: list[list[float]]
    draft_prob: list[list[float]]
    match_run: list[int]
    draft_margin: list[float]
    flips: dict[int, float]


@dataclass(frozen=True)
class TeacherForcedPass:
    """A target and its drafter, run over requests whose tokens are known; `drafts` tokens a block.

    sampling: how the tokens were chosen; settled.
    """

    target: TargetModel
    draft: DraftModel
    drafts: int
    sampling: SamplingConfig = field(default_factory=SamplingConfig)

    @torch.inference_mode()
    def outcomes(self, prompt: Sequence[int], output: Sequence[int], *, key: int = 0) -> RequestOutcomes:
        """Return the outcomes at every anchor from the first output token to the last. key: of its random numbers."""
        tokens = [*prompt, *output]
        device = self.target.embed_tokens.weight.device
        positions = torch.arange(len(tokens), device=device)
        cache = DenseSequence()
        hidden, features = self.target(torch.tensor(tokens, device=device), positions, cache, self.draft.config.tap_ids)
        first_row = len(prompt) - 1
        logits = self._scores(hidden[first_row:], positions[first_row:], key)
        best = logits.argmax(-1)
        chosen, margins = best.tolist(), gaps(logits, best).tolist()
        flips = {len(prompt) + k: margins[k] for k, token in enumerate(output) if token != chosen[k]}
        following = torch.tensor(tokens + self._continue(chosen[-1], len(tokens), cache, key), device=device)
        context = self.draft.project_context(features, positions)
        anchors = range(len(prompt), len(tokens))
        filled = RequestOutcomes(
            start=len(prompt), confidence=[], draft_prob=[], match_run=[], draft_margin=[], flips=flips
        )
        for first in range(anchors.start, anchors.stop, ANCHORS_AT_ONCE):
            starts = torch.arange(first, min(first + ANCHORS_AT_ONCE, anchors.stop), device=device)
            self._add_chunk(filled, context, following, starts)
        return filled

    def _scores(self, hidden: Tensor, positions: Tensor, key: int) -> Tensor:
        """What the target's tokens are the likeliest of, [rows, V]."""
        logits = self.target.logits(hidden)
        if self.sampling.greedy:
            return logits
        return perturbed(logits, self.sampling, torch.full_like(positions, key), positions)

    def _continue(self, token: int, position: int, cache: DenseSequence, key: int) -> list[int]:
        """The target's own next `drafts` tokens, so that the last anchors have an answer too."""
        extra, device = [token], self.target.embed_tokens.weight.device
        while len(extra) < self.drafts:
            last, at = (torch.tensor([value], device=device) for value in (extra[-1], position + len(extra) - 1))
            hidden, _ = self.target(last, at, cache)
            extra.append(int(self._scores(hidden[-1:], at, key).argmax()))
        return extra

    def _add_chunk(
        self, filled: RequestOutcomes, context: list[tuple[Tensor, Tensor]], tokens: Tensor, starts: Tensor
    ) -> None:
        anchors = tokens[starts]
        ids, positions = self.draft.block(anchors, starts, self.drafts)
        rows = len(ids) // len(starts)
        attend = _BlocksAttend(context, starts.repeat_interleave(rows), rows)
        hidden = self.draft.predicting(self.draft(ids, positions, attend), self.drafts)
        block = self.draft.draft(hidden, anchors)
        wanted = tokens[starts[:, None] + 1 + torch.arange(self.drafts, device=starts.device)]
        matches = (block.tokens == wanted).long().cumprod(-1).sum(-1)
        filled.confidence.extend(self.draft.confidence(hidden, block).tolist())
        filled.draft_prob.extend(probability_of(block.tokens, block.logits).tolist())
        filled.match_run.extend(matches.tolist())
        unseen = torch.arange(self.drafts, device=starts.device) > matches[:, None]
        margins = gaps(block.logits, block.tokens).masked_fill(unseen, torch.inf).amin(-1)
        filled.draft_margin.extend(margins.tolist())


class _BlocksAttend:
    """Many blocks of one sequence at once: each row sees the context before its anchor and its own block."""

    def __init__(self, context: list[tuple[Tensor, Tensor]], row_starts: Tensor, rows: int) -> None:
        self._context = context
        length, device = len(context[0][0]), row_starts.device
        block = torch.arange(len(row_starts), device=device) // rows
        self._mask = torch.cat(
            (torch.arange(length, device=device) < row_starts[:, None], block == block[:, None]), dim=1
        )

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        keys, values = self._context[layer]
        return dense_attention(q, torch.cat((keys, k)), torch.cat((values, v)), self._mask)
