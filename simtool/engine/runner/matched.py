"""Sampling that no draft can change: a position's token is drawn by random numbers of that position alone.

The token is the likeliest of logits + temperature x Gumbel noise, which is a draw from the softmax at that temperature
(Maddison et al. 2014, "A* sampling"). The noise is a stateless hash of (seed, request key, position, token), so the
text follows from the prompt, whatever is drafted, offered or batched; a draft stands where it equals that token. To a
drafter that proposes its likeliest token this accepts as often as rejection sampling does: with the target's own
chance of that token.

Shapes: W rows, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simtool.engine.runner.sampling import Dice, Purpose, cut_off
from simtool.engine.runner.spec import SamplingConfig

#: A golden-ratio step from token to token, and the factors of a 32-bit finaliser with little bias (Wellons 2018).
_STEP, _FIRST, _SECOND = -1640531527, 2146121005, -2073254261


def perturbed(logits: Tensor, config: SamplingConfig, keys: Tensor, positions: Tensor) -> Tensor:
    """Return logits whose likeliest token is the draw: [W, V], as wide as float32 or wider, on the scale of logits.

    keys [W]: of the rows' requests. positions [W]: of the rows; each chooses the token behind it. What top_k and top_p
    cut off is minus infinity.
    """
    noise = gumbel(Dice(config.seed, keys, positions), logits.shape[-1])
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return cut_off(wide, config) + noise.mul_(config.temperature)


def gumbel(dice: Dice, count: int) -> Tensor:
    """Return standard Gumbel noise, [rows, count] float32, of each row's request and position.

    Two words of 32 bits a row, mixed with the token in 32 bits: over a whole vocabulary 64-bit products cost several
    times as much.
    """
    state = dice.state(Purpose.NOISE)
    low, high = (state & 0xFFFFFFFF, (state >> 32) & 0xFFFFFFFF)
    steps = torch.arange(count, device=state.device, dtype=torch.int32) * _STEP
    x = steps + _int32(low)[:, None]
    _scatter(x, 16, _FIRST)
    x ^= _int32(high)[:, None]
    _scatter(x, 15, _SECOND)
    x ^= _shifted(x, 16)
    # the middles of 2^23 equal parts of (0, 1): exact in float32
    uniform = _shifted(x, 9).to(torch.float32).add_(0.5).mul_(2.0**-23)
    return uniform.log_().neg_().log_().neg_()


def _scatter(x: Tensor, bits: int, factor: int) -> None:
    x ^= _shifted(x, bits)
    x *= factor


def _shifted(x: Tensor, bits: int) -> Tensor:
    """A shift that moves zeros in: torch's own moves the sign in."""
    return (x >> bits).bitwise_and_((1 << (32 - bits)) - 1)


def _int32(words: Tensor) -> Tensor:
    """The low 32 bits of int64 words [n], as int32: values past the middle wrap."""
    return (words - ((words >> 31) << 32)).to(torch.int32)
