"""A mismatch between live and replay is shown with its logits gap: a tie, or a fault of logic.

One small real recording, filled and replayed; then one thing is changed in a copy of it.
"""

from __future__ import annotations

import polars as pl
import pytest

from simtool.analysis.comparison.arms import differences
from simtool.analysis.divergence import first_divergence
from simtool.engine.devices.virtual import TimedDevice, VirtualClock, same_durations
from simtool.engine.outcomes.teacher_forced import TeacherForcedPass
from simtool.engine.runner.runner import load_runner
from simtool.engine.serving.session import RunPlan, Session
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.trace.outcome_coverage import OutcomeCoverage, add_outcomes, requests_without_outcomes
from simtool.trace.schema import TABLES
from simtool.trace.trace import open_trace, write_trace
from tests.engine import golden
from tests.engine.small_runs import random_prompts, requests
from tests.replay.synthetic import constant_costs, profile_of

NAME = "dspark_b7"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    spec = golden.spec(NAME, slots=2)
    runner = load_runner(spec)
    device = TimedDevice(runner, same_durations(1_000), VirtualClock(tick_ns=7), one_executor=True)
    path = tmp_path_factory.mktemp("parting") / "static-0"
    Session(device, spec).record(path, RunPlan(requests(random_prompts(8, [5, 9, 4]), 12), BUILT_IN["static"]))
    trace, teacher_forced = open_trace(path), TeacherForcedPass(runner._target, runner._draft, 7)
    return add_outcomes(trace, {name: teacher_forced.outcomes(*ids) for name, *ids in requests_without_outcomes(trace)})


@pytest.fixture(scope="module")
def replayed(filled):
    profile = profile_of(constant_costs(pre=10, duration=50))
    return replay(filled, profile, Scenario(BUILT_IN["static"], 2)).trace(filled.path)


def changed(trace, tmp_path, **tables):
    """A copy of a trace with some tables replaced."""
    frames = {name: tables.get(name, trace.table(name)) for name in TABLES}
    return write_trace(tmp_path / trace.path.name, trace.manifest, frames, force=True)


def miscounted(trace, tmp_path):
    """A copy whose first row that rejected a draft claims to have accepted it; and that row."""
    rows = trace.table("rows").with_row_index("at")
    row = rows.filter(pl.col("accepted") < pl.col("prefix_len")).row(0, named=True)
    more = pl.when(pl.col("at") == row["at"]).then(pl.col("accepted") + 1).otherwise(pl.col("accepted"))
    return changed(trace, tmp_path, rows=rows.with_columns(accepted=more.cast(pl.Int32)).drop("at")), row


def other_token(trace, tmp_path, place, margin=None):
    """A copy in which request r01 chose another token at a place of its output, by that margin."""
    table = trace.table("requests").to_dicts()
    r01 = next(row for row in table if row["request_id"] == "r01")
    r01["output_ids"][place] = (r01["output_ids"][place] + 1) % 8
    if margin is not None:
        r01["output_margin"][place] = margin
    frame = pl.DataFrame(table, schema=TABLES["requests"].polars_schema)
    return changed(trace, tmp_path, requests=frame), r01["prompt_tokens"] + place


def with_margin(trace, tmp_path, value):
    margins = trace.table("outcomes").with_columns(draft_margin=pl.lit(value, dtype=pl.Float32))
    return changed(trace, tmp_path, outcomes=margins)


def test_a_run_and_its_replay_do_not_part(filled, replayed):
    assert first_divergence(filled, replayed) is None


def test_a_miscounted_row_is_a_logic_fault(filled, replayed, tmp_path):
    """The target chose one token in both, and the drafter's choice was not narrow either."""
    live, row = miscounted(filled, tmp_path)
    found = str(first_divergence(live, replayed))
    where = f"{row['request_id']} at anchor {row['anchor_position']}"
    assert f"diverges from its replay in step {row['step']}: live {where}: {row['accepted'] + 1} of 7" in found
    assert f"replayed {where}: {row['accepted']} of 7 offered accepted" in found
    position = row["anchor_position"] + row["accepted"] + 1
    request = filled.table("requests").row(by_predicate=pl.col("request_id") == row["request_id"], named=True)
    gap = request["output_margin"][position - request["prompt_tokens"]]
    assert f"the target agrees at position {position} (logits gap {gap:.2g} and {gap:.2g})" in found
    assert found.endswith(": not a tie: a logic fault")


