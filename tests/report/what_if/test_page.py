"""The page as a reader has it, in Chromium: what it says, what mouse, touch and keys do, and what it asks for."""

import re
from dataclasses import replace

import pytest

from simtool.analysis.comparison.compare import compare
from simtool.errors import PlacementError
from simtool.profile.whatif import with_changes
from simtool.report.whatif.grid import WhatIfGrid
from simtool.report.whatif.page import answer_text, what_if_page
from simtool.step.controller import LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.study.runner import Setting, arm_of, run_cells
from tests.replay.synthetic import profile_of, random_costs, random_work, source_trace, with_history
from tests.report.what_if.browser import CHROMIUM, WHY_SKIPPED
from tests.report.what_if.devtools import Tab
from tests.report.what_if.test_rule import drawn_profile

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=WHY_SKIPPED)
HOSTILE = "<img src=x onerror=document.title='broken'></script><script>document.title='broken'</script>"
PLACEMENTS = [BUILT_IN[name] for name in ("static", "this-step", "lag", "lag-overlap")]


def _settings(folder, drafts, concurrencies, profile):
    source = source_trace(folder / f"source-{drafts}", random_work(3, drafts, 8, tokens=30))
    return [Setting(source, profile, each, seeds=(0, 1, 2)) for each in concurrencies]


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """Two SLs at two and three concurrencies; what a trace's device says of itself is hostile."""
    folder = tmp_path_factory.mktemp("what-if")
    noisy = drawn_profile(3)
    costs = noisy.each_cost(lambda cost: replace(cost, refits=cost.refits * 3))
    profile = replace(costs, device_name=HOSTILE, predictor=LinearPredictor(0.5, 0.25, 0.001))
    return [_settings(folder, 7, (1, 2, 4), profile), _settings(folder, 3, (2, 4), profile)]


@pytest.fixture(scope="module")
def page(settings, tmp_path_factory):
    grids = [WhatIfGrid(each, PLACEMENTS, ("simtool", "sweep", "a trace")) for each in settings]
    made = what_if_page(grids, "lag-overlap", command=f"simtool what-if {HOSTILE}")
    path = tmp_path_factory.mktemp("page") / "page.html"
    made.write(path)
    return path, made


@pytest.fixture(scope="module")
def tab(page, tmp_path_factory):
    path, _ = page
    with Tab(path, tmp_path_factory.mktemp("browser")) as opened:
        yield opened
        assert opened.complaints == []


@pytest.fixture(autouse=True)
def _put_back(tab):
    tab.run("choose({ ...MODEL.start, factors: {}, orders: {}, step: null }); start()")
    tab.settled()


def said(setting, name, changes=()):
    """What the studies say of a placement at these costs."""
    changed = replace(setting, profile=with_changes(setting.profile, changes))
    base, other = run_cells([(changed, BUILT_IN["static"]), (changed, BUILT_IN[name])])
    found = compare(arm_of(base), arm_of(other))
    return answer_text(name, setting.concurrency, setting.source.manifest.sl, found)


def slide(tab, place, value):
    tab.run(f"(each => {{ each.value = {value}; each.dispatchEvent(new Event('input')); }})({place})")
    tab.settled()


def test_it_opens_with_the_answer_and_asks_for_nothing(page, tab, settings):
    path, made = page
    assert tab.text("answer") == made.answer == said(settings[0][-1], "lag-overlap")
    assert set(tab.requests) <= {path.as_uri(), "data:,"}
    assert path.stat().st_size < 2_000_000


def test_every_stop_says_what_a_study_says(tab, settings):
    for sl, of_sl in enumerate(settings):
        slide(tab, "$$('sl')", sl)
        for stop, setting in enumerate(of_sl):
            slide(tab, "$$('concurrency')", stop)
            for name in ("this-step", "lag", "lag-overlap"):
                tab.run(f"choose({{ placement: '{name}' }})")
                tab.settled()
                assert tab.text("answer") == said(setting, name)


def test_a_slider_is_what_set_is(tab, settings):
    for cost in ("host.decide", "device.target"):
        slide(tab, f"document.querySelector('[data-cost=\"{cost}\"] input')", 13)
    expected = said(settings[0][-1], "lag-overlap", ["host.decide=x2", "device.target=x2"])
    assert tab.text("answer") == expected.replace("lag-overlap at", "lag-overlap with your changes at")
    assert tab.text("change").startswith("Your changes: ")
    assert "--set host.decide=x2 --set device.target=x2" in tab.text("command")
    tab.run("$$('reset').click()")
    tab.settled()
    assert tab.text("answer") == said(settings[0][-1], "lag-overlap")


