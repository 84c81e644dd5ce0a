"""The decode forwards on meta tensors: shapes, dtypes and kinds of arguments, by the wheel's own rules.

The wheel brings the shape rules of its ops; no kernel runs, and no value is computed.
"""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.models.draft import DraftConfig, DraftModel
from simtool.engine.models.target import TargetConfig, TargetModel
from simtool.engine.runner.kv_cache import KVCache
from simtool.engine.runner.npu import layers as npu_layers
from simtool.engine.runner.npu.attention import NpuKernels
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.spec import NPU_LAYOUTS
from tests.engine import golden

PAGES = 6

pytestmark = pytest.mark.usefixtures("wheel")


#: As on an NPU, where the wheel asks the driver which device is current, but without asking.
DEVICE = torch.device("meta")


class Calls(TorchDispatchMode):
    """Keeps the names of the npu ops that are called, and the types of the lengths they get."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.lengths: list[object] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "npu":
            self.names.append(func.__name__.partition(".")[0])
            if "attention" in func.__name__:
                self.lengths.append((kwargs or {})["actual_seq_lengths_kv"])
        return func(*args, **(kwargs or {}))


def rows_on_device(sequences: int, width: int, pages: int) -> BatchRows:
    """Without values on the device, with them on the host, where lengths are read."""

    def empty(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.int64, device=DEVICE)

    host = torch.arange(1, sequences + 1)
    count = sequences * width
    return BatchRows(
        empty(count), empty(count), empty(count), empty(sequences, pages), empty(sequences), host[:, None], host
    )


def pages_on_device(config: TargetConfig | DraftConfig, pages: int) -> KVCache:
    return KVCache(config.layers, (pages, 128, config.kv_heads, config.head_dim), torch.bfloat16, DEVICE)


def loaded(name: str) -> tuple[TargetModel, DraftModel]:
    spec = golden.spec(name)
    target = load_target(spec.target, torch.bfloat16)
    return target, load_draft(spec.draft, target, torch.bfloat16)


@pytest.mark.parametrize("layout", NPU_LAYOUTS)
@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("rows", [1, 13])
def test_the_target_forward(name, rows, layout):
    target, draft = loaded(name)
    config = target.config
    npu_layers.fuse(target)
    target.to(DEVICE)
    batch = rows_on_device(rows, 1, PAGES)
    attend = NpuKernels(layout).rows(pages_on_device(config, PAGES), batch)
    with torch.inference_mode(), Calls() as calls:
        hidden, taps = target(batch.ids, batch.positions, attend, draft.config.tap_ids)
        logits = target.logits(hidden)
    assert (logits.shape, logits.dtype) == ((rows, config.vocab_size), torch.bfloat16)
    assert taps.shape == (rows, len(draft.config.tap_ids) * config.hidden_size)
    assert calls.names.count("npu_fused_infer_attention_score") == config.layers
    assert calls.names.count("npu_scatter_pa_kv_cache") == config.layers
    assert calls.names.count("npu_rotary_mul") == 2 * config.layers
    assert calls.names.count("npu_rms_norm") == 4 * config.layers + 1
    assert all(lengths == list(range(1, rows + 1)) for lengths in calls.lengths)


@pytest.mark.parametrize("layout", NPU_LAYOUTS)
@pytest.mark.parametrize("name", ["dspark_b7", "nomarkov_b7", "dflash_b16"])
def test_the_draft_forward(name, layout):
    target, draft = loaded(name)
    config = draft.config
    width, batch = config.block_rows(config.trained_drafts), 5
    for model in (target, draft):
        npu_layers.fuse(model)
        model.to(DEVICE)
    rows = rows_on_device(batch, width, 3)
    attend = NpuKernels(layout).sequences(pages_on_device(config, 3 * batch), rows, 384)
    with torch.inference_mode(), Calls() as calls:
        hidden = draft(rows.ids, rows.positions, attend)
        block = draft.draft(draft.predicting(hidden, config.trained_drafts), rows.ids.view(batch, width)[:, 0])
    assert block.tokens.shape == (batch, config.trained_drafts)
    assert calls.names.count("npu_fused_infer_attention_score") == config.layers
    assert all(len(lengths) == batch for lengths in calls.lengths)


def test_lengths_on_the_device_would_be_read_one_by_one():
    """Why they are host lists: a tensor is taken too, and costs a read-back of each element, which fakes refuse."""
    with FakeTensorMode():
        q = torch.empty(2, 1, 64, dtype=torch.bfloat16, device="npu:0")
        k = torch.empty(4, 128, 32, dtype=torch.bfloat16, device="npu:0")
        table = torch.empty(2, 2, dtype=torch.int32, device="npu:0")
        lengths = torch.empty(2, dtype=torch.int64, device="npu:0")
        with pytest.raises(Exception, match="_local_scalar_dense"):
            torch.ops.npu.npu_fused_infer_attention_score(
                q, k, k, actual_seq_lengths_kv=lengths, block_table=table, num_heads=4, num_key_value_heads=2,
                input_layout="BSH", block_size=128,
            )  # fmt: skip
