"""Where a lag wins: the closed form by hand, the replayed plane at its corners, the page and its picture."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from published_runs.plane import __main__, grid, page, pairs
from published_runs.plane.picture import panel_of
from published_runs.plane.theory import Costs, judge
from published_runs.tables import PUBLISHED
from published_runs.xllm.machine import CONCURRENCY, figures_profile

from simtool.replay.synthetic.process import AcceptanceProcess
from simtool.replay.synthetic.solve import solve
from simtool.step.placement import BUILT_IN
from simtool.study.runner import Setting, run_cells

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def base():
    return figures_profile(ROOT / "models" / "profiles")


def test_one_draft_by_hand():
    """One draft whose chance is uniform, rows half of static's step, no decision cost.

    At a threshold t: 1 + (1 - t^2) / 2 tokens in 1 - t / 4 of the step, most at t = 4 (1 - sqrt(0.8125)) = 0.394.
    Decided at random the drafts bring 1 + (1 - t) / 2. Both ends are then a straight line in the correlation.
    """
    shape = solve(AcceptanceProcess(acceptance=(0.5,), sharpness=1 / 3, confidence_autocorrelation=0.0))
    free = judge(shape, 0.0, Costs(0.5, 0.0))
    assert free.static == pytest.approx(1.5)
    assert free.this_step == pytest.approx((1 + (1 - 0.394**2) / 2) / (1 - 0.394 / 4), abs=2e-3)
    assert free.lag == pytest.approx((1 + 0.606 / 2) / (1 - 0.394 / 4), abs=1e-2)
    assert free.lag_needs == 1
    assert judge(shape, 1.0, Costs(0.5, 0.0)).lag == pytest.approx(free.this_step)
    halfway = judge(shape, 0.5, Costs(0.5, 0.0)).lag
    assert halfway == pytest.approx((free.lag + free.this_step) / 2)


def test_a_dear_decision_hands_the_lag_the_rest():
    shape = solve(AcceptanceProcess(acceptance=(0.5,), sharpness=1 / 3, confidence_autocorrelation=0.0))
    needs = [judge(shape, 0.9, Costs(0.5, decision)).lag_needs for decision in (0.0, 0.02, 0.05, 0.5)]
    assert needs == sorted(needs, reverse=True)
    assert needs[-1] == 0
    assert judge(shape, 0.9, Costs(0.5, 0.05)).winner == "lag"
    assert judge(shape, 0.0, Costs(0.01, 0.5)).winner == "static"


def test_the_machine_is_as_stated(base):
    costs = Costs(0.5, 0.03)
    source = grid._source(grid.Text(3.0, 0.5), base)
    static = run_cells([(Setting(source, grid.machine(base, costs), CONCURRENCY), BUILT_IN["static"])])[0][0]
    assert static.step_ns / 1e6 == pytest.approx(40, rel=0.02)
    paid = grid.in_line(base, {each: grid.machine(base, each) for each in (Costs(0.5, 0.0), costs)})
    assert paid[costs].decision - paid[Costs(0.5, 0.0)].decision == pytest.approx(0.03, abs=0.001)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(grid, "LENGTHS", (3.0,))
    monkeypatch.setattr(grid, "AUTOCORRELATIONS", (0.0, 0.97))
    monkeypatch.setattr(grid, "ROWS", (0.5,))
    monkeypatch.setattr(grid, "DECISIONS", (0.0, 0.08))


def test_the_corners_of_the_plane(small, base):
    cells = {
        (each.text.autocorrelation, each.costs.decision): each for each in grid.replay_plane(base, lambda *_: None)
    }
    assert cells[0.0, 0.0].winner == cells[0.0, 0.0].theory.winner == "this-step"
    assert cells[0.97, 0.08].winner == cells[0.97, 0.08].theory.winner == "lag"
    for each in cells.values():
        lag, static = each.tokens_per_s["lag"], each.tokens_per_s["static"]
        assert lag / static == pytest.approx(each.theory.lag / each.theory.static, abs=0.08)


def test_the_page_and_its_picture(small, tmp_path, monkeypatch):
    """With some of the published pairs: each asks at a dozen texts what a lag needs there."""
    some = pairs.published(PUBLISHED)[::6]
    assert len({each.costs is None for each in some}) == 2, "with and without costs"
    monkeypatch.setattr(__main__, "published", lambda _folder: some)
    texts = []
    for turn in range(2):
        out = tmp_path / f"{turn}.md"
        __main__.main(["--out", str(out)])
        texts.append((out.read_text().replace(f"{turn}.svg", ""), out.with_suffix(".svg").read_text()))
    assert texts[0] == texts[1]
    assert "Where does a lag win?" in texts[0][0]
    root = ET.fromstring(texts[0][1])
    assert root.tag.endswith("svg")


def test_known_pairs():
    known = pairs.shipped(ROOT / "traces")
    assert [each.name for each in known] == ["traces/sl7-static", "traces/sl7-t0.6-c32-static", "traces/sl16-static"]
    assert known[0].accept_length == pytest.approx(3.651, abs=0.01)
    assert known[1].accept_length == pytest.approx(2.62, abs=0.05)
    assert known[1].autocorrelation == pytest.approx(0.896, abs=0.01)
    assert all(each.autocorrelation is None for each in pairs.published(PUBLISHED))
    assert page.needed(3.65, 0.0) is None
    assert page.needed(3.65, 0.03) < page.needed(3.65, 0.01)


def test_a_published_pair_stands_where_its_own_step_times_put_it():
    """By hand: 48 x 3.76 / 7476 = 24.14 ms and 64 x 3.78 / 8511 = 28.43 ms; so 11.29 ms stay, and rows are 60 %."""
    by_name = {each.name: each for each in pairs.published(PUBLISHED)}
    qwen, xllm = by_name["SGLang 35413, Qwen3-8B"], by_name["xLLM 2280, Qwen3"]
    assert qwen.costs is not None
    assert xllm.costs is not None
    assert qwen.costs.rows == pytest.approx(0.603, abs=0.002)
    assert [panel_of(qwen.costs, decision) for decision in grid.DECISIONS] == [0.5] * len(grid.DECISIONS)
    assert xllm.costs.decision == pytest.approx(63.85 / 39_700, rel=0.01)
    assert [panel_of(xllm.costs, decision) for decision in grid.DECISIONS] == [0.5, None, None, None]
    assert by_name["DSpark paper, Qwen3-8B, gsm8k"].costs is None


def test_where_rows_are_nearly_all_of_a_step_a_decision_in_line_weighs_more():
    """What is cut makes the step shorter, and the decision stays."""
    half, most = (page.needed(4.0, 0.03, rows) for rows in (0.5, 0.9))
    assert most < half