def places(tab, first, second):
    """The handle of the op at one place, and the far end of the op at another, on the screen."""
    script = f"""(() => {{
        const [first, second] = [{first}, {second}].map(at => document.querySelectorAll('#order li')[at]);
        first.scrollIntoView({{ block: 'center' }});
        const handle = first.querySelector('.handle').getBoundingClientRect(), box = second.getBoundingClientRect();
        return [[handle.x + handle.width / 2, handle.y + handle.height / 2], [box.right - 2, box.bottom - 2]];
    }})()"""
    return [tuple(point) for point in tab.run(script)]


def order(tab):
    return tab.run("orderOf(chosen.placement).map(slot => slot.name)")


def at(name):
    return [str(slot) for slot in BUILT_IN["lag-overlap"].order].index(name)


def refusal(name, before):
    """What the placement's check says where one slot goes before another."""
    slots = list(BUILT_IN["lag-overlap"].order)
    slot = slots.pop(at(name))
    slots.insert(next(i for i, each in enumerate(slots) if str(each) == before), slot)
    with pytest.raises(PlacementError) as found:
        replace(BUILT_IN["lag-overlap"], order=tuple(slots))
    return str(found.value)


def test_an_op_is_moved_by_keys(tab):
    was = order(tab)
    tab.run(f"document.querySelectorAll('#order li')[{at('decide')}].focus()")
    tab.press("Enter", "ArrowRight", "Enter")
    moved = order(tab)
    assert moved != was
    assert moved[at("decide") + 1] == "decide"
    assert "mine.toml" in tab.text("command")
    assert "with your changes" in tab.text("answer")


def test_an_illegal_place_is_refused_in_the_words_of_the_check(tab):
    was = order(tab)
    tab.run(f"document.querySelectorAll('#order li')[{at('decide')}].focus()")
    tab.press("Enter", "ArrowLeft", "Enter")
    assert order(tab) == was
    assert tab.text("refused") == refusal("decide", before="read_states")
    tab.press("Enter", "ArrowLeft", "Escape")
    assert order(tab) == was
    assert tab.text("refused") == ""


def test_an_op_is_moved_by_mouse(tab):
    tab.mouse(*places(tab, at("decide"), at("build_query")))
    assert order(tab).index("decide") == at("decide") + 1
    assert tab.run("document.querySelector('#order .other') !== null")


def test_an_illegal_drop_by_mouse_is_refused(tab):
    was = order(tab)
    tab.mouse(*places(tab, at("build_query"), at("launch_target")))
    assert order(tab) == was
    assert "needs query_batch: 'build_query' gives it, but only later" in tab.text("refused")


def test_the_times_drawn_are_those_of_the_step(tab):
    length = tab.run("reckon().step.span.end - reckon().step.span.start")
    assert tab.run("reckon().step.path.reduce((sum, part) => sum + part.end - part.start, 0)") == length
    assert tab.run("document.querySelectorAll('#scroll rect').length") > 20


def test_a_phone_moves_ops_by_touch_and_nothing_sticks_out(page, tmp_path):
    path, _ = page
    with Tab(path, tmp_path, width=390, height=844) as phone:
        assert phone.run("document.documentElement.scrollWidth - innerWidth") == 0
        phone.touch(*places(phone, at("decide"), at("build_query")))
        assert order(phone).index("decide") == at("decide") + 1
        assert phone.complaints == []


def test_hostile_names_stay_text(page, tab):
    path, _ = page
    assert tab.run("document.title") != "broken"
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert HOSTILE in tab.text("facts")
    assert len(re.findall("</script>", path.read_text())) == 2


def test_costs_without_noise_keep_the_interval_of_the_replays(tmp_path):
    profile = profile_of(with_history(random_costs(5), 5))
    source = source_trace(tmp_path / "source", random_work(3, 7, 12, tokens=60))
    setting = Setting(source, replace(profile, predictor=LinearPredictor(0.5, 0.25, 0.001)), 2)
    grid = WhatIfGrid([setting], PLACEMENTS)
    made = what_if_page([grid], "lag", command="simtool what-if")
    path = tmp_path / "page.html"
    made.write(path)
    with Tab(path, tmp_path) as opened:
        assert opened.text("answer") == made.answer == said(setting, "lag")
