"""Greedy matching, and the losslessness of rejection sampling. Seeds are fixed: no test is a matter of luck."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import chisquare

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.runner.runner import load_runner
from simtool.engine.runner.sampling import (
    Dice,
    DraftPicker,
    Purpose,
    dense_rows,
    draw,
    first_tokens,
    gaps,
    probabilities,
    verify_greedy,
    verify_sampled,
)
from simtool.engine.runner.spec import SamplingConfig
from simtool.errors import UsageError
from tests.engine import golden
from tests.engine.driving import decode, generate, prefill

TOO_UNLIKELY = 1e-3
PLAIN = SamplingConfig(temperature=1.0)


def dice(count: int, seed: int = 0) -> Dice:
    return Dice(seed, torch.arange(count), torch.arange(count) % 5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": 1.0, "top_k": -2}, "top_k is -2"),
        ({"temperature": 1.0, "top_p": 0.0}, "top_p is 0.0"),
        ({"top_k": 5}, "change nothing at temperature 0"),
        ({"top_p": 0.9}, "change nothing at temperature 0"),
        ({"greedy_draft": True}, "change nothing at temperature 0"),
    ],
)
def test_bad_configs_are_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        SamplingConfig(**fields)


def test_numbers_depend_on_the_request_and_not_on_its_neighbours():
    keys, anchors = torch.tensor([4, 9, 2]), torch.tensor([10, 3, 77])
    together = Dice(1, keys, anchors).uniform(Purpose.DRAFT, 6)
    for i in range(3):
        assert torch.equal(Dice(1, keys[i : i + 1], anchors[i : i + 1]).uniform(Purpose.DRAFT, 6)[0], together[i])
    assert torch.equal(Dice(1, keys, anchors).uniform(Purpose.DRAFT, 2), together[:, :2])
    others = [
        Dice(2, keys, anchors).uniform(Purpose.DRAFT, 6),
        Dice(1, keys + 1, anchors).uniform(Purpose.DRAFT, 6),
        Dice(1, keys, anchors + 1).uniform(Purpose.DRAFT, 6),
        Dice(1, keys, anchors).uniform(Purpose.ACCEPT, 6),
    ]
    for other in others:
        assert not (other == together).any()


def test_numbers_are_uniform_across_keys_anchors_and_places():
    values = Dice(5, torch.arange(400) % 20, torch.arange(400) // 20).uniform(Purpose.TOKEN, 50).flatten()
    assert values.min() >= 0
    assert values.max() < 1
    counts = torch.histc(values, 40, 0, 1)
    assert chisquare(counts.numpy()).pvalue > TOO_UNLIKELY


def test_draw_never_gives_a_token_without_weight():
    weights = torch.tensor([[0.0, 0.3, 0.0, 1.3, 0.0]])
    highest = torch.tensor([1 - 2.0**-24])
    assert draw(weights, torch.tensor([0.0])).item() == 1
    assert draw(weights, highest).item() == 3
    rounded_up = torch.tensor([[0.0, 1.0 + 2.0**-23, 0.0]])
    assert draw(rounded_up, highest).item() == 1


def test_top_k_and_top_p_keep_what_they_should():
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    top_k = probabilities(logits, SamplingConfig(1.0, top_k=2))
    torch.testing.assert_close(top_k, torch.tensor([[4 / 7, 3 / 7, 0, 0]]))
    top_p = probabilities(logits, SamplingConfig(1.0, top_p=0.75))
    torch.testing.assert_close(top_p, torch.tensor([[4 / 9, 3 / 9, 2 / 9, 0]]))
    assert probabilities(logits, SamplingConfig(1.0, top_p=1e-9)).tolist() == [[1, 0, 0, 0]]
    torch.testing.assert_close(probabilities(logits, SamplingConfig(0.5)), torch.tensor([[16.0, 9, 4, 1]]) / 30)


def test_dense_rows_repeat_the_last_row_of_short_sequences():
    rows, prefixes = dense_rows(torch.tensor([0, 3, 4, 6]), 2)
    assert rows.tolist() == [[0, 1, 2], [3, 3, 3], [4, 5, 5]]
    assert prefixes.tolist() == [2, 0, 1]


def test_greedy_verdict_by_hand():
    own = torch.tensor([3, 1, 4, 1, 5, 2, 2])  # rows of widths 3, 1, 3
    logits = torch.nn.functional.one_hot(own, 6).float() * 2
    drafts = torch.tensor([[3, 9 % 6], [1, 1], [5, 2]])
    verdict = verify_greedy(logits, torch.tensor([0, 3, 4, 7]), drafts)
    assert verdict.accepted.tolist() == [1, 0, 2]
    assert verdict.tokens.tolist() == [[3, 1, 0], [1, 0, 0], [5, 2, 2]]
    assert verdict.margin is not None
    assert verdict.margin().tolist() == [[2, 2, 2]] * 3


def test_gaps_are_between_the_two_likeliest_and_a_tie_has_none():
    logits = torch.tensor([[1.0, 3.5, 3.0], [2.0, 2.0, -1.0]])
    assert gaps(logits, logits.argmax(-1)).tolist() == [0.5, 0.0]
    assert gaps(logits.bfloat16(), logits.argmax(-1)).dtype == torch.float32


@pytest.mark.parametrize("greedy_draft", [False, True])
@pytest.mark.parametrize("cut", [3, 2, 0])
def test_emitted_tokens_follow_the_target(greedy_draft, cut):
    """Whatever the drafter proposes and wherever the prune cuts, place k's token is distributed as the target's."""
    torch.manual_seed(2)
    batch, drafts, vocab = 20_000, 3, 5
    target, proposal = torch.randn(drafts + 1, vocab), torch.randn(drafts, vocab)
    config = SamplingConfig(temperature=0.8, top_p=0.95, greedy_draft=greedy_draft)
    rolls = dice(batch, seed=3)
    picker = DraftPicker(config, rolls, drafts)
    tokens = picker(proposal.expand(batch, drafts, vocab))
    logits = target[: cut + 1].repeat(batch, 1)
    cu_rows = torch.arange(batch + 1) * (cut + 1)
    verdict = verify_sampled(logits, cu_rows, tokens, picker.proposal, config, rolls)
    chances = probabilities(target, config)
    assert verdict.accepted.max() <= cut
    for place in range(cut + 1):
        reached = verdict.tokens[verdict.accepted >= place, place]
        assert follows(reached, chances[place]), f"place {place}"
    if cut and not greedy_draft:
        overlap = torch.minimum(chances[0], probabilities(proposal, config)[0]).sum()
        assert (verdict.accepted > 0).float().mean().item() == pytest.approx(overlap.item(), abs=0.02)


def follows(tokens: torch.Tensor, chances: torch.Tensor) -> bool:
    counts = torch.bincount(tokens, minlength=len(chances))
    possible = chances > 0
    if counts[~possible].any():
        return False
    expected = chances[possible].double() / chances[possible].double().sum() * len(tokens)
    return bool(chisquare(counts[possible].numpy(), expected.numpy()).pvalue > TOO_UNLIKELY)


def test_the_losslessness_check_can_fail():
    """Claiming another proposal than the drafts were drawn from must show."""
    torch.manual_seed(2)
    batch, vocab = 20_000, 5
    target, proposal, rolls = torch.randn(2, vocab), torch.randn(1, vocab), dice(batch, seed=3)
    tokens = DraftPicker(PLAIN, rolls, 1)(proposal.expand(batch, 1, vocab))
    wrong = torch.full((batch, 1, vocab), 1 / vocab)
    cu_rows = torch.arange(batch + 1) * 2
    verdict = verify_sampled(target.repeat(batch, 1), cu_rows, tokens, wrong, PLAIN, rolls)
    assert not follows(verdict.tokens[:, 0], probabilities(target, PLAIN)[0])


def test_first_tokens_follow_the_target():
    torch.manual_seed(4)
    logits = torch.randn(1, 6)
    verdict = first_tokens(logits.expand(10_000, 6), PLAIN, dice(10_000))
    assert verdict.tokens.shape == (10_000, 1)
    assert follows(verdict.tokens[:, 0], probabilities(logits, PLAIN)[0])


def test_markov_drafts_through_the_runner_are_lossless():
    """The second token's distribution given the first, from a real drafter with a Markov head, pruned unevenly."""
    prompt, slots, rounds = [1, 2, 3, 4], 128, 12
    sampling = SamplingConfig(temperature=1.5, seed=11)
    fields = {"kv_blocks": slots * 3, "context_tokens": 24, "drafts": 3, "sampling": sampling}
    device = TimedDevice(load_runner(golden.spec("dspark_b7", slots, **fields)), same_durations(1))
    pairs = torch.zeros(8, 8, dtype=torch.int64)
    for round in range(rounds):
        streams = golden.streams([prompt] * slots)
        for stream in streams:
            stream.blocks = list(range(stream.slot * 3, stream.slot * 3 + 3))
            stream.key = round * slots + stream.slot
        prefill(device, streams)
        decode(device, streams, [stream.slot % 4 for stream in streams])
        for stream in streams:
            pairs[stream.output[0], stream.output[1]] += 1
    chances = pair_chances(device, prompt, sampling)
    seen, expected = pairs.flatten(), chances.flatten() * pairs.sum()
    common = expected >= 5
    rest = [seen[~common].sum().item(), expected[~common].sum().item()]
    assert rest[1] >= 5
    counts, hopes = [*seen[common].tolist(), rest[0]], [*expected[common].tolist(), rest[1]]
    assert chisquare(counts, hopes).pvalue > TOO_UNLIKELY


