"""What a step may and may not do: the freshness gate, the bonus row, the cuts, and who is let in."""

from __future__ import annotations

import pytest
import torch

from simtool.analysis.metrics import summarise_trace
from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.runner.sampling import verify_greedy
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import CapacityError, UsageError
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.trace.trace import open_trace
from tests.engine import golden
from tests.engine.small_runs import (
    DECIDING,
    PLACEMENTS,
    full,
    ragged,
    random_prompts,
    reference,
    requests,
    runner,
    serve,
    zero,
)

NAME, N = "dspark_b7", 7
SPEC = golden.spec(NAME, slots=4, dtype="float64")
PROMPTS = random_prompts(8, [6, 11, 3, 16, 9, 5])
#: A row costs so much that nothing is ever worth offering, or so little that all of it is.
DEAR = ControllerSettings(LinearPredictor(0.0, 1000.0, 0.0))
FREE = ControllerSettings(LinearPredictor(1.0, 0.0, 0.0))
LAGGED = [name for name in DECIDING if PLACEMENTS[name].lag_steps]


def by_request(kept):
    """Per request id, its decode steps in order as (step, place in the batch)."""
    visits: dict[str, list] = {}
    for s in kept.decodes:
        for i, sequence in enumerate(s.sequences):
            visits.setdefault(sequence.request.request_id, []).append((s, i))
    return visits


@pytest.mark.parametrize("placement", LAGGED)
def test_freshness_gate(placement):
    """One slot, six requests, the last two alike: the first `lag` steps of each are full width, later ones are not.

    The confidence that a later decision reads is this request's own, `lag` steps old.
    """
    lag = PLACEMENTS[placement].lag_steps
    prompts = [*PROMPTS[:4], PROMPTS[0], PROMPTS[0]]
    _, kept = serve(SPEC, requests(prompts, 12), PLACEMENTS[placement], controller=DEAR, concurrency=1)
    visits = by_request(kept)
    assert len(visits) == 6
    assert {sequence.slot for s in kept.steps for sequence in s.sequences} == {0}
    for steps in visits.values():
        for k, (s, i) in enumerate(steps):
            assert s.prefix_lens[i] == (N if k < lag else 0)
            if k < lag:
                assert s.confidence[i] is None
            else:
                before, j = steps[k - lag]
                assert s.confidence[i] == before.observed["confidence"][j].tolist()


def test_a_batch_mixes_fresh_and_stale_rows():
    """A newcomer is verified at full width beside old hands that are not."""
    _, kept = serve(SPEC, requests(PROMPTS, [4, 14, 14, 14, 14, 14]), PLACEMENTS["lag"], controller=DEAR)
    mixed = [s for s in kept.decodes if set(s.prefix_lens) == {0, N}]
    assert mixed
    for s in mixed:
        assert [values is None for values in s.confidence] == [prefix == N for prefix in s.prefix_lens]


@pytest.mark.parametrize("placement", DECIDING)
def test_prefix_zero_still_verifies_its_bonus_row(placement):
    _, kept = serve(SPEC, requests(PROMPTS, 9), PLACEMENTS[placement], prefixes=zero)
    for s in kept.decodes:
        assert s.cu_rows[-1] == len(s.sequences)
        assert s.accepted == [0] * len(s.sequences)
        assert [len(emitted) for emitted in s.emitted] == [1] * len(s.sequences)


@pytest.mark.parametrize("placement", ["this-step", "lag-overlap", "lag-overlap-index"])
def test_exactly_the_offered_part_of_the_match_run_is_accepted(placement):
    _, kept = serve(SPEC, requests(PROMPTS, 12), PLACEMENTS[placement], prefixes=ragged(4))
    cut_short = 0
    for s in kept.decodes:
        for i, sequence in enumerate(s.sequences):
            prompt = tuple(PROMPTS[int(sequence.request.request_id[1:])])
            place = s.positions[i] + 1 - len(prompt)
            drafts = s.observed["draft_tokens"][i].tolist()
            own = reference(NAME, prompt, 12 + N + 1)[place : place + N]
            match_run = [*(a == b for a, b in zip(drafts, own, strict=True)), False].index(False)
            assert s.accepted[i] == min(s.prefix_lens[i], match_run)
            cut_short += s.prefix_lens[i] < match_run
    assert cut_short, "no prune ever cut a match run: the test shows nothing"


def test_padding_is_never_accepted():
    """Everything agrees with everything, and still only what was offered counts."""
    logits = torch.nn.functional.one_hot(torch.zeros(7, dtype=torch.int64), 4).float()  # rows of widths 1, 2, 4
    verdict = verify_greedy(logits, torch.tensor([0, 1, 3, 7]), torch.zeros(3, 3, dtype=torch.int64))
    assert verdict.accepted.tolist() == [0, 1, 3]


def trace_of(path, placement, controller, prompts=PROMPTS, tokens=12):
    device = TimedDevice(runner(SPEC), same_durations(1_000))
    Session(device, SPEC).record(path, RunPlan(requests(prompts, tokens), PLACEMENTS[placement], controller))
    return open_trace(path)


