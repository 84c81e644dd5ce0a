"""Each source's prediction by hand at one setting, and made-up figures that a known cost and budget gave."""

import csv
import shutil
from pathlib import Path

import pytest
from published_runs import cost_table, others
from published_runs.tables import PUBLISHED, drift_windows, paper_lengths, rocm_rows, spreads, xllm_arms, xllm_costs
from published_runs.xllm import exposed, gains, load, machine, noise

from simtool.errors import UsageError
from simtool.units import NS_PER_MS

PROFILES = Path(__file__).parents[2] / "models" / "profiles"


def made_up(tmp_path, name, rows):
    """A copy of the published tables with one of them replaced."""
    shutil.copytree(PUBLISHED, tmp_path / "published", dirs_exist_ok=True)
    with (tmp_path / "published" / name).open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return tmp_path / "published"


def test_the_tables_agree_with_themselves():
    for _, by_position, length in drift_windows(PUBLISHED):
        assert 1 + sum(by_position) == pytest.approx(length, abs=0.006)
    assert paper_lengths(PUBLISHED)["Qwen3-8B", "dspark", "gsm8k"] == 6.17
    assert spreads(PUBLISHED)["xLLM-AI/xllm#2280"].high == 0.15
    assert (
        xllm_costs(PUBLISHED)["prune-block", 7, "lag"] - xllm_costs(PUBLISHED)["prune-block", 7, "lag-overlap"] == 588
    )
    assert len(xllm_arms(PUBLISHED)) == 12


def test_rocm_where_drafts_cost_nothing(tmp_path):
    """A step takes 10 ms with or without drafts, so no budget beats all of them, and knowing more gains nothing."""
    rows = [{"source": others.ROCM, "concurrency": 8, "none_tok_per_s": 800}]
    rows[0] |= {"fixed_tok_per_s": 8 / 10 * 1000 * 4.0, "adaptive_tok_per_s": 3200}
    row = next(others.rocm(made_up(tmp_path, "rocm-52362.csv", rows)))
    low, _ = others._rocm_bounds(rocm_rows(tmp_path / "published")[0], 4.0)
    assert low == 0
    assert row.low == 0
    assert row.verdict.value == "inside"


def test_rocm_where_rows_are_all_that_costs(tmp_path):
    """8 rows take 8 ms, 64 take 64: a row a token is best with no draft at all, 1 tok/ms against 32 tokens in 64 ms."""
    rows = [{"source": others.ROCM, "concurrency": 8, "none_tok_per_s": 1000}]
    rows[0] |= {"fixed_tok_per_s": 8 * 4.0 / 64 * 1000, "adaptive_tok_per_s": 1000}
    folder = made_up(tmp_path, "rocm-52362.csv", rows)
    assert others._rocm_bounds(rocm_rows(folder)[0], 4.0) == pytest.approx((1.0, 1.0))


def test_ascend_by_hand(tmp_path):
    """SL 1 to 3 at lengths 1.5, 1.75 and 1.875, 1 ms and 1 a row: 1.5/3, 1.75/4, 1.875/5 tokens per ms.

    Cut by position SL 3 does best at one draft or none (1/2 and 1.5/3), a third more than 1.875/5.
    """
    lengths = {1: 1.5, 2: 1.75, 3: 1.875}
    rows = [
        {
            "source": others.ASCEND,
            "sl": sl,
            "full_tok_per_s": length / (sl + 2),
            "dynamic_tok_per_s": 0.5,
            "full_accept_len": length,
            "dynamic_accept_len": length,
        }
        for sl, length in lengths.items()
    ]
    found = [each for each in others.ascend(made_up(tmp_path, "ascend-15098.csv", rows)) if "given" not in each.figure]
    assert [each.low for each in found] == pytest.approx([0, 0.5 / (1.75 / 4) - 1, 1 / 3])
    assert found[2].published == pytest.approx(1 / 3)


def test_sglang_given_its_length():
    """Qwen3-14B at 48: 34.4 ms at 384 rows, 43.7 at 512, so 0.073 ms a row; a budget can only do better than none."""
    found = [each for each in others.sglang(PUBLISHED) if each.setting == "Qwen3-14B, 48 at once"]
    assert found[0].published == pytest.approx(5313 / 4644 - 1)
    assert 0 <= found[0].low < found[0].high
    assert found[1].low < found[1].high < found[0].high


