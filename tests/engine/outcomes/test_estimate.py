"""What a pass will take is counted from the models: held here against what torch itself counts and keeps."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from simtool.engine.devices.open import torch_device
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.models.experts import Experts, ExpertSizes
from simtool.engine.outcomes.complete import complete_outcomes
from simtool.engine.outcomes.estimate import FillEstimate, estimate, products, speed
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.errors import DeviceError, UsageError
from simtool.step.placement import BUILT_IN
from tests.engine import golden
from tests.engine.across_steps.test_ahead_live import record
from tests.engine.small_runs import runner


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
def test_the_multiply_adds_are_those_that_torch_counts(name):
    spec = golden.spec(name)
    target = load_target(spec.target, torch.float32)
    draft = load_draft(spec.draft, target, torch.float32)
    drafts = draft.config.trained_drafts
    lengths = [(9, 40), (5, 80)]
    counted = FlopCounterMode(display=False)
    with counted:
        for prompt, output in lengths:
            ids = [i % 5 for i in range(prompt + output)]
            TeacherForcedPass(target, draft, drafts).outcomes(ids[:prompt], ids[prompt:])
    of_weights = ("aten.mm", "aten.addmm")  # what attention does is no product with a weight
    matrix = sum(n for op, n in counted.get_flop_counts()["Global"].items() if str(op) in of_weights)
    estimated = estimate(target, draft, drafts, lengths, per_s=1.0)
    assert estimated.seconds == pytest.approx(matrix / 2, rel=0.25)
    assert (estimated.requests, estimated.anchors) == (2, 120)


def test_of_experts_only_those_that_a_row_visits_count():
    mixed = Experts(16, ExpertSizes(experts=6, per_token=2, intermediate=24, normed=True))
    assert products(mixed) == 6 * 16 + 2 * 3 * 16 * 24


def test_weights_are_counted_as_they_lie():
    models = runner(golden.spec("dspark_b7"))
    target, draft = models._target, models._draft
    held = {each.data_ptr(): each.numel() * 4 for model in (target, draft) for each in model.parameters()}
    found = estimate(target, draft, 7, [(9, 40)], per_s=1e9)
    assert found.model_bytes >= sum(held.values())
    longer = estimate(target, draft, 7, [(9, 40), (9, 200)], per_s=1e9)
    assert longer.peak_bytes > found.peak_bytes == estimate(target, draft, 7, [(9, 40), (2, 3)], per_s=1e9).peak_bytes


def test_it_is_said_in_a_sentence():
    text = str(FillEstimate(requests=3, anchors=70, seconds=0.2, model_bytes=5 << 20, peak_bytes=3 << 30))
    assert text == (
        "3 requests, 70 positions to draft from: about 1 s or longer, 5 MiB of weights and up to 3.0 GiB beside them"
    )
    assert "about 2 min or longer" in str(FillEstimate(3, 70, 120.0, 1, 1))


def test_a_products_speed_is_of_its_weight():
    assert speed(torch.ones(8, 16)) > 0


def test_where_it_can_run():
    assert torch_device("cpu") == "cpu"
    if not torch.accelerator.is_available():
        assert torch_device("auto") == "cpu"
        with pytest.raises(DeviceError, match="'cuda' is not there"):
            torch_device("cuda")
    with pytest.raises(UsageError, match="unknown device 'tpu'"):
        torch_device("tpu")


def test_it_is_told_before_the_pass(tmp_path):
    spec = golden.spec("dspark_b7")
    record(tmp_path / "live", BUILT_IN["static"])
    said = []
    report = complete_outcomes(tmp_path / "live", spec.target, spec.draft, device="cpu", say=said.append)
    assert said[0].startswith("7 requests, ")
    assert said[0].endswith("on cpu")
    assert report.filled == report.anchors