def test_metrics_count_offered_drafts_only(tmp_path):
    rows = trace_of(tmp_path / "some", "this-step", ControllerSettings(LinearPredictor(1.0, 0.1, 0.0))).table("rows")
    summary = summarise_trace(open_trace(tmp_path / "some"))
    assert 0 < rows["prefix_len"].sum() < N * len(rows)
    assert summary.acceptance_rate == rows["accepted"].sum() / rows["prefix_len"].sum()
    nothing = summarise_trace(trace_of(tmp_path / "none", "this-step", DEAR))
    assert (nothing.offered, nothing.accepted, nothing.acceptance_rate) == (0, 0, None)
    assert nothing.acceptance_length == 1


def test_a_stop_token_inside_an_accepted_block_cuts_it():
    """Find a block of which some drafts were accepted, and make its first emitted token a stop token."""
    _, kept = serve(SPEC, requests(PROMPTS, 30), BUILT_IN["static"])
    stops = {}
    for s in kept.decodes:
        for sequence, emitted in zip(s.sequences, s.emitted, strict=True):
            name = sequence.request.request_id
            output = reference(NAME, PROMPTS[int(name[1:])], 30)
            place = s.positions[s.sequences.index(sequence)] + 1 - len(PROMPTS[int(name[1:])])
            if len(emitted) > 1 and emitted[0] not in output[:place]:
                stops.setdefault(name, (emitted[0], place))
    assert stops, "no accepted block to cut"
    for name, (token, place) in stops.items():
        prompt = PROMPTS[int(name[1:])]
        result, kept = serve(SPEC, requests([prompt], 30), BUILT_IN["static"], stop=frozenset({token}))
        facts = result.requests["r00"]
        assert facts.output_ids == reference(NAME, prompt, 30)[: place + 1]
        assert facts.finish_reason == "stop"
        assert len(kept.steps[-1].emitted[0]) == 1 <= kept.steps[-1].accepted[0]


def test_a_stop_token_from_the_prefill_ends_the_request():
    first = reference(NAME, PROMPTS[0], 1)[0]
    result, kept = serve(SPEC, requests(PROMPTS[:1], 9), BUILT_IN["lag"], stop=frozenset({first}))
    assert result.requests["r00"].output_ids == [first]
    assert result.requests["r00"].finish_reason == "stop"
    assert kept.decodes == []


@pytest.mark.parametrize("placement", ["static", "lag-overlap"])
def test_max_new_tokens_is_honoured_exactly(placement):
    """One to twelve tokens, blocks overshooting or not; a request of one never decodes."""
    prompts = PROMPTS * 2
    result, kept = serve(SPEC, requests(prompts, range(1, 13)), PLACEMENTS[placement], prefixes=full)
    for count, prompt, facts in zip(range(1, 13), prompts, result.requests.values(), strict=True):
        assert facts.output_ids == reference(NAME, prompt, 12)[:count]
        assert facts.finish_reason == "length"
    assert "r00" not in by_request(kept)


@pytest.mark.parametrize(
    ("prompt", "tokens", "kv_blocks", "error", "message"),
    [
        (100, 60, 400, CapacityError, "r01: 100 prompt"),  # 160 positions and the drafts ahead do not fit 160
        (40, 20, 10, CapacityError, r"r01: 40 prompt \+ 20 new tokens need 17 KV blocks and the cache has 10"),
        (0, 5, 400, UsageError, "r01: 0 prompt, 5 new tokens; both must be >= 1"),
        (5, 0, 400, UsageError, "r01: 5 prompt, 0 new tokens; both must be >= 1"),
    ],
)
def test_what_can_never_fit_is_refused_before_anything_starts(tmp_path, prompt, tokens, kv_blocks, error, message):
    spec = golden.spec(NAME, slots=4, dtype="float64", kv_blocks=kv_blocks)
    device = TimedDevice(runner(spec), same_durations(1_000))
    plan = RunPlan(requests([PROMPTS[2], (1,) * prompt], [3, tokens]), BUILT_IN["static"])
    with pytest.raises(error, match=message):
        Session(device, spec).record(tmp_path / "bundle", plan)
    assert list(tmp_path.iterdir()) == []
    assert device.timings() == []


def test_token_ids_that_the_target_does_not_know_are_refused_before_anything_starts(tmp_path):
    device = TimedDevice(runner(SPEC), same_durations(1_000))
    with pytest.raises(UsageError, match=r"r00: token id 8 outside 0..7"):
        Session(device, SPEC).record(tmp_path / "bundle", RunPlan(requests([(1, 8)], 3), BUILT_IN["static"]))
    assert list(tmp_path.iterdir()) == []


def test_admission_waits_for_kv_blocks_and_nothing_is_corrupted():
    """Four slots but blocks for two: never more than two run, and every token is right."""
    one = -(-(16 + 12 + N + 1) // SPEC.block_size)
    result, kept = serve(SPEC, requests(PROMPTS, 12), PLACEMENTS["lag"], prefixes=ragged(6), kv_blocks=2 * one)
    assert list(result.output_ids.values()) == [reference(NAME, prompt, 12) for prompt in PROMPTS]
    assert max(len(s.sequences) for s in kept.decodes) in (2, 3)  # three short ones fit where two long ones do
    for s in kept.decodes:
        held = [block for sequence in s.sequences for block in sequence.blocks]
        assert len(held) == len(set(held)), "two requests hold one block"
