"""What to optimise, in words: the biggest lever first, whatever its kind, and how to try it on."""

import pytest

from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.headline import HEADLINE
from simtool.report.terminal.levers import Kind, answer, bars_table, levers
from simtool.stats.interval import Interval
from simtool.study.draft_told import DraftTold
from simtool.study.sensitivity import OpSensitivity, Sensitivity

TARGET = OpSensitivity("target", "device", 500.0, 500.0, 250.0, tenth_ns=50.0, stream="compute")
DECIDE = OpSensitivity("decide", "host", 20.0, 20.0, 10.0, tenth_ns=2.0, stream="host")
IDLE = OpSensitivity("finish", "host", 1.0, 0.0, 0.0, tenth_ns=0.0, stream="host")


def over(baseline, ratio, half=None):
    return Comparison(
        metric=HEADLINE, baseline=baseline, other="this-step, told", repetitions=8, needed=None, drifts=False,
        found=Interval(ratio) if half is None else Interval.around(ratio, half, "as given"), over=Over.DRAWS,
    )  # fmt: skip


def told(ratio, asked="static", live=None):
    """Over static as given, and a tenth more than untold."""
    over_static, over_untold = over("static", ratio), over("this-step", 1.1)
    worth = over_static if asked == "static" else over_untold
    return DraftTold("this-step", 13.24, worth, over_untold, over_static, live)


def found(*bars, draft=None, placement="static"):
    return Sensitivity(placement, 8, 1_000.0, bars, draft)


def test_a_tenth_less_of_the_longest_work_is_the_first_lever():
    whole = found(TARGET, DECIDE, IDLE)
    (first, second) = levers(whole)
    assert (first.kind, first.name, first.options) == (
        Kind.SHORTER,
        "target",
        "--policy static --set device.target=x0.9",
    )
    assert first.gain == pytest.approx(1 / 0.95 - 1)
    assert second.on_host
    lines = answer(whole, "modeled", " (the fastest here)")
    assert lines[0] == (
        "modeled: shorten target (compute): 10 % less of it gives +5.3 % tokens/s under static (the fastest here), "
        "concurrency 8"
    )
    assert lines[1].startswith("  how: fewer rows")
    assert lines[2] == "  then: decide +0.2 %"


@pytest.mark.parametrize(("placement", "how"), [("static", ", and turn this-step on"), ("this-step", "")])
def test_the_controller_told_comes_first_where_it_gains_most(placement, how):
    whole = found(TARGET, draft=told(1.2, placement), placement=placement)
    assert levers(whole)[0].options == "--policy this-step --draft-ms 13.2"
    gain = "+20.0 %" if placement == "static" else "+10.0 %"
    first, second = answer(whole, "m", "")[:2]
    assert f"tell the controller what a draft costs{how}, which gives {gain} tokens/s under {placement}" in first
    assert second.endswith(": +20.0 % over static; +10.0 % over this-step untold (means of 8 draws)")


def test_on_a_live_difference_the_told_gain_is_what_advise_says():
    """0.8 live x 1.1 told: behind static, though replays alone have it ahead."""
    whole = found(TARGET, DECIDE, draft=told(1.2, live=over("static", 0.8)))
    assert Kind.TOLD not in [each.kind for each in levers(whole)]
    said = "-12.0 % over static, modeled on the live -20.0 %; +10.0 % over this-step untold (means of 8 draws)"
    assert answer(whole, "m", "")[-1].endswith(said)


def test_a_controller_told_in_vain_is_said_last_with_its_loss():
    whole = found(TARGET, DECIDE, draft=told(0.96))
    assert Kind.TOLD not in [each.kind for each in levers(whole)]
    last = answer(whole, "modeled", "")[-1]
    assert last == (
        "  this-step told what a draft costs (--policy this-step --draft-ms 13.2): -4.0 % over static; "
        "+10.0 % over this-step untold (means of 8 draws)"
    )


def test_what_gives_nothing_is_no_lever_and_no_row():
    assert answer(found(IDLE), "modeled", "") == ["modeled: nothing is worth a thing under static, concurrency 8"]
    table, left_out = bars_table(found(TARGET, IDLE), verbose=False)
    assert [row[0] for row in table.rows] == ["target"]
    assert table.rows[0][3:6] == ("+5.3 %", "+33.3 %", "+100.0 %")
    assert left_out == 1
    assert bars_table(found(TARGET, IDLE), verbose=True)[1] == 0
