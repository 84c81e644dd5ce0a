"""What a drafter does at every anchor of greedy text, and the figures that follow from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.stats import rankdata
from torch import Tensor

from models.training.blocks import TargetView, draft_hidden, following
from simtool.engine.models.draft import DraftModel


@dataclass(frozen=True)
class Outcomes:
    """For A anchors of each of P prompts: confidence [P, A, N] and the match run [P, A]."""

    confidence: np.ndarray
    match_run: np.ndarray


@torch.inference_mode()
def outcomes(draft: DraftModel, view: TargetView, first: int, drafts: int, chunk: int = 4) -> Outcomes:
    """Draft from every anchor position >= ``first`` whose block still lies inside the greedy text of ``view``."""
    batch, length = view.tokens.shape
    anchors = torch.arange(first, length - drafts)
    features = view.features.view(batch, length, -1)
    confidence: list[Tensor] = []
    runs: list[Tensor] = []
    for at in range(0, batch, chunk):
        tokens = view.tokens[at : at + chunk]
        part = TargetView(tokens, features[at : at + chunk].flatten(0, 1), view.hidden[at : at + chunk])
        starts = anchors.expand(len(tokens), -1)
        truth, previous, _ = following(part, starts, drafts)
        hidden = draft_hidden(draft, part, starts, drafts)
        block = draft.draft(hidden, previous[:, 0])
        runs.append((block.tokens == truth).long().cumprod(-1).sum(-1).view(len(tokens), -1))
        confidence.append(draft.confidence(hidden, block).view(len(tokens), -1, drafts))
    return Outcomes(torch.cat(confidence).numpy(), torch.cat(runs).numpy())


def visited(match_run: np.ndarray) -> np.ndarray:
    """The anchors that full-width decoding visits, from the first on: bool [P, A] for match runs [P, A]."""
    seen = np.zeros(match_run.shape, dtype=bool)
    for row, runs in enumerate(match_run):
        at = 0
        while at < len(runs):
            seen[row, at] = True
            at += int(runs[at]) + 1
    return seen


def auc(score: np.ndarray, label: np.ndarray) -> float | None:
    """Probability that a positive outranks a negative (Mann-Whitney); None where one class is missing."""
    positives = int(label.sum())
    negatives = len(label) - positives
    if not positives or not negatives:
        return None
    ranks = rankdata(score)
    return float((ranks[label].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def figures(found: Outcomes) -> dict[str, object]:
    """Acceptance (static, full width), by position and prompt, and how well confidence ranks accepted prefixes."""
    seen = visited(found.match_run)
    runs, confidence = found.match_run[seen], found.confidence[seen]
    drafts = confidence.shape[1]
    reached = [runs >= k for k in range(1, drafts + 1)]
    path = np.cumprod(confidence, axis=1)
    by_prompt = [float(r[s].mean() / drafts) for r, s in zip(found.match_run, seen, strict=True)]
    aucs = [auc(path[:, k], reached[k]) for k in range(drafts)]
    conditional = [float(reached[k].sum() / max(reached[k - 1].sum() if k else len(runs), 1)) for k in range(drafts)]
    return {
        "steps": len(runs),
        "acceptance_rate": round(float(runs.mean() / drafts), 4),
        "acceptance_length": round(float(runs.mean() + 1), 3),
        "accepted_at": [round(float(r.mean()), 3) for r in reached],
        "conditional_at": [round(c, 3) for c in conditional],
        "acceptance_rate_by_prompt_sd": round(float(np.std(by_prompt)), 3),
        "match_run_sd": round(float(runs.std()), 3),
        "auc_at": [None if a is None else round(a, 3) for a in aucs],
        "mean_confidence_at": [round(float(c), 3) for c in confidence.mean(axis=0)],
        "confidence_sd_at": [round(float(c), 3) for c in confidence.std(axis=0)],
    }
