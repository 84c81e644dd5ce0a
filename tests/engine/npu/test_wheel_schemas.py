"""The ops as the engine calls them against the ops as this wheel declares them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from simtool.engine.runner.npu.ops import OPS, READ_FROM, NpuOp

RECORDED = Path(__file__).with_name("schemas.txt")
EACH_OP = pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)


def schema(op: NpuOp) -> str:
    return str(getattr(torch.ops.npu, op.name).default._schema)


def declared(schema: str) -> dict[str, tuple[str, bool]]:
    """Argument name -> its type as the schema writes it, and whether a call must give it."""
    texts = schema[schema.index("(") + 1 : schema.rindex(") ->")].split(", ")
    arguments = {}
    for text in texts:
        if text != "*":
            kind, _, name = text.partition("=")[0].rpartition(" ")
            arguments[name] = (kind.partition("(")[0], "=" not in text)
    return arguments


def test_the_wheel_is_the_one_that_the_table_was_read_from(wheel):
    assert wheel.__version__.split("+")[0].split(".post")[0] == READ_FROM


@EACH_OP
def test_every_argument_that_is_passed_exists_with_its_type(wheel, op):
    arguments = declared(schema(op))
    assert {name: arguments[name][0] for name in op.arguments} == op.arguments
    assert {name for name, (_, needed) in arguments.items() if needed} <= set(op.arguments)
    assert len(getattr(torch.ops.npu, op.name).default._schema.returns) == op.returns


@EACH_OP
def test_the_whole_schema_is_as_recorded(wheel, op):
    """Any change of the wheel shows here first, whether or not the engine passes what changed."""
    recorded = {line.partition("(")[0]: line for line in RECORDED.read_text().splitlines()}
    assert schema(op) == recorded[op.qualified]


def test_lengths_of_fused_attention_are_host_lists_and_those_of_the_older_op_a_tensor(wheel):
    fused = declared(str(torch.ops.npu.npu_fused_infer_attention_score.default._schema))
    assert fused["actual_seq_lengths"][0] == fused["actual_seq_lengths_kv"][0] == "SymInt[]?"
    wheel._npu_paged_attention  # noqa: B018  the ATB ops are registered on first use
    assert declared(str(torch.ops.atb._npu_paged_attention.default._schema))["context_lens"][0] == "Tensor"


def test_there_is_no_device(wheel):
    """Whatever passes in this lane has not run on an NPU."""
    assert not getattr(torch, "npu").is_available()  # noqa: B009  the wheel adds it


def test_the_graph_interface_takes_new_lengths_by_the_name_that_the_engine_uses(wheel):
    from torch_npu.npu._npugraph_handlers.npugraph_handler import _NPU_GRAPH_OP_HANDLERS  # noqa: PLC0415

    handler = _NPU_GRAPH_OP_HANDLERS["npu_fused_infer_attention_score.default"]
    names = {name for entries in handler.UPDATE_SPECS.values() for *_, name in entries}
    assert "actual_seq_lengths_kv" in names
    assert callable(wheel.npu.NPUGraph.update)
