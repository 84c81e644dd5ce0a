import copy
from typing import Any

import pytest
import torch
from torch import nn

from simtool.engine.models.layers import DecoderLayer, RMSNorm, rotary_tables, rotate
from simtool.engine.runner import fused_cpu_layers as cpu_layers


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


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_fused_layers_compute_the_same(bias, dtype) -> None:
    torch.manual_seed(0)
    plain = DecoderLayer(24, 40, 4, 2, 6, eps=1e-6, bias=bias).to(dtype).requires_grad_(False)
    for parameter in plain.parameters():
        parameter.normal_(std=0.3)
    models = nn.ModuleList([copy.deepcopy(plain)])
    cpu_layers.fuse(models)
    (fused,) = models
    assert isinstance(fused, cpu_layers.FusedLayer)
    x = torch.randn(5, 24).to(dtype)
    tables = rotary_tables(torch.tensor([3, 4, 5, 9, 70]), 6, 100.0, dtype)
    names = {name: weight.shape for name, weight in fused.named_parameters()}
    assert names.items() <= {name: weight.shape for name, weight in plain.named_parameters()}.items()
    tolerance: Any = {} if dtype == torch.float64 else {"atol": 0.1, "rtol": 0.05}
    for ours, theirs in zip(fused.self_attn.project(x, *tables), plain.self_attn.project(x, *tables), strict=True):
        torch.testing.assert_close(ours, theirs, **tolerance)
    for ours, theirs in zip(
        fused.self_attn.keys_values(x, *tables), plain.self_attn.project(x, *tables)[1:], strict=True
    ):
        torch.testing.assert_close(ours, theirs, **tolerance)

    def attend(layer, q, k, v):
        return q * k.repeat_interleave(2, 1) + v.repeat_interleave(2, 1)

    before = x.clone()
    torch.testing.assert_close(fused(0, x, tables, attend), plain(0, x, tables, attend), **tolerance)
    assert torch.equal(x, before)  # it may be a tap


def test_fusing_unties_a_head_from_the_embedding_and_changes_no_value() -> None:
    model = nn.Module()
    model.embed, model.head = nn.Embedding(7, 3), nn.Linear(3, 7, bias=False)
    model.head.weight = model.embed.weight
    cpu_layers.fuse(model)
    assert torch.equal(model.head.weight, model.embed.weight)
    assert model.embed.weight.is_contiguous()
    assert model.head.weight.t().is_contiguous()


def test_angles_looked_up_are_the_angles_computed() -> None:
    positions = torch.tensor([0, 7, 7, 31])
    looked_up = cpu_layers.RotaryCache(32, 6, 100.0, torch.bfloat16)(positions, torch.bfloat16)
    for ours, theirs in zip(looked_up, rotary_tables(positions, 6, 100.0, torch.bfloat16), strict=True):
        assert torch.equal(ours, theirs)
