"""Choosing tokens: greedy matching, and rejection sampling that leaves the target's distribution untouched.

Shapes: B sequences, N drafts, V vocabulary, W validate rows. Random numbers are a stateless hash of (seed, request
key, anchor position, purpose, place in the block), so a run repeats whatever else shares its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from simtool.engine.models.heads import greedy
from simtool.engine.runner.spec import SamplingConfig


class Purpose(IntEnum):
    """What a random number decides; numbers for different purposes are independent."""

    DRAFT = 1
    ACCEPT = 2
    TOKEN = 3
    NOISE = 4


class Dice(NamedTuple):
    """The source of one batch's random numbers: keys [B], a stable integer per request; anchors [B], positions."""

    seed: int
    keys: Tensor
    anchors: Tensor

    def uniform(self, purpose: Purpose, count: int) -> Tensor:
        """[B, count] float32 in [0, 1), one for each place in the block."""
        places = torch.arange(count, device=self.keys.device)
        state = self.state(purpose)
        # 24 bits: every value is exact in float32, and none rounds up to 1
        return _logical_shift(_mix(state[:, None] + places), 40).to(torch.float32) * 2.0**-24

    def state(self, purpose: Purpose) -> Tensor:
        """[B] int64, all bits random: of the request, the anchor and the purpose."""
        state = _mix(self.keys + _mix(torch.full_like(self.keys, self.seed)))
        return _mix(_mix(state + self.anchors) + int(purpose))


class Verified(NamedTuple):
    """tokens [B, N+1]: accepted drafts, then the target's own token, then zeros. accepted [B].

    margin: once called [B, N+1], greedy only: gap between the two likeliest logits of the row that chose each of these
    tokens; past the target's own token it means nothing. No token depends on it, so it is reckoned when asked for.
    sound [B]: whether every logit that had a say was a finite number.
    """

    tokens: Tensor
    accepted: Tensor
    sound: Tensor
    margin: Callable[[], Tensor] | None = None


def probabilities(logits: Tensor, config: SamplingConfig) -> Tensor:
    """The distribution that is sampled from: [..., V] -> [..., V], float32 or better."""
    return cut_off(_wide(logits), config).div(config.temperature).softmax(-1)


def cut_off(scores: Tensor, config: SamplingConfig) -> Tensor:
    """Logits with minus infinity where top_k or top_p, at the temperature, let no token through: [..., V]."""
    if 0 < config.top_k < scores.shape[-1]:
        scores = scores.masked_fill(scores < scores.topk(config.top_k).values[..., -1:], -torch.inf)
    if config.top_p < 1:
        ordered, order = scores.sort(dim=-1, descending=True)
        chances = (ordered / config.temperature).softmax(-1)
        # a token stays while the likelier ones have not yet filled top_p: the likeliest always stays
        ordered = ordered.masked_fill(chances.cumsum(-1) - chances >= config.top_p, -torch.inf)
        scores = scores.scatter(-1, order, ordered)
    return scores


def draw(weights: Tensor, uniform: Tensor) -> Tensor:
    """Draw from unnormalised weights [..., V] with one uniform each [...] -> token ids [...]."""
    cumulative = weights.cumsum(-1)
    total = cumulative[..., -1:].contiguous()
    found = torch.searchsorted(cumulative, uniform[..., None].to(weights.dtype) * total, right=True)
    # where rounding lifts the threshold to the total, take the last token that has any weight; NaN has no place at all
    found = torch.minimum(found, torch.searchsorted(cumulative, total)).clamp(max=weights.shape[-1] - 1)
    return found.squeeze(-1)


class DraftPicker:
    """Picks draft tokens from logits, as `DraftModel.draft` asks: all N rows at once, or draft after draft.

    Keeps the distribution that each token was drawn from.
    """

    def __init__(self, config: SamplingConfig, dice: Dice, drafts: int) -> None:
        self._config = config
        self._uniform = dice.uniform(Purpose.DRAFT, drafts)
        self._picked: list[Tensor] = []

    def __call__(self, logits: Tensor) -> Tensor:
        """[B, N, V] -> [B, N], or the next draft's [B, V] -> [B]."""
        if self._config.greedy_draft:
            tokens = greedy(logits)
            weights = functional.one_hot(tokens, logits.shape[-1]).to(_wide(logits).dtype)
        else:
            weights = probabilities(logits, self._config)
            uniform = self._uniform if logits.dim() == 3 else self._uniform[:, len(self._picked)]
            tokens = draw(weights, uniform)
        self._picked.append(weights)
        return tokens

    @property
    def proposal(self) -> Tensor:
        """q [B, N, V], the drafter's true distribution at each place."""
        return self._picked[0] if self._picked[0].dim() == 3 else torch.stack(self._picked, 1)


def dense_rows(cu_rows: Tensor, drafts: int) -> tuple[Tensor, Tensor]:
    """Where each sequence's N+1 rows lie in the varlen batch: cu_rows [B+1] -> indices [B, N+1], prefixes [B].

    Places past a sequence's width repeat its last row; their verdict is never used.
    """
    places = torch.arange(drafts + 1, device=cu_rows.device)
    rows = torch.minimum(cu_rows[:-1, None] + places, cu_rows[1:, None] - 1)
    return rows, cu_rows.diff() - 1