@pytest.mark.parametrize(
    ("margin", "verdict"),
    [
        (1e-6, "so the drafts differ, logits gap 1e-06: a tie within float32 rounding (6.1e-05)"),
        (1e-3, "so the drafts differ, logits gap 0.001: not a tie: a logic fault"),
        (None, "logits gap not recorded: a tie cannot be told from a logic fault without the gap and the dtype"),
    ],
)
def test_the_drafters_gap_decides_where_the_target_agrees(filled, replayed, tmp_path, margin, verdict):
    live, _ = miscounted(filled, tmp_path)
    assert str(first_divergence(live, with_margin(replayed, tmp_path / "r", margin))).endswith(verdict)


@pytest.mark.parametrize("place", [0, 5])
def test_another_token_is_judged_by_the_targets_gaps_before_rows_part(filled, replayed, tmp_path, place):
    """Rows need not differ at all; the first token comes from a prefill, which has none."""
    live, position = other_token(filled, tmp_path, place)
    found = str(first_divergence(live, replayed))
    assert f"r01 goes on with another token: logits gap at position {position}: " in found
    assert found.endswith(": not a tie: a logic fault")
    live, _ = other_token(filled, tmp_path, place, margin=1e-6)
    twin, _ = other_token(other_token(replayed, tmp_path / "x", place, margin=2e-6)[0], tmp_path / "y", place)
    assert first_divergence(live, twin) is not None
    assert "1e-06 and 2e-06: a tie within float32 rounding (6.1e-05)" in str(first_divergence(live, twin))


def test_compare_says_where_greedy_outputs_part(filled, tmp_path):
    other, position = other_token(filled, tmp_path, 3, margin=1e-6)
    (finding,) = differences([filled, other])
    assert finding.startswith("1 greedy outputs of")
    rows = filled.table("rows").filter(request_id="r01").filter(pl.col("anchor_position") < position)
    assert f"; first r01 in step {rows['step'].max()}, logits gap at position {position}: " in finding
    assert finding.endswith(": not a tie: a logic fault")  # the other run's gap is as wide as ever


def test_fill_shows_where_it_disagrees_with_the_run(filled, tmp_path):
    assert OutcomeCoverage.of(filled).first_disagreement is None
    seen = filled.table("outcomes").with_row_index("at")
    row = seen.filter((pl.col("source") == "visited") & (pl.col("match_run") < 7)).row(0, named=True)
    more = pl.when(pl.col("at") == row["at"]).then(pl.col("match_run") + 1).otherwise(pl.col("match_run"))
    report = OutcomeCoverage.of(changed(filled, tmp_path, outcomes=seen.with_columns(match_run=more).drop("at")))
    assert report.disagreeing == 1
    assert f"visited {row['match_run'] + 1}, filled {row['match_run']} drafts matched; the target" in str(report)
    assert str(report).endswith("not a tie: a logic fault")


def test_without_gaps_nothing_is_claimed(filled, replayed, tmp_path):
    """Traces from before gaps were kept, or of another engine."""

    def bare(trace, name):
        table = trace.table("requests").with_columns(
            output_margin=pl.lit(None, TABLES["requests"].polars_schema["output_margin"])
        )
        return changed(trace, tmp_path / name, requests=table)

    live, _ = other_token(bare(filled, "a"), tmp_path / "b", 5)
    found = str(first_divergence(live, bare(replayed, "c")))
    assert "not recorded and not recorded: a tie cannot be told from a logic fault" in found


@pytest.mark.parametrize(
    ("moved", "verdict"),
    [(1e-6, "a tie within float32 rounding"), (1e-2, "not a tie: a logic fault"), (0.0, "equal confidence")],
)
def test_another_decision_is_judged_by_what_it_was_made_on(filled, replayed, tmp_path, moved, verdict):
    rows = filled.table("rows").with_row_index("at")
    at = rows.filter(pl.col("prefix_len") > pl.col("accepted")).row(0, named=True)["at"]
    shorter = pl.when(pl.col("at") == at).then(pl.col("prefix_len") - 1).otherwise(pl.col("prefix_len"))
    shifted = pl.col("confidence").list.eval((pl.element() + moved).cast(pl.Float32))
    changes = rows.with_columns(prefix_len=shorter.cast(pl.Int32), confidence=shifted).drop("at")
    found = first_divergence(changed(filled, tmp_path, rows=changes), replayed)
    assert found is not None
    assert "the decision differs" in str(found)
    assert verdict in str(found)
    assert found.tie == verdict.startswith("a tie")