def test_the_cost_table():
    rows = cost_table.budgets(PUBLISHED, 3.57, 0.0)
    one = rows[0]
    assert one.full.ms == pytest.approx(5.35 + 0.88)  # 8 tokens and one request
    assert one.full.tokens == pytest.approx(3.57)
    assert all(each.strict.rate <= each.best.rate and each.full.rate <= each.best.rate for each in rows)
    assert (168, 176) in [each[:2] for each in cost_table.falls({168: 11.39, 176: 10.41, 184: 10.53})]


def test_what_the_static_arms_tell_of_rows():
    """A step of 1 ms and 1 a row a sequence: 8 and 17 rows take 9 and 18 ms; rows are 8/9 of the first."""
    rates = (0.5, 0.25)
    tokens = ((1 + 7 * 0.5) / 9, (1 + 16 * 0.25) / 18)
    assert machine.rows_share(tokens, rates) == pytest.approx(8 / 9)
    profile = machine.with_rows_share(machine.figures_profile(PROFILES), 0.5)
    device = profile.decode.device
    constant = device["target"].duration.intercept_ns + device["draft"].duration.predict({"block_rows": 224})
    assert device["target"].duration.predict({"validate_rows": 256}) - device["target"].duration.intercept_ns == (
        pytest.approx(constant)
    )
    assert profile.predictor.query_token_ms == pytest.approx(constant / NS_PER_MS / 256)


def test_what_noise_can_tell():
    found = {each.what: each for each in noise.resolutions(PUBLISHED)}
    assert found["run 2, SL 7: lag-overlap over lag"].difference == pytest.approx(681 / 631 - 1)
    assert found["run 2, SL 7: lag-overlap over lag"].alone == (False, False)
    assert found["run 1, SL 7: lag over static"].alone == (True, True)
    build = found["SL 7: the 588 us of the build, all exposed"]
    assert build.difference == pytest.approx(0.022 * 588 / 873 / (1 - 0.022 * 588 / 873))
    assert build.runs[0] > 200
    assert build.runs[1] is None


def test_a_load_runs_dry(monkeypatch):
    """One more request than slots: the last runs alone for as long as it has."""
    monkeypatch.setattr(load, "_SEEDS", 3)
    found = load.loads(PUBLISHED, PROFILES, 7, 40)
    assert len(found) == 3
    assert found == sorted(found, key=lambda each: each.occupancy)
    for each in found:
        assert each.at_once[0] > 30
        assert each.at_once[-1] < 8
        assert 1 < each.occupancy < machine.CONCURRENCY
        assert 0 < each.full_share < 1


def test_what_is_hidden_and_what_is_not(monkeypatch):
    """Under lag the host builds while the device drafts; a draft of half a ms hides none of the build."""
    monkeypatch.setattr(exposed, "_POWER", 1)
    monkeypatch.setattr(exposed, "_REQUESTS", 32)
    found = exposed.exposed(PUBLISHED, PROFILES / "xllm-2280-like.toml", "lag", 7)
    assert found.moved_us == pytest.approx(588, abs=1)
    assert found.exposed_us == pytest.approx(0, abs=1)
    assert len(found.drawn_us) == 2
    assert found.by_draft_us[6.0] == pytest.approx(0, abs=1)
    assert 450 < found.by_draft_us[0.5] <= 588
    assert found.overlap_gain < 0.001


def test_gains_by_hand():
    seen = {
        (1, 7): [gains.Replayed({"static": 100.0, "this-step": 110.0, "lag": 99.0}, {"this-step": 0.8, "lag": 0.7})]
    }
    found = {each.figure: each for each in gains.predictions(PUBLISHED, seen)}
    assert found["this-step over static"].low == pytest.approx(0.1)
    # 1.607 over e^(1.96 sqrt(2) 0.15) is 1.06
    assert found["this-step over static"].verdict.value == "only by the upper spread"
    assert found["lag over this-step"].high == pytest.approx(-0.1)
    assert found["acceptance rate of lag"].published == 0.78


def test_no_figures(tmp_path):
    with pytest.raises(UsageError, match="ship with a checkout"):
        list(others.rocm(tmp_path))
