"""Each policy on small cases whose answer is worked out by hand, from the published pseudo-code."""

from __future__ import annotations

import numpy as np
import pytest

from simtool.step.controller import ControllerSettings, LinearPredictor, decide
from simtool.step.policies.bandit import WidthBandit
from simtool.step.policies.dspark_production import DsparkProduction
from simtool.step.policies.dspark_strict import DsparkStrict
from simtool.step.policies.fixed_budget import FixedBudget
from simtool.step.policies.oracle import KnowsMatchRuns
from simtool.step.policies.sglang_relay import SglangRelay
from simtool.step.policies.threshold import ConfidenceThreshold
from simtool.step.policies.vllm_adaptive import VllmAdaptive
from simtool.step.policies.vllm_ascend import VllmAscend
from simtool.step.policies.xllm import XllmController
from simtool.step.step_table import StepTable
from tests.step.policies.views import conditional, line, view

#: A decreasing chance of reaching each of seven drafts, and a batch of sixteen such sequences.
FALLING = [0.7, 0.5, 0.3, 0.2, 0.1, 0.06, 0.03]
SIXTEEN = [conditional(FALLING)] * 16
#: 16 rows take 10 ms, up to 32 take 11, up to 64 take 12, up to 128 take 16.
STAIRS, STAIR_ROWS = StepTable((16,), (0.0,), (16, 32, 64, 128), (10.0, 11.0, 12.0, 16.0)), (16, 32, 64, 128)
#: The same as a table without graphs: it jumps behind each stair.
JUMPS = StepTable((16,), (0.0,), (16, 17, 32, 33, 64, 65, 128), (10.0, 11.0, 11.0, 12.0, 12.0, 16.0, 16.0))


def test_the_appendix_of_the_paper_by_strict_stop_and_by_search():
    """SPS is 1, 0.5, 0.45; c1 is 0.8; c2 is 0.9 after one draft and 0 after the other.

    Rates: 1 without drafts, 1.8 x 0.5 = 0.9 with one, 2.52 x 0.45 = 1.134 or 1.8 x 0.45 = 0.81 with two.
    """
    table = StepTable((1,), (0.0,), (1, 2, 3), (1.0, 2.0, 1 / 0.45))
    for second, found in ((0.9, [2]), (0.0, [0])):
        step = view({0: [[0.8, second]]}, table=table)
        assert DsparkStrict().start().decide(step) == [0]
        assert DsparkProduction(budget_age=0).start().decide(step) == found


def test_on_a_staircase_a_strict_stop_takes_nothing_and_a_search_three_a_sequence():
    """One more row costs a stair: (16 + 0.7) / 11 < 16 / 10. The rate is highest at 64 rows: (16 + 16 x 1.5) / 12."""
    step = view({0: SIXTEEN, 1: SIXTEEN, 2: SIXTEEN}, table=JUMPS)
    strict = DsparkStrict().start()
    assert strict.decide(step) == [0] * 16
    assert strict.counters["nothing_admitted_steps"] == 1
    assert DsparkProduction().start().decide(step) == [3] * 16
    assert (
        VllmAdaptive().start().decide(view({0: SIXTEEN, 1: SIXTEEN}, table=STAIRS, graph_rows=STAIR_ROWS)) == [3] * 16
    )


def test_the_budget_is_old_and_its_split_is_new():
    """Two steps ago drafts were worth two rows (0.9, 0.81; then 0.73 x 1 row < the rate); now the other sequence is."""
    old, now = [[0.9, 0.9, 0.1], [0.1, 0.1, 0.1]], [[0.2, 0.2, 0.2], [0.9, 0.8, 0.7]]
    step = view({0: now, 2: old, 1: now}, table=line(1.0, base_ms=1.0))
    assert DsparkProduction().start().decide(step) == [0, 2]
    assert DsparkProduction(split_age=2).start().decide(view({2: old}, table=line(1.0, base_ms=1.0))) == [2, 0]
    assert VllmAdaptive(budget_age=2).start().decide(step) == [0, 2]


