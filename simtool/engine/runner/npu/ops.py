"""The torch_npu ops that the NPU path calls: one table, compared with the installed wheel by the tests.

Only the arguments that are passed are listed, with the types that the wheel's schemas give them. `SymInt[]` is the
point of the whole table: such lengths are host lists, read by the op's tiling before anything runs on the device.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from simtool.errors import DeviceError

#: The version of torch_npu that the table was read from.
READ_FROM = "2.13.0"


@dataclass(frozen=True)
class NpuOp:
    """One op. arguments: name -> type in the schema. limits: what the wheel's own documentation of it allows."""

    name: str
    use: str
    arguments: Mapping[str, str]
    returns: int
    limits: str

    @property
    def qualified(self) -> str:
        """The name that `torch.library` knows it by."""
        return f"npu::{self.name}"


OPS: tuple[NpuOp, ...] = (
    NpuOp(
        "npu_fused_infer_attention_score",
        "attention of validate rows (one query each) and of draft blocks (all their rows, no mask)",
        {
            "query": "Tensor",
            "key": "Tensor",
            "value": "Tensor",
            "actual_seq_lengths": "SymInt[]?",
            "actual_seq_lengths_kv": "SymInt[]?",
            "block_table": "Tensor?",
            "num_heads": "int",
            "scale": "float",
            "input_layout": "str",
            "num_key_value_heads": "int",
            "sparse_mode": "int",
            "block_size": "int",
        },
        2,
        "float16 or bfloat16; contiguous; block_table int32 [B, M]; pages [blocks, block_size, kv_heads x head_dim]; "
        "head_dim a multiple of 16; block_size a multiple of 16 up to 512 for one query, of 128 for more; TND takes "
        "the ends of the sequences as actual_seq_lengths",
    ),
    NpuOp(
        "npu_scatter_pa_kv_cache",
        "new keys and values into their pages",
        {
            "key": "Tensor",
            "value": "Tensor",
            "key_cache": "Tensor",
            "value_cache": "Tensor",
            "slot_mapping": "Tensor",
            "cache_mode": "str?",
        },
        0,
        "contiguous; cache_mode 'Norm' for [blocks, block_size, heads, head_dim]; no index twice in slot_mapping",
    ),
    NpuOp(
        "npu_rms_norm",
        "RMSNorm",
        {"input": "Tensor", "gamma": "Tensor", "epsilon": "float"},
        2,
        "float16, bfloat16 or float32, gamma of the same dtype",
    ),
    NpuOp(
        "npu_rotary_mul",
        "rotary embedding by halves",
        {"input": "Tensor", "r1": "Tensor", "r2": "Tensor", "rotary_mode": "str"},
        1,
        "4 dimensions; BSND with r1 and r2 [1, S, 1, D]; fewer than 1000 heads; D below 896 and even",
    ),
)

NAMES = tuple(op.name for op in OPS)


def load_ops() -> None:
    """Import torch_npu, which registers the ops; raises DeviceError saying what is missing."""
    if importlib.util.find_spec("torch_npu") is None:
        raise DeviceError("torch_npu is not installed; pip install 'simtool[npu]' on a host with CANN")
    try:
        importlib.import_module("torch_npu")
    except (ImportError, OSError) as error:
        raise DeviceError(f"torch_npu cannot be imported ({error}); source CANN's set_env.sh first") from error
    missing = [name for name in NAMES if not has(name)]
    if "npu_fused_infer_attention_score" in missing:
        raise DeviceError(f"this torch_npu has no {missing[0]}; install torch_npu {READ_FROM}")


def has(name: str) -> bool:
    """Whether the op is registered."""
    return hasattr(torch.ops.npu, name)


def op(name: str) -> Any:
    """Return a registered op, for a call."""
    return getattr(torch.ops.npu, name)