def pair_chances(device: TimedDevice, prompt: list[int], sampling: SamplingConfig) -> torch.Tensor:
    """p(first, second) [8, 8] from the target alone, one dense causal forward a prompt."""
    target = device._runner._target

    def causal(layer, q, k, v):
        repeat = q.shape[1] // k.shape[1]
        q, k, v = (x.transpose(0, 1)[None] for x in (q, k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)[0].transpose(0, 1)

    def last(ids):
        hidden, _ = target(torch.tensor(ids), torch.arange(len(ids)), causal)
        return probabilities(target.logits(hidden[-1]).double(), sampling)

    return torch.stack([last(prompt)[first] * last([*prompt, first]) for first in range(8)])


def test_a_sampled_run_repeats_and_does_not_depend_on_its_batch():
    sampling = SamplingConfig(temperature=1.0, seed=5)
    device = TimedDevice(load_runner(golden.spec("dspark_b7", dtype="float64", sampling=sampling)), same_durations(1))
    prompts = [case["prompt"] for case in golden.cases("dspark_b7")[:4]]
    together, again = golden.streams(prompts), golden.streams(prompts)
    generate(device, together, 12)
    generate(device, again, 12)
    assert [stream.output for stream in together] == [stream.output for stream in again]
    alone = golden.streams(prompts)[2]
    generate(device, [alone], 12)
    assert alone.output == together[2].output
