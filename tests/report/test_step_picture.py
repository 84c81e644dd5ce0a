"""The picture of a step: well-formed, every piece of work drawn where it ran, nothing beyond its edge."""

from xml.etree import ElementTree

import pytest

from simtool.analysis.comparison.arms import gather_arms
from simtool.report.figures.like_steps import like_steps
from simtool.report.figures.step_picture import step_picture
from simtool.report.figures.timeline import step_timeline

_SVG = "{http://www.w3.org/2000/svg}"


def test_every_bar_is_drawn_to_scale_inside_the_picture(traces):
    arms = gather_arms(traces)
    (choice, *_) = like_steps(arms, 1)
    steps = [step for arm in arms if (step := step_timeline(arm, choice[arm.label]))]
    root = ElementTree.fromstring(step_picture(steps, "a step <of> each"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert root.findtext(f"{_SVG}title") == "a step <of> each"
    bars = [rect for rect in root.iter(f"{_SVG}rect") if rect.find(f"{_SVG}title") is not None]
    assert len(bars) == sum(len(step.bars) for step in steps)
    for rect in bars:
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width
        assert float(rect.attrib["y"]) + float(rect.attrib["height"]) <= height
    drawn = {float(rect.attrib["width"]) for rect in bars}
    scale = max(drawn) / max(bar.length_ms for step in steps for bar in step.bars)
    long = [bar.length_ms * scale for step in steps for bar in step.bars if bar.length_ms * scale > 5]
    assert all(any(each == pytest.approx(width, abs=0.1) for width in drawn) for each in long)
