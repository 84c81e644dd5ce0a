"""docs/pictures/step.svg: one decode step of the pull request's arms, live beside replayed (`make picture`)."""

from __future__ import annotations

from pathlib import Path

import simtool as st
from simtool.analysis.comparison.arms import gather_arms
from simtool.files.writing import write_text
from simtool.report.figures.like_steps import like_steps
from simtool.report.figures.step_picture import step_picture
from simtool.report.figures.timeline import step_timeline

ROOT = Path(__file__).parents[2]
ARMS = ("static", "this-step", "lag", "lag-overlap")


def main() -> None:
    """Draw the step of about mean length."""
    live = [st.open_trace(ROOT / "traces" / f"sl7-{name}") for name in ARMS]
    profile = st.load_profile(ROOT / "models" / "profiles" / "measured-sl7.json")
    source = live[2]  # it knows the outcome at every anchor
    options = st.ControllerOptions(predictor="trace")  # decides as the recording did
    scenarios = [st.scenario(source, profile, name, controller=options) for name in ARMS]
    replayed = [st.replay(source, profile, scenario).trace() for scenario in scenarios]
    arms = gather_arms([trace for pair in zip(live, replayed, strict=True) for trace in pair])
    (choice, *_) = like_steps(arms, 1)
    steps = [found for arm in arms if (found := step_timeline(arm, choice[arm.label])) is not None]
    title = f"Decode step {steps[0].step} of each placement, measured (live) and replayed (modeled), at batch 8, SL 7"
    write_text(Path(__file__).with_name("step.svg"), step_picture(steps, title))


if __name__ == "__main__":
    main()
