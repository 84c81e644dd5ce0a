"""RMSNorm and rotary embedding through the NPU's fused ops; where the wheel lacks one, the plain layer stays."""

from __future__ import annotations

from torch import Tensor, nn

from simtool.engine.models.layers import Attention, RMSNorm
from simtool.engine.runner.npu import ops as npu_ops


class NpuRMSNorm(RMSNorm):
    """RMSNorm in one op. It multiplies by the weight before it rounds to the input's dtype, the plain layer after."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., size] -> [..., size], in the dtype of x."""
        normed: Tensor = npu_ops.op("npu_rms_norm")(x, self.weight, self.eps)[0]
        return normed


def fused_rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """As `layers.rotate`: x [T, heads, head_dim], cos and sin [T, 1, head_dim]; the op wants a batch in front."""
    rotated: Tensor = npu_ops.op("npu_rotary_mul")(x[None], cos[None], sin[None], "half")[0]
    return rotated


def fuse(model: nn.Module) -> None:
    """Let a loaded model use the fused ops that this wheel has. Its parameters and their names stay."""
    if npu_ops.has("npu_rms_norm"):
        for parent in list(model.modules()):
            for name, child in list(parent.named_children()):
                if type(child) is RMSNorm:
                    setattr(parent, name, _fused(child))
    if npu_ops.has("npu_rotary_mul"):
        for module in model.modules():
            if isinstance(module, Attention):
                module.rotate = fused_rotate


def _fused(norm: RMSNorm) -> NpuRMSNorm:
    fused = NpuRMSNorm(norm.weight.shape[0], norm.eps)
    fused.weight = norm.weight
    return fused
