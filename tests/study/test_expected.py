"""What replays will take is counted before any has run: their steps, times what a step takes on either simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from simtool.cli.main import run
from simtool.cli.shared import console
from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.serving.rounds import record_rounds
from simtool.engine.serving.session import RunPlan, Session
from simtool.progress import Expected
from simtool.replay.profiling.expected import CountedReplays
from simtool.replay.profiling.expected import expect as expect_replays
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.study.runner import Setting
from simtool.study.settings import expect
from tests.engine import golden
from tests.engine.small_runs import random_prompts, requests, runner
from tests.reliability.hostile.inputs import add_all_outcomes
from tests.replay.synthetic import constant_costs, profile_of, random_work, source_trace
from tests.synthetic import make_trace

_PROFILE = profile_of(constant_costs(pre=1_000, duration=5_000))


@pytest.mark.parametrize("concurrency", [1, 2, 8])
def test_the_steps_are_about_those_of_a_replay(concurrency: int, tmp_path: Path) -> None:
    source = source_trace(tmp_path / "source", random_work(5, 4, 40, tokens=30))
    steps = replay(source, _PROFILE, Scenario(BUILT_IN["static"], concurrency)).tables["steps"].height
    told = expect_replays([CountedReplays(source, concurrency, 1, 1, "simpy")]).basis
    counted = float(told.split("some ")[1].split(" steps")[0].replace(",", ""))
    assert counted == pytest.approx(steps, rel=0.4)


def test_it_grows_as_the_work_does(tmp_path: Path) -> None:
    source = source_trace(tmp_path / "source", random_work(5, 4, 40, tokens=30))
    one = Setting(source, _PROFILE, 2, seeds=(0,), simulator="simpy")
    alone = expect([(one, 1)], 1)
    assert alone.basis.startswith("1 replays of some ")
    assert expect([(one, 6)], 2).seconds == pytest.approx(3 * alone.seconds)
    four = replace(one, seeds=(0, 1, 2, 3))
    assert expect([(four, 1), (one, 1)], 1).seconds == pytest.approx(5 * alone.seconds)
    compiled = replace(four, simulator="compiled")
    assert expect([(compiled, 1)], 8).seconds == expect([(compiled, 1)], 1).seconds < alone.seconds
    served = expect_replays([CountedReplays(source, 2, 1, 1, "simpy", served=[30] * 4_000)]).seconds
    assert served > 50 * alone.seconds


class _BegunError(Exception):
    """The work is about to begin."""


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "run", "--seeds", "4", "--out", "s.csv"),
        ("search", "run", "--lag", "none"),
        ("tornado", "run"),
        ("break-even", "run"),
        ("why", "run"),
        ("what-if", "run", "--out", "w.html"),
        ("advise", "run"),
        ("replay", "run", "--policy", "all"),
        ("answers", "run", "--out", "a.md", "--profiles", "p", "--concurrency", "1,2", "--waves", "1"),
    ],
    ids=lambda command: command[0],
)
def test_every_study_knows_before_its_first_replay(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    add_all_outcomes(make_trace(tmp_path / "run", "lag", requests=5, new_tokens=24))
    told: list[Expected | None] = []

    def progress(description: str, total: int, expected: Expected | None = None) -> None:
        told.append(expected)
        raise _BegunError

    monkeypatch.setattr(console, "progress", progress)
    with pytest.raises(_BegunError):
        run(list(command))
    (known,) = told
    assert known is not None
    assert known.seconds > 0
    assert "replays of some" in known.basis


def test_a_recording_knows_after_its_warm_up_and_before_its_first_step(tmp_path: Path) -> None:
    spec = golden.spec("dspark_b7", slots=4)
    session = Session(TimedDevice(runner(spec), same_durations(1_000)), spec)
    prompts = requests(random_prompts(8, [5, 9, 7, 6]), 8)
    plans = {tmp_path / name: RunPlan(prompts, BUILT_IN[name]) for name in ("static", "lag")}

    def progress(description: str, total: int, expected: Expected | None = None) -> None:
        assert expected is not None
        assert expected.basis == "up to 192 tokens, at the pace of the warm-up"
        raise _BegunError

    with pytest.raises(_BegunError):
        record_rounds(session, plans, 3, command="test", progress=progress)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("repeats", "paces", "seconds"), [(1, [0.5], 4.0), (3, [0.5, 1.0], 72.0)])
def test_what_a_recording_takes_is_tokens_over_slots(repeats: int, paces: Sequence[float], seconds: float) -> None:
    spec = golden.spec("dspark_b7", slots=4)
    session = Session(TimedDevice(runner(spec), same_durations(1_000)), spec)
    plan = RunPlan(requests(random_prompts(8, [5, 9, 7, 6]), 8), BUILT_IN["static"])
    assert session.expected([(plan, pace) for pace in paces], repeats).seconds == pytest.approx(seconds)
