"""What the page says of an order that is no step, against the placement's own check: word for word."""

import json
import random
from dataclasses import replace

import pytest

from simtool.errors import PlacementError
from simtool.report.whatif.model import placement_json, step_model
from simtool.report.whatif.page import SCRIPTS, script
from tests.report.what_if.browser import CHROMIUM, WHY_SKIPPED, told_by
from tests.report.what_if.test_rule import PLACEMENTS

CASES = 600

_RUNNER = """
const told = CASES.map(({ placement, order }) => whyNot(placement, order.map(at => placement.order[at])));
const out = document.createElement("pre");
out.id = "told"; out.textContent = JSON.stringify(told);
document.body.append(out);
"""


def _drawn():
    """Placements with some of their slots moved, and what the check says of each."""
    for seed in range(CASES):
        draw = random.Random(seed)
        placement = draw.choice(PLACEMENTS)
        order = list(range(len(placement.order)))
        for _ in range(draw.choice((1, 1, 2, 4))):
            order.insert(draw.randrange(len(order)), order.pop(draw.randrange(len(order))))
        try:
            replace(placement, order=tuple(placement.order[at] for at in order))
            why = ""
        except PlacementError as error:
            why = str(error)
        yield placement, order, why


@pytest.mark.skipif(CHROMIUM is None, reason=WHY_SKIPPED)
def test_every_refusal_is_the_placements_own(tmp_path):
    drawn = list(_drawn())
    cases = [{"placement": placement_json(placement), "order": order} for placement, order, _ in drawn]
    page = tmp_path / "legality.html"
    given = f"const MODEL = {json.dumps(step_model(PLACEMENTS))}, CASES = {json.dumps(cases)};"
    page.write_text(f"<body><script>{given}{''.join(map(script, SCRIPTS[:4]))}{_RUNNER}</script></body>")
    expected = [why for _, _, why in drawn]
    assert json.loads(told_by(page, tmp_path)) == expected
    for kind in ("needs", "the graph would run unbound", "gives it, but only later"):
        assert any(kind in why for why in expected), kind
    assert expected.count("") > CASES / 20