def test_equal_drafts_are_taken_by_position_and_then_by_sequence():
    assert FixedBudget(share=0.5).start().decide(view({0: [[0.5, 1.0], [0.5, 1.0], [0.5, 1.0]]})) == [1, 1, 1]
    assert FixedBudget(share=0.7).start().decide(view({0: [[0.5, 1.0], [0.5, 1.0], [0.5, 1.0]]})) == [2, 1, 1]


def relay(policy: SglangRelay, *steps):
    """The last decision of a run, and its decider."""
    decider = policy.start()
    for step in steps[:-1]:
        decider.learn(step, decider.decide(step), [0] * step.batch)
    return decider.decide(steps[-1]), decider


def test_the_relay_verifies_all_until_its_ring_is_two_steps_deep():
    early, later = view({0: SIXTEEN, 2: [None] * 16}, drafts=7), view({0: SIXTEEN, 2: SIXTEEN}, table=line(1.0))
    decided, decider = relay(SglangRelay(table="additive"), early, early)
    assert decided == [7] * 16
    assert decider.counters["not_ready_steps"] == 2
    decided, decider = relay(SglangRelay(table="additive"), early, early, later)
    assert decided == [0] * 16  # every row takes as long as a token that is sure, and none is
    assert decider.counters == {"not_ready_steps": 2, "stale_rows": 0, "verify_all_steps": 0, "tier_drafts": 0}


def test_the_relay_takes_another_generations_row_for_sure():
    """Two sure drafts are in the budget for the stale row; this step's survival says who gets them."""
    step = view({0: [[0.9, 0.9], [0.1, 0.1]], 2: [[0.1, 0.1], None]}, table=line(1.0, base_ms=1.0))
    decided, decider = relay(SglangRelay(table="additive"), step, step, step)
    assert decided == [2, 0]
    assert decider.counters["stale_rows"] == 1


def test_the_relays_floor_lookup_ends_budgets_at_the_end_of_a_plateau():
    """Rows are priced at the last probe at or below them: 8 to 15 rows alike, so 15 of 16 are taken."""
    step = view({0: [[0.9] * 7] * 2, 2: [[0.9] * 7] * 2}, table=StepTable((2,), (0.0,), (8, 16), (1.0, 4.0)))
    assert sum(relay(SglangRelay(), step, step, step)[0]) == 13
    assert sum(relay(SglangRelay(probe_rows=5), step, step, step)[0]) == 7  # plateaus of 5: up to 9 rows cost 5's
    assert sum(relay(SglangRelay(table="additive"), step, step, step)[0]) == 6


def test_the_relay_verifies_all_where_the_gain_is_too_small():
    """9.6 % more than verifying all is enough for 5 % and not for 10 %."""
    sure = [[1.0, 0.2]]
    step = view({0: sure, 2: sure}, table=line(1.0, base_ms=1.0))
    best, whole = 2 / 3, 2.2 / 4
    assert best / whole == pytest.approx(1.212, abs=0.001)
    assert relay(SglangRelay(table="additive", min_predicted_gain=0.2), step, step, step)[0] == [1]
    decided, decider = relay(SglangRelay(table="additive", min_predicted_gain=0.22), step, step, step)
    assert decided == [2]
    assert decider.counters["verify_all_steps"] == 1


def test_the_relay_fills_the_tier_that_is_padded_anyway():
    rows = [[1.0, 1.0, 0.01, 0.01], [1.0, 0.01, 0.01, 0.01]]
    step = view({0: rows, 2: rows}, table=line(1.0, base_ms=1.0), graph_rows=(4, 8))
    plain = SglangRelay(table="additive")
    assert sum(relay(plain, step, step, step)[0]) == 3
    decided, decider = relay(SglangRelay(table="additive", align_to_tier=True), step, step, step)
    assert sum(decided) == 6
    assert decider.counters["tier_drafts"] == 3


def test_vllms_table_rises_is_padded_up_and_goes_on_in_a_line():
    table = StepTable((2, 4), (1.0, 2.0), (4, 8, 16), (3.0, 2.0, 4.0))
    rows = [2, 4, 5, 8, 12, 16, 24]
    found = table.staircase_ms(3, np.array(rows), (4, 8))
    assert found.tolist() == pytest.approx([4.5, 4.5, 4.5, 4.5, 5.0, 5.5, 6.5])


