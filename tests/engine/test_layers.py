import pytest
import torch

from simtool.engine.layers import RMSNorm, rotary_tables, rotate


def test_rms_norm_is_computed_wide_and_returned_narrow() -> None:
    norm = RMSNorm(4, 0.0).to(torch.bfloat16)
    x = torch.tensor([[300.0, 400.0, 0.0, 0.0]], dtype=torch.bfloat16)
    assert norm(x).dtype == torch.bfloat16
    assert norm(x)[0, :2].float().tolist() == pytest.approx([1.2, 1.6], abs=0.01)


def test_rms_norm_keeps_float64() -> None:
    x = torch.rand(3, 8, dtype=torch.float64)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    assert torch.allclose(RMSNorm(8, 1e-6).double()(x), expected, atol=1e-14)


def test_rotation_turns_pairs_by_the_position() -> None:
    cos, sin = rotary_tables(torch.tensor([0, 3]), 2, 10_000.0, torch.float32)
    turned = rotate(torch.tensor([[[1.0, 0.0]], [[1.0, 0.0]]]), cos, sin)
    assert turned[0, 0].tolist() == [1.0, 0.0]
    assert turned[1, 0].tolist() == pytest.approx([torch.tensor(3.0).cos().item(), torch.tensor(3.0).sin().item()])


def test_scores_depend_on_distance_alone() -> None:
    q, k = torch.randn(1, 1, 8), torch.randn(1, 1, 8)

    def score(i: int, j: int) -> float:
        cos, sin = rotary_tables(torch.tensor([i, j]), 8, 100.0, torch.float32)
        return (rotate(q, cos[:1], sin[:1]) * rotate(k, cos[1:], sin[1:])).sum().item()

    assert score(9, 4) == pytest.approx(score(25, 20), abs=1e-4)
