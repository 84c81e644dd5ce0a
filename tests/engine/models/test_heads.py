"""The heads against the formulas, written out by hand."""

import math

import pytest
import torch

from simtool.engine.models.heads import ConfidenceHead, draft_tokens, greedy, markov_head, probability_of


def test_vanilla_correction_depends_on_the_previous_token_alone() -> None:
    head = markov_head("vanilla", 5, 2, 3)
    embedded = head.embed(torch.tensor([4]))
    correction, _ = head.step(embedded, torch.randn(1, 3), head.initial_state(1))
    assert torch.allclose(correction, (head.markov_w2.weight @ head.markov_w1.weight[4])[None])


def test_gated_correction_by_hand() -> None:
    head = markov_head("gated", 2, 1, 1)
    with torch.no_grad():
        head.markov_w1.weight.copy_(torch.tensor([[2.0], [3.0]]))
        head.markov_w2.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        head.gate_proj.weight.copy_(torch.tensor([[0.5, 0.25]]))  # hidden first, then the embedding
        head.gate_proj.bias.fill_(0.1)
    correction, _ = head.step(head.embed(torch.tensor([1])), torch.tensor([[4.0]]), head.initial_state(1))
    gate = 1 / (1 + math.exp(-(0.5 * 4 + 0.25 * 3 + 0.1)))
    assert correction[0].tolist() == pytest.approx([3 * gate, -3 * gate])


def test_rnn_correction_by_hand_over_two_steps() -> None:
    head = markov_head("rnn", 2, 1, 1)
    weight = [[0.1, 0.2, 0.3], [0.4, -0.5, 0.6], [-0.7, 0.8, 0.9]]  # rows g, c, o; columns state, embedding, hidden
    bias = [0.01, 0.02, 0.03]
    with torch.no_grad():
        head.markov_w1.weight.copy_(torch.tensor([[0.5], [-1.5]]))
        head.markov_w2.weight.copy_(torch.tensor([[1.0], [2.0]]))
        head.joint_proj.weight.copy_(torch.tensor(weight))
        head.joint_proj.bias.copy_(torch.tensor(bias))
    state, by_hand = head.initial_state(1), 0.0
    for token, hidden in ((1, 0.7), (0, -0.2)):
        correction, state = head.step(head.embed(torch.tensor([token])), torch.tensor([[hidden]]), state)
        e = [0.5, -1.5][token]
        g, c, o = (w[0] * by_hand + w[1] * e + w[2] * hidden + b for w, b in zip(weight, bias, strict=True))
        gate = 1 / (1 + math.exp(-g))
        by_hand = gate * by_hand + (1 - gate) * math.tanh(c)
        assert state.item() == pytest.approx(by_hand, abs=1e-6)
        assert correction[0].tolist() == pytest.approx([math.tanh(o), 2 * math.tanh(o)], abs=1e-6)


@pytest.mark.parametrize("kind", ["vanilla", "gated", "rnn"])
def test_tokens_are_drafted_one_after_another(kind) -> None:
    torch.manual_seed(0)
    head = markov_head(kind, 7, 3, 4).double()
    hidden, base = torch.randn(2, 5, 4).double(), torch.randn(2, 5, 7).double()
    anchors = torch.tensor([2, 6])
    block = draft_tokens(head, base.clone(), hidden, anchors)
    for row in range(2):
        previous, state = anchors[row : row + 1], head.initial_state(1)
        for k in range(5):
            embedded = head.embed(previous)
            assert torch.equal(block.embedded[row, k], embedded[0])
            correction, state = head.step(embedded, hidden[row : row + 1, k], state)
            assert torch.allclose(block.logits[row, k], base[row, k] + correction[0])
            previous = (base[row : row + 1, k] + correction).argmax(-1)
            assert block.tokens[row, k] == previous[0]


def test_without_a_markov_head_rows_are_picked_at_once() -> None:
    base = torch.tensor([[[0.0, 2.0], [3.0, 1.0]]])
    block = draft_tokens(None, base, torch.zeros(1, 2, 4), torch.tensor([0]))
    assert block.tokens.tolist() == [[1, 0]]
    assert block.embedded is None
    assert probability_of(block.tokens, block.logits)[0, 0].item() == pytest.approx(1 / (1 + math.exp(-2)))


def test_pick_decides() -> None:
    base = torch.tensor([[[0.0, 2.0]]])
    least = draft_tokens(None, base, torch.zeros(1, 1, 4), torch.tensor([0]), lambda logits: logits.argmin(-1))
    assert least.tokens.tolist() == [[0]]
    assert greedy(torch.tensor([1.0, 1.0])).item() == 0


@pytest.mark.parametrize("rank", [0, 2])
def test_confidence_is_one_linear(rank: int) -> None:
    head = ConfidenceHead(3, rank, bias=False)
    hidden, embedded = torch.randn(2, 4, 3), torch.randn(2, 4, rank) if rank else None
    features = hidden if embedded is None else torch.cat((hidden, embedded), -1)
    assert torch.allclose(head(hidden, embedded), features @ head.proj.weight[0], atol=1e-6)
    assert head.proj.bias is None


@pytest.mark.parametrize("vocab", [3, 17, 2048])
def test_greedy_takes_the_first_of_equals(vocab: int) -> None:
    logits = torch.randint(0, 3, (9, vocab), generator=torch.Generator().manual_seed(1)).float()
    first = [row.index(max(row)) for row in logits.tolist()]
    assert greedy(logits).tolist() == first