def verify_greedy(logits: Tensor, cu_rows: Tensor, draft_tokens: Tensor) -> Verified:
    """Accept the drafts that equal the target's likeliest tokens, cut at each prefix: logits [W, V]."""
    drafts = draft_tokens.shape[1]
    rows, prefixes = dense_rows(cu_rows, drafts)
    chosen = greedy(logits)
    tokens = chosen[rows]
    accepted = _leading(draft_tokens == tokens[:, :drafts], prefixes)
    sound = likeliest_is_finite(logits, chosen)[rows].all(1)
    return Verified(_until(tokens, accepted), accepted, sound, lambda: gaps(logits, chosen)[rows])


def verify_sampled(
    logits: Tensor, cu_rows: Tensor, draft_tokens: Tensor, proposal: Tensor, config: SamplingConfig, dice: Dice
) -> Verified:
    """Rejection sampling: accept draft x with probability min(1, p(x)/q(x)), else draw from max(p - q, 0).

    proposal: q [B, N, V]. After the last offered draft the next token is drawn from p itself, whether the block
    ended there or was cut there. Leviathan et al. 2023, "Fast inference from transformers via speculative decoding".
    """
    drafts = draft_tokens.shape[1]
    rows, prefixes = dense_rows(cu_rows, drafts)
    chances = probabilities(logits, config)
    offered = chances[rows[:, :drafts]].gather(-1, draft_tokens[..., None]).squeeze(-1)
    proposed = proposal.gather(-1, draft_tokens[..., None]).squeeze(-1)
    accepted = _leading(dice.uniform(Purpose.ACCEPT, drafts) * proposed < offered, prefixes)
    last_row = rows.gather(1, accepted[:, None]).squeeze(1)
    own = chances[last_row]
    refused = accepted < prefixes
    place = accepted.clamp(max=drafts - 1)
    left = (own - proposal[torch.arange(len(place), device=place.device), place]).clamp(min=0)
    refused = refused & (left.sum(-1) > 0)
    uniform = dice.uniform(Purpose.TOKEN, drafts + 1).gather(1, accepted[:, None]).squeeze(1)
    token = draw(torch.where(refused[:, None], left, own), uniform)
    tokens = functional.pad(draft_tokens, (0, 1)).scatter(1, accepted[:, None], token[:, None])
    return Verified(_until(tokens, accepted), accepted, _sound(chances)[rows].all(1))


def first_tokens(logits: Tensor, config: SamplingConfig, dice: Dice | None) -> Verified:
    """The token after each prompt from its last row's logits [B, V]: tokens [B, 1], accepted 0."""
    if dice is None:
        tokens = greedy(logits)
        sound = likeliest_is_finite(logits, tokens)
        return Verified(tokens[:, None], torch.zeros_like(tokens), sound, lambda: gaps(logits, tokens)[:, None])
    chances = probabilities(logits, config)
    tokens = draw(chances, dice.uniform(Purpose.TOKEN, 1).squeeze(1))
    return Verified(tokens[:, None], torch.zeros_like(tokens), _sound(chances))


def gaps(logits: Tensor, chosen: Tensor) -> Tensor:
    """Gap between each row's likeliest logit and the next: logits [..., V], their argmax [...] -> float32 or 64 [...].

    The argmax is there already, so the runner-up costs one more look at the logits; topk(2) costs several.
    """
    best = logits.gather(-1, chosen[..., None])
    second = logits.scatter(-1, chosen[..., None], -torch.inf).amax(-1, keepdim=True)
    return (_wide(best) - _wide(second)).squeeze(-1)


def likeliest_is_finite(logits: Tensor, chosen: Tensor) -> Tensor:
    """Whether a row of logits has neither NaN nor +Inf, either of which is its argmax: [..., V], [...] -> [...]."""
    return logits.gather(-1, chosen[..., None]).squeeze(-1).isfinite()


def _sound(chances: Tensor) -> Tensor:
    """Whether a row of logits was finite, told by its softmax, which one NaN or Inf spoils whole: [..., V] -> [...]."""
    return chances[..., 0].isfinite()


def _leading(good: Tensor, prefixes: Tensor) -> Tensor:
    """How many places in a row hold from the first on, at most the prefix: [B, N], [B] -> [B]."""
    places = torch.arange(good.shape[1], device=good.device)
    return (good & (places < prefixes[:, None])).to(torch.int64).cumprod(1).sum(1)


def _until(tokens: Tensor, last: Tensor) -> Tensor:
    """Zero what lies past the place `last`: tokens [B, K], last [B]."""
    return tokens.masked_fill(torch.arange(tokens.shape[1], device=tokens.device) > last[:, None], 0)


def _wide(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.float()


def _logical_shift(x: Tensor, bits: int) -> Tensor:
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: Tensor) -> Tensor:
    """A bijection of 64-bit integers that scatters them well: a golden-ratio step and the splitmix64 finaliser."""
    x = x - 0x61C8864680B583EB
    x = (x ^ _logical_shift(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ _logical_shift(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ _logical_shift(x, 31)
