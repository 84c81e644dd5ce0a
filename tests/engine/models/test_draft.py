from pathlib import Path

import pytest
import torch

from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.models.draft import DraftModel
from simtool.engine.outcomes.reference import BlockAttend, DenseSequence

GOLDEN = Path(__file__).parents[2] / "data" / "golden"


def pair(name: str, dtype: torch.dtype = torch.float32):
    target = load_target(GOLDEN / name / "target", dtype)
    return target, load_draft(GOLDEN / name / "draft", target, dtype)


def test_block_rows_of_both_families() -> None:
    _, dspark = pair("dspark_b7")
    _, dflash = pair("dflash_b16")
    assert dspark.config.block_rows(7) == 7
    assert dflash.config.block_rows(7) == 8
    tokens, positions = dflash.block(torch.tensor([1, 2]), torch.tensor([10, 20]), 2)
    assert tokens.tolist() == [1, 4, 4, 2, 4, 4]
    assert positions.tolist() == [10, 11, 12, 20, 21, 22]
    hidden = torch.arange(6.0)[:, None]
    assert dflash.predicting(hidden, 2)[..., 0].tolist() == [[1, 2], [4, 5]]
    assert dspark.predicting(hidden, 3)[..., 0].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_context_rows_do_not_depend_on_each_other() -> None:
    _, draft = pair("dspark_b7")
    features, positions = torch.randn(5, 192), torch.arange(3, 8)
    whole = draft.project_context(features, positions)
    parts = [draft.project_context(features[i : i + 1], positions[i : i + 1]) for i in range(5)]
    for layer, (keys, values) in enumerate(whole):
        assert keys.shape == values.shape == (5, 2, 16)
        assert torch.allclose(keys, torch.cat([p[layer][0] for p in parts]), atol=1e-5)
        assert torch.allclose(values, torch.cat([p[layer][1] for p in parts]), atol=1e-5)


@pytest.mark.parametrize("name", ["dspark_b7", "nomarkov_b7", "dflash_b16"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_every_format_runs_in_every_dtype(name: str, dtype: torch.dtype) -> None:
    target, draft = pair(name, dtype)
    context = DenseSequence()
    _, features = target(torch.tensor([0, 1, 2]), torch.arange(3), DenseSequence(), draft.config.tap_ids)
    for layer, (keys, values) in enumerate(draft.project_context(features, torch.arange(3))):
        context.append(layer, keys, values)
    anchors = torch.tensor([1])
    hidden = draft.predicting(draft(*draft.block(anchors, torch.tensor([3]), 4), BlockAttend(context)), 4)
    block = draft.draft(hidden, anchors)
    confidence = draft.confidence(hidden, block)
    assert block.tokens.shape == confidence.shape == (1, 4)
    assert block.logits.dtype == dtype
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert (draft.confidence_logits(hidden, block) is None) == (name != "dspark_b7")


def test_borrowed_modules_are_not_the_drafters_own() -> None:
    target, draft = pair("dflash_b16")
    assert not any("embed" in name or "lm_head" in name for name, _ in draft.named_parameters())
    hidden = torch.randn(2, 64)
    assert torch.equal(draft.logits(hidden), target.logits(hidden))
    with pytest.raises(ValueError, match="target="):
        DraftModel(draft.config).logits(hidden)
