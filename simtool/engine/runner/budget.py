"""A budget of drafts split over a batch on the device, and the validate rows that come of it.

The host knows how many rows there will be, and sizes its launches by that; whose they are is known here alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional


def split(confidence: Tensor, budget: int) -> Tensor:
    """Return the prefix length of each sequence [B], `budget` drafts in all: the likeliest to be accepted of [B, N].

    As `step.policies.ranking.best_first`: equals go by position, then by sequence.
    """
    paths = confidence.double().clamp(0, 1).cumprod(1)
    by_place = torch.where(paths.isfinite(), paths, 0.0).t().flatten()
    chosen = by_place.argsort(descending=True, stable=True)[:budget] % len(paths)
    return torch.zeros(len(paths), dtype=torch.int64, device=paths.device).index_add_(
        0, chosen, torch.ones_like(chosen)
    )


def rows_of(
    prefixes: Tensor, drafts: Tensor, anchors: Tensor, positions: Tensor, tables: Tensor, *, budget: int, page: int
) -> Mapping[str, Tensor]:
    """Return the inputs of the target forward over B + `budget` rows, as the host's build_varlen and fill would.

    prefixes, anchors, positions: [B]. drafts: [B, N]. tables: [B, M], pages of `page` tokens.
    """
    cu_rows = functional.pad((prefixes + 1).cumsum(0), (1, 0))
    rows = torch.arange(len(prefixes) + budget, device=cu_rows.device)
    sequence = torch.searchsorted(cu_rows, rows, right=True) - 1
    place = rows - cu_rows[sequence]
    at, named = positions[sequence] + place, tables[sequence]
    return {
        "validate_ids": torch.where(place > 0, drafts[sequence, (place - 1).clamp(min=0)], anchors[sequence]),
        "validate_positions": at,
        "validate_slot_mapping": named.gather(1, (at // page)[:, None])[:, 0] * page + at % page,
        "validate_kv_lens": at + 1,
        "validate_block_tables": named,
        "validate_cu_rows": cu_rows,
    }
