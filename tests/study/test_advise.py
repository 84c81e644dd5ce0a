"""One screen of advice: what to do, what it rests on, what matters more, what would turn it."""

import dataclasses
import json
from pathlib import Path

import pytest

from simtool.analysis.comparison.comparison import Comparison, Over
from simtool.analysis.comparison.headline import HEADLINE
from simtool.analysis.comparison.judged import known_live
from simtool.cli.main import run
from simtool.profile.storage import load_profile, save_profile
from simtool.profile.whatif import with_change
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.report.terminal.advice import when_told
from simtool.report.terminal.decision import Evidence, decide, headline
from simtool.stats.interval import Interval
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, resolve_placement
from simtool.study.advice import Advice, Change, Lever
from simtool.study.runner import Setting
from simtool.trace.trace import open_trace, replace_table
from tests.replay.synthetic import Line, constant_costs, profile_of, random_work, save_as_live, source_trace

SHIPPED = Path(__file__).parents[2]
#: A validate row costs a tenth of the whole forward: pruning pays where drafts are refused, and a decision is cheap.
PREDICTOR = LinearPredictor(0.02, 0.004, 0.0)


def profile(row_ns, decide_ns=1_000):
    costs = constant_costs(pre=1_000, duration=5_000, host_decide=decide_ns)
    duration = dict(costs.duration)
    duration["decode", "target"] = Line(20_000, {"validate_rows": row_ns})
    return dataclasses.replace(profile_of(dataclasses.replace(costs, duration=duration)), predictor=PREDICTOR)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("advise")
    source = source_trace(folder / "source", random_work(4, 6, 96, tokens=60), 4)
    whole = replay(source, profile(4_000), Scenario(BUILT_IN["static"], 4, ControllerSettings(PREDICTOR)))
    save_as_live(whole, folder / "static")
    for name, costs in {"rows": profile(4_000), "free-rows": profile(0, 60_000)}.items():
        save_profile(costs, folder / f"{name}.json")
    return folder


def advice(recorded, capsys, name, *options):
    capsys.readouterr()
    arguments = [str(recorded / "static"), "--profile", str(recorded / f"{name}.json"), "--jobs", "1", *options]
    status = run(["advise", *arguments])
    return status, capsys.readouterr().out


def test_where_rows_cost_pruning_is_turned_on(recorded, capsys):
    status, said = advice(recorded, capsys, "rows")
    assert status == 0
    first = said.splitlines()[0]
    assert first.startswith("Use ")
    assert "more tokens/s than static" in first
    assert "modeled" in first
    assert "replays of static (live): 96 prompts at concurrency 4, dspark, SL 6" in said
    assert "simtool validate --policy static --policy " in said


def test_where_only_deciding_costs_it_is_left_off(recorded, capsys):
    status, said = advice(recorded, capsys, "free-rows")
    assert status == 0
    assert said.startswith("Leave it off: static is fastest. The closest, ")


def test_the_document_says_where_the_answer_turns(recorded, capsys):
    _, said = advice(recorded, capsys, "rows", "--json")
    found = json.loads(said)
    assert found["schema"] == "simtool.advise/1"
    turn = next(each for each in found["turns"] if each["axis"] == "decide")
    assert turn["value"] is not None
    assert turn["leads"] == "static"
    today = {each["axis"]: each["today"] for each in found["turns"]}
    assert (today["decide"], today["draft"]) == (1_000, 5_000)  # as the steps of the replay have it
    cost = f"host.decide={turn['value'] * 1.1:.0f}ns"
    names = ["--policy", "static", "--policy", found["modeled"][0]["other"]]
    best = max(found["modeled"], key=lambda each: each["ratio"])["other"]
    names = ["--policy", "static", "--policy", best]
    arguments = [str(recorded / "static"), "--profile", str(recorded / "rows.json"), "--set", cost, *names, "--json"]
    assert run(["replay", *arguments]) == 0
    static, other = json.loads(capsys.readouterr().out)["runs"]
    assert other["steady_tokens_per_s"] < static["steady_tokens_per_s"]


def test_live_runs_decide_where_they_were_repeated(recorded, capsys, tmp_path):
    """Two live arms, three repetitions each, static ahead: that is the verdict, whatever the replays say."""
    source = source_trace(tmp_path / "source", random_work(4, 6, 24, tokens=30), 4)
    paths = []
    for name, row_ns in (("static", 1_000), ("lag-overlap", 9_000)):
        for repeat in range(3):
            costs = profile(row_ns + 10 * repeat)
            scenario = Scenario(BUILT_IN[name], 4, ControllerSettings(PREDICTOR))
            paths.append(str(save_as_live(replay(source, costs, scenario), tmp_path / f"{name}-{repeat}").path))
    capsys.readouterr()
    status = run(["advise", *paths, "--profile", str(recorded / "rows.json"), "--jobs", "1"])
    said = capsys.readouterr().out
    assert ", live)" in said.splitlines()[0]
    assert "3 live runs of each: " in said
    assert status in (0, 1)


