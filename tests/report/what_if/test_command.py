"""`simtool what-if`: what it writes, what it says, and what it refuses."""

import json
from dataclasses import replace

import pytest

from simtool.cli.main import run
from simtool.profile.storage import save_profile
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from tests.replay.synthetic import constant_costs, profile_of, random_work, save_as_live, source_trace
from tests.report.what_if.test_rule import drawn_profile


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """Two traces of SL 7, as if live, and costs with noise and refits."""
    folder = tmp_path_factory.mktemp("given")
    controller = ControllerSettings(LinearPredictor(0.5, 0.25, 0.0))
    costs = profile_of(constant_costs(pre=1_000, duration=5_000))
    for seed, name in enumerate("ab"):
        source = source_trace(folder / f"source-{name}", random_work(seed, 7, 6, tokens=20))
        save_as_live(replay(source, costs, Scenario(BUILT_IN["lag"], 2, controller)), folder / name)
    noisy = drawn_profile(3).each_cost(lambda cost: replace(cost, refits=cost.refits * 8))
    save_profile(noisy, folder / "profile.json")
    return [str(folder / name) for name in "ab"], str(folder / "profile.json")


def test_it_writes_a_page_and_says_the_answer(given, tmp_path, capsys):
    (trace, _), profile = given
    out = tmp_path / "page.html"
    arguments = ["what-if", trace, "--profile", profile, "--out", str(out), "--concurrency", "1,2", "--policy", "lag"]
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["answer"].startswith("modeled: lag at concurrency 2 and SL 7")
    page = out.read_text()
    assert told["answer"] in page
    assert page.count("http") == page.count("http://www.w3.org/2000/svg") + page.count("http-equiv")
    assert run(arguments) == 2
    assert "already there" in capsys.readouterr().err
    assert run([*arguments, "--force"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"wrote {out}"


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (["--seeds", "2"], "an interval worth acting on needs 3 or more"),
        (["--policy", "fastest"], "unknown placement 'fastest'"),
        (["--policy", "lag-ahead"], "it launches work for the next step, which the page's step rule does not have"),
        (["--policy", "device-split"], "it splits its budget on the device, which the page's step rule does not have"),
        (["--concurrency", "99"], "so that many never run at once"),
        (["--policy", "static", "--predictor", "none"], "--predictor has no effect on static"),
    ],
)
def test_bad_use(given, tmp_path, capsys, options, fragment):
    (trace, _), profile = given
    out = tmp_path / "page.html"
    assert run(["what-if", trace, "--profile", profile, "--out", str(out), *options]) == 2
    assert fragment in capsys.readouterr().err
    assert not out.exists()


def test_one_trace_an_sl_and_one_profile_for_all_or_each(given, tmp_path, capsys):
    traces, profile = given
    out = ["--out", str(tmp_path / "page.html")]
    assert run(["what-if", *traces, "--profile", profile, *out]) == 2
    assert "2 traces are of SL 7; give one trace for each SL" in capsys.readouterr().err
    assert run(["what-if", traces[0], "--profile", profile, "--profile", profile, *out]) == 2
    assert "2 profiles for 1 traces; give one for all, or one each in their order" in capsys.readouterr().err