def test_vllm_takes_a_new_row_for_sure():
    step = view({0: [[0.2, 0.2], [0.9, 0.9]], 1: [[0.1, 0.1], None]}, table=line(1.0, base_ms=1.0))
    decider = VllmAdaptive().start()
    assert decider.decide(step) == [0, 2]
    assert decider.counters["new_rows"] == 1


def test_ascend_counts_every_few_steps_and_makes_the_budget_odd():
    """Counts of survival >= 0.3 are 3 and 1: a mean of 2, which is raised to 3; then 2 x 3 drafts are shared out."""
    rows = [conditional([0.9, 0.8, 0.4, 0.2, 0.1]), conditional([0.5, 0.25, 0.1, 0.05, 0.01])]
    step = view({0: rows})
    decider = VllmAscend(update_every=2, initial=5).start()
    assert decider.decide(step) == [5, 5]
    assert decider.decide(step) == [4, 2]  # one each, then 0.8, 0.4, 0.25, 0.2
    assert decider.counters == {"initial_budget_steps": 1, "recounts": 1, "cold_rows": 0}
    even = VllmAscend(update_every=1, odd=False).start()
    assert even.decide(step) == [3, 1]


def test_a_threshold_ends_a_prefix_at_the_first_doubt():
    step = view({0: [[0.9, 0.8, 0.6, 0.9], [0.7, 0.69, 1.0, 1.0]]})
    assert ConfidenceThreshold().start().decide(step) == [2, 1]
    assert ConfidenceThreshold(least=0.0).start().decide(step) == [4, 4]
    late = ConfidenceThreshold(age=1).start()
    assert late.decide(view({1: [None, [0.9, 0.1, 0.9, 0.9]]})) == [4, 1]
    assert late.counters["full_width_rows"] == 1


def test_a_bandit_tries_every_width_and_keeps_to_the_best():
    """All drafts match up to the second; a row takes a tenth of a step: width 3 brings most."""
    bandit = WidthBandit(exploration=0.0)
    assert bandit.arms(7) == [0, 1, 3, 7]
    assert WidthBandit(widths="2-9-0").arms(7) == [0, 2, 7]
    decider, step = bandit.start(), view({}, drafts=7, batch=2, table=line(0.1, base_ms=1.0))
    tried = []
    for _ in range(9):
        widths = decider.decide(step)
        tried.append(widths[0])
        decider.learn(step, widths, [min(width, 3) for width in widths])
    assert tried == [7, 3, 1, 0, 3, 3, 3, 3, 3]
    assert decider.counters["explored_steps"] == 4


def test_the_oracle_offers_what_matches_as_far_as_it_pays():
    cheap, dear = line(0.1, base_ms=1.0), line(1.0)
    assert KnowsMatchRuns().start().decide(view({}, drafts=3, match_runs=[3, 0, 1], table=cheap)) == [3, 0, 1]
    assert KnowsMatchRuns().start().decide(view({}, drafts=3, match_runs=[3, 0, 1], table=dear)) == [0, 0, 0]


def test_xllms_controller_is_one_of_them():
    settings = ControllerSettings(LinearPredictor(1.0, 0.3, 0.001), draft_ms=0.5)
    rows = [[0.9, 0.8, 0.2], None, [0.5, 0.4, 0.9]]
    decider = XllmController().start()
    assert decider.decide(view({1: rows}, settings=settings)) == decide(rows, [10] * 3, 3, settings)
    assert decider.counters["full_width_rows"] == 1


def test_without_a_predictor_every_search_takes_all():
    step = view({age: [[0.5, 0.5]] for age in range(3)}, settings=ControllerSettings())
    for policy in (DsparkProduction(), VllmAdaptive(), DsparkStrict()):
        assert policy.start().decide(step) == [2]


def test_the_predictor_stands_in_for_a_table():
    """1 ms, and 0.2 ms a row of 10 keys: drafts pay while their survival is above 0.2 x the rate."""
    settings = ControllerSettings(LinearPredictor(1.0, 0.1, 0.01), draft_ms=1.0)
    step = view({0: [[0.9, 0.9, 0.05]], 1: [[0.9, 0.9, 0.05]]}, settings=settings)
    assert VllmAdaptive().start().decide(step) == [2]
