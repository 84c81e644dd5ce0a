"""The Runner against the golden cases, through a device with a virtual clock: real models, real tokens."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.runner.runner import Runner, load_runner
from simtool.engine.runner.spec import RunnerSpec
from simtool.errors import CapacityError, DeviceError
from tests.engine import golden
from tests.engine.driving import Stream, decode, generate, prefill

TOKENS = 24


def device_for(spec: RunnerSpec) -> TimedDevice:
    return TimedDevice(load_runner(spec), same_durations(1_000))


def outputs(streams: list[Stream]) -> list[list[int]]:
    return [stream.output[:TOKENS] for stream in streams]


@pytest.mark.parametrize("name", golden.NAMES)
def test_golden_drafts_verdicts_and_confidence(name):
    cases = golden.cases(name)[:4]
    device = device_for(golden.spec(name))
    streams = golden.streams([case["prompt"] for case in cases])
    head = ("confidence_logits",) if device.info.confidence_head else ()
    prefill(device, streams)
    for _ in range(12):
        decode(device, streams, more=head)
    for stream, case in zip(streams, cases, strict=True):
        for ours, theirs in zip(stream.steps, case["steps"], strict=False):
            assert (ours["start"], ours["draft_tokens"]) == (theirs["start"], theirs["draft"])
            assert ours["accepted"] == theirs["accepted"]
            if head:
                np.testing.assert_allclose(ours["confidence_logits"], theirs["confidence_logits"], atol=1e-4)
                probability = 1 / (1 + np.exp(-np.array(ours["confidence_logits"])))
                np.testing.assert_allclose(ours["confidence"], probability, atol=1e-6)
            else:
                assert ours["confidence"] == ours["draft_prob"]
        shared = min(len(stream.output), len(case["output"]))
        assert stream.output[:shared] == case["output"][:shared]


@pytest.mark.parametrize("name", golden.NAMES)
def test_ragged_prunes_and_scattered_blocks_change_no_token(name):
    cases = golden.cases(name)[:4]
    device = device_for(golden.spec(name))
    rng = random.Random(7)
    blocks = list(range(4 * golden.BLOCKS_EACH))
    rng.shuffle(blocks)
    streams = golden.streams([case["prompt"] for case in cases], blocks)
    generate(device, streams, TOKENS, lambda _, running: [rng.randint(0, device.info.drafts) for _ in running])
    assert outputs(streams) == [case["output"][:TOKENS] for case in cases]
    steps = [step for stream in streams for step in stream.steps]
    assert all(step["accepted"] <= step["prefix"] for step in steps)
    assert {0, device.info.drafts} <= {step["prefix"] for step in steps}


def _offer(prefix, _step, _running):
    return [prefix]


def test_prefix_cuts_the_match_run_and_nothing_else():
    case = golden.cases("dspark_b16")[0]
    device = device_for(golden.spec("dspark_b16", slots=1))
    for prefix in (0, 1, 2):
        (stream,) = golden.streams([case["prompt"]])
        generate(device, [stream], TOKENS, partial(_offer, prefix))
        for step in stream.steps:
            chain = case["output"][step["start"] - len(case["prompt"]) + 1 :]
            matches = [draft == token for draft, token in zip(step["draft_tokens"], chain, strict=False)]
            run = [*matches, False].index(False)
            assert step["accepted"] == min(prefix, run)
            assert step["tokens"][step["accepted"] + 1 :] == [0] * (device.info.drafts - step["accepted"])


def test_slots_and_blocks_can_be_used_again():
    cases = golden.cases("dspark_b7")[:4]
    device = device_for(golden.spec("dspark_b7"))
    first = golden.streams([case["prompt"] for case in cases])
    generate(device, first, TOKENS)
    again = golden.streams([case["prompt"] for case in reversed(cases)])
    generate(device, again, TOKENS)
    assert outputs(again) == [case["output"][:TOKENS] for case in reversed(cases)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_strangers_in_the_batch_change_no_token(dtype):
    prompt = golden.cases("dspark_b7")[0]["prompt"]
    rng = random.Random(3)
    strangers = [[rng.randrange(7) for _ in range(rng.randint(1, 50))] for _ in range(32)]
    device = device_for(golden.spec("dspark_b7", slots=33, dtype=dtype))
    together = golden.streams([prompt, *strangers])
    generate(device, together, 12, lambda _, running: [(3 * s.slot) % 8 for s in running])
    (alone,) = golden.streams([prompt])
    generate(device, [alone], 12)
    assert alone.output[:12] == together[0].output[:12]


@pytest.mark.parametrize("name", ["dspark_b7", "dflash_b16"])
@pytest.mark.parametrize("drafts", [1, 5, 20])
def test_any_block_length_emits_the_same_tokens(name, drafts):
    case = golden.cases(name)[1]
    device = device_for(golden.spec(name, slots=1, drafts=drafts))
    (stream,) = golden.streams([case["prompt"]])
    generate(device, [stream], TOKENS)
    assert stream.output[:TOKENS] == case["output"][:TOKENS]
    assert all(len(step["draft_tokens"]) == drafts for step in stream.steps)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_runs_and_reads_back_as_float32(dtype):
    device = device_for(golden.spec("dspark_b7", slots=2, dtype=dtype))
    streams = golden.streams([case["prompt"] for case in golden.cases("dspark_b7")[:2]])
    generate(device, streams, 8)
    arrays = device.download("read_tokens", 1, ("confidence", "verify_margin")).wait()
    assert all(array.dtype == np.float32 and np.isfinite(array).all() for array in arrays.values())


def test_margins_are_the_gaps_of_the_rows_that_gave_the_tokens():
    device = device_for(golden.spec("dspark_b7", slots=1))
    (stream,) = golden.streams([golden.cases("dspark_b7")[0]["prompt"]])
    prefill(device, [stream])
    decode(device, [stream], more=("verify_margin",))
    logits = device._runner._kept["logits"].sort(descending=True).values
    assert stream.steps[0]["verify_margin"] == pytest.approx((logits[:, 0] - logits[:, 1]).tolist())


@pytest.fixture(scope="module")
def runner() -> Runner:
    return load_runner(golden.spec("dspark_b7", slots=1))


def test_unknown_work_names_the_known_ones(runner):
    with pytest.raises(DeviceError, match="unknown device work 'drafft'; expected one of draft, sample"):
        runner.run("drafft")
    with pytest.raises(DeviceError, match="unknown device work 'put'"):
        runner.run("put")


def test_missing_inputs_and_outputs_are_named(runner):
    with pytest.raises(DeviceError, match="no device input 'query_slots' yet"):
        runner.run("draft")
    with pytest.raises(DeviceError, match=r"no device output 'tokens' yet \(there are: none\)"):
        runner.output("tokens")
    with pytest.raises(DeviceError, match="no device intermediate 'hidden' yet"):
        runner.run("sample")


def test_more_context_than_the_models_hold_is_refused():
    with pytest.raises(CapacityError, match="context_tokens is 513; these models hold 1 to 512"):
        load_runner(golden.spec("dspark_b7", context_tokens=513))