def test_bad_use_is_one_line(recorded, capsys):
    static = str(recorded / "static")
    for options, message in (
        (["--policy", "static"], "name another placement"),
        (["--seeds", "2"], "needs 3 or more"),
        ([static], "is given twice"),
    ):
        assert run(["advise", static, *options]) == 2
        assert message in capsys.readouterr().err


def test_an_answer_that_turns_on_the_predictor_is_none(recorded, capsys, tmp_path):
    """The profile's predictor prunes and pays; the recorded one, for which rows are dearer, prunes all."""
    source = source_trace(tmp_path / "source", random_work(4, 6, 96, tokens=60), 4)
    dear = ControllerSettings(LinearPredictor(1e-6, 1e3, 0.0))
    save_as_live(replay(source, profile(4_000), Scenario(BUILT_IN["static"], 4, dear)), tmp_path / "static")
    costs = ["--profile", str(recorded / "rows.json"), "--jobs", "1"]
    assert run(["advise", str(tmp_path / "static"), *costs, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["use"] is None
    assert max(each["ratio"] for each in found["modeled"]) > 1.05
    assert max(each["ratio"] for each in found["with_recorded_predictor"]) < 1.0
    assert run(["advise", str(tmp_path / "static"), *costs]) == 1
    assert capsys.readouterr().out.startswith("Cannot tell, it turns on what the controller takes a verify to cost ")


def test_without_outcomes_live_runs_still_answer(recorded, capsys, tmp_path):
    """Nothing can be replayed from the anchors that a run visited, and the live verdict stands."""
    source = source_trace(tmp_path / "source", random_work(4, 6, 24, tokens=30), 4)
    paths = []
    for name, row_ns in (("static", 1_000), ("lag-overlap", 9_000)):
        for repeat in range(3):
            scenario = Scenario(BUILT_IN[name], 4, ControllerSettings(PREDICTOR))
            trace = save_as_live(replay(source, profile(row_ns + 10 * repeat), scenario), tmp_path / f"{name}-{repeat}")
            few = trace.table("outcomes").head(1)
            paths.append(str(replace_table(trace, "outcomes", few).path))
    capsys.readouterr()
    run(["advise", *paths, "--profile", str(recorded / "rows.json"), "--jobs", "1"])
    said = capsys.readouterr()
    assert ", live)" in said.out.splitlines()[0]
    assert "nothing was replayed, so what else is worth doing is not said" in said.err


def compared(other, ratio, repetitions=1, over=Over.DRAWS):
    found = Interval.around(ratio, 0.001, "as given")
    return Comparison(
        metric=HEADLINE, baseline="static", other=other, found=found, repetitions=repetitions, needed=None,
        drifts=over is Over.RUNS or over is Over.STEPS, over=over,
    )  # fmt: skip


def advised(ratio, recorded=()):
    candidate = compared("this-step", ratio)
    return Advice("static", (candidate,), candidate, (), (), as_recorded=tuple(recorded))


def test_live_leads_and_a_replay_that_agrees_stands_second():
    live = compared("this-step", 0.96, 5, Over.RUNS)
    found = decide(advised(0.95), Evidence([live]))
    assert (found.kind, found.told, found.use, found.disagree) == ("live", True, None, False)
    assert headline(found, "static") == (
        "Leave it off: static is fastest. The closest, this-step, gives 4.0 % fewer tokens/s (95 % interval "
        f"{live.interval}, live); modeled -5.0 %."
    )


@pytest.mark.parametrize(("live", "modeled", "use"), [(0.96, 1.05, None), (1.05, 0.96, "this-step")])
def test_a_replay_that_contradicts_live_runs_is_said_in_the_same_sentence(live, modeled, use):
    found = decide(advised(modeled), Evidence([compared("this-step", live, 5, Over.RUNS)], where="docs/fidelity.md"))
    assert (found.use, found.told, found.disagree) == (use, True, True)
    change = f"{(modeled - 1) * 100:+.1f} %"
    assert f"live, docs/fidelity.md); replays say otherwise, this-step {change} (modeled)" in headline(found, "static")


def test_both_predictors_of_a_replay_stand_beside_a_live_figure():
    found = decide(advised(1.05, [compared("this-step", 0.99)]), Evidence([compared("this-step", 0.96, 5, Over.RUNS)]))
    said = headline(found, "static")
    assert "this-step +5.0 % by the profile's predictor and -1.0 % by the recorded one (modeled)" in said


@pytest.mark.parametrize(("modeled", "once"), [(1.05, 0.96), (0.95, 1.04)])
def test_one_live_run_of_each_that_points_the_other_way_leaves_it_untold(modeled, once):
    against = compared("this-step", once, 1, Over.STEPS)
    found = decide(advised(modeled), Evidence(once=[against]))
    assert (found.told, found.use, found.disagree) == (False, None, True)
    said = headline(found, "static")
    assert said.startswith("Cannot tell: modeled, this-step gives ")
    assert f"live, by one run of each, this-step gives {abs(once - 1) * 100:.1f} %" in said


def test_one_live_run_of_each_that_agrees_stands_second():
    found = decide(advised(0.95), Evidence(once=[compared("this-step", 0.96, 1, Over.STEPS)]))
    assert (found.kind, found.told) == ("modeled", True)
    assert "modeled); live, by one run of each, -4.0 %." in headline(found, "static")


def test_what_was_judged_live_of_the_pair_that_ships_is_found():
    source = open_trace(SHIPPED / "traces" / "sl16-lag")
    costs = load_profile(SHIPPED / "models" / "profiles" / "measured-sl16.json")
    timed = ControllerOptions().settings(source, costs)
    names = ["this-step", "lag"]
    arms = [BUILT_IN[name] for name in names]
    known = known_live(source, costs, 8, timed, arms)
    assert known is not None
    assert [each.other for each in known.comparisons] == names
    assert all((each.repetitions, each.over) == (5, "runs") for each in known.comparisons)
    elsewhere = dataclasses.replace(costs, device_name="another machine")
    told = dataclasses.replace(timed, draft_ms=1.0)
    untimed = dataclasses.replace(timed, predictor=None)
    assert known_live(source, elsewhere, 8, untimed, arms) is None
    assert known_live(source, costs, 64, timed, arms) is None
    assert known_live(source, costs, 8, told, arms) is None
    assert known_live(source, with_change(costs, "decide=0"), 8, timed, arms) is None
    reordered = dataclasses.replace(BUILT_IN["lag"], order=BUILT_IN["this-step"].order, lag_steps=0)
    assert known_live(source, costs, 8, timed, [reordered]) is None


def test_live_controllers_that_were_told_costs_count_where_the_replay_is_told_the_same():
    """Whatever the machine: the verdict names it, and is not left to two predictors that disagree."""
    source = open_trace(SHIPPED / "traces" / "sl7-lag")
    costs = load_profile(SHIPPED / "models" / "profiles" / "measured-sl7.json")
    forecast = resolve_placement("lag-overlap-late@forecast")
    told = ControllerOptions().settings(source, costs)
    known = known_live(source, costs, 32, told, [BUILT_IN["this-step"], forecast])
    assert (known.setting.page, known.setting.told.costs_of) == ("docs/policies.md", costs.name)
    assert known.elsewhere == known.setting.device_name != costs.device_name
    assert known.comparisons[1].resolved
    recorded = ControllerOptions("trace").settings(source, costs)
    for other in (recorded, dataclasses.replace(told, predictor=None), dataclasses.replace(told, draft_ms=1.0)):
        assert known_live(source, costs, 32, other, [forecast]) is None
    assert known_live(source, costs, 32, dataclasses.replace(told, draft_ms=7.0), [BUILT_IN["this-step"]]).setting.told
    for arms in (["this-step"], ["this-step", "lag", "lag-overlap"]):  # known of both: the profile's own machine
        assert known_live(source, costs, 32, told, [BUILT_IN[name] for name in arms]).setting.told is None


def test_live_figures_of_another_machine_say_so():
    live = compared("this-step", 1.05, 5, Over.RUNS)
    found = decide(advised(0.95), Evidence([live], where="docs/policies.md", elsewhere="a third machine"))
    assert found.use == "this-step"
    assert "live on another machine, a third machine, docs/policies.md)" in headline(found, "static")


def test_traces_of_two_settings_are_refused_by_what_differs(capsys):
    traces = [str(SHIPPED / "traces" / name) for name in ("sl7-lag", "sl16-lag")]
    assert run(["advise", *traces]) == 2
    assert "the traces differ in SL: 7 in sl7-lag, 16 in sl16-lag; give those of one setting" in capsys.readouterr().err


@pytest.mark.parametrize(("plain", "told", "gain"), [(0.9, 1.2, "8.0 %"), (0.9, 1.05, None), (1.05, 1.2, None)])
def test_a_placement_that_leads_once_its_controller_knows_the_draft_is_named(plain, told, gain):
    """0.9 x 1.2 = 1.08 of static; 0.9 x 1.05 is still behind; one that leads as it is needs no other sentence."""
    change = Change(Lever.DRAFT_MS, "this-step", compared("changed", told), draft_ms=13.04)
    candidate = compared("this-step", plain)
    found = Advice("static", (candidate,), candidate, (change,), ())
    at = Setting(open_trace(SHIPPED / "traces" / "sl7-lag"), profile(4_000), 32)
    said = when_told(found, decide(found, Evidence()), at)
    if gain is None:
        assert said == ""
    else:
        assert said.startswith(f"But told what a draft costs (--draft-ms 13), this-step would give about {gain} more")
        assert said.endswith("simtool validate --sl 7 --concurrency 32 --draft-ms 13.")
