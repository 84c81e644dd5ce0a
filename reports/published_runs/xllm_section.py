"""The pull request's part of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from xllm_2280.page.markdown import table

from published_runs import words
from published_runs.xllm.exposed import DRAFT_MS, Exposed
from published_runs.xllm.gains import XLLM
from published_runs.xllm.load import Load
from published_runs.xllm.noise import Resolution

if TYPE_CHECKING:
    from published_runs.study import PublishedStudy

_TENTHS = tuple(f"{tenth}0 %" for tenth in range(1, 11))


def short(study: PublishedStudy) -> list[str]:
    """Return the answers in a line each."""
    seven = next(each for each in study.exposed if each.sl == 7)
    low, high = study.occupancy[1.0]
    single = [each for each in study.resolutions if each.what.startswith("run")]
    told = [each for each in single if each.alone[1]]
    adaptive = [each for each in single if " over static" not in each.what]
    build = next(each for each in study.resolutions if each.what.startswith("SL 7") and "build" in each.what)
    return [
        f"- *xLLM 2280, the {seven.moved_us:.0f} us that lag-overlap moves at SL 7*: {seven.exposed_us:.0f} us of "
        "them were "
        f"exposed under lag, in {np.count_nonzero(seven.drawn_us < 1)} of {len(seven.drawn_us)} draws of the assumed "
        "figures none: the host builds while the device drafts. Lag-overlap's step comes out "
        f"{words.percent(abs(seven.overlap_gain), sign=False)} "
        f"{'longer' if seven.overlap_gain < 0 else 'shorter'}, and "
        "+7.9 % was published from one run.",
        f"- *xLLM 2280, what its noise can tell*: all {len(told)} gains over static, and none of the {len(adaptive)} "
        f"between adaptive arms, from one run each. If the build were all exposed, "
        f"{words.percent(build.difference)}, it would take {_runs(build.runs[0])} runs of each arm at a spread of "
        "6 %, and "
        f"{_runs(build.runs[1])} at 15 %.",
        "- *xLLM 2280, 631 tok/s at a TPOT of 19.3 ms*: not 32 but 12.2 requests at once, on average; the replayed "
        "load "
        f"has {low:.1f} to {high:.1f}, because 48 requests of unequal lengths leave a batch of 32 soon after it is "
        "full.",
    ]


def lines(study: PublishedStudy) -> list[str]:
    """Return the section."""
    found = study.of(XLLM)
    return [
        "## xLLM, pull request 2280",
        "",
        f"{words.counted(found).capitalize()}. Inputs: the decision and prune-block costs, both static arms "
        "(acceptance "
        "rate and, for one of two machines, how their step grows with rows), and models/profiles/xllm-2280-like.toml, "
        "most of whose figures are assumed. The arms are replayed as the pull request's code runs them, syncs "
        "included. "
        "The range is over both machines and the corners of what is assumed of the confidence: sharpness 0.3 and 0.75, "
        "autocorrelation 0.3 and 0.9. Lengths are lognormal around the 161 and 338 tokens that arXiv 2309.06180 "
        "tells of "
        "ShareGPT, sigma 1, cut at 1,024 and 2,048.",
        "",
        table(words.HEADS, [words.row(each) for each in found]),
        *_noise(study),
        "",
        *_load(study),
        "",
        *_exposed(study),
    ]


def _noise(study: PublishedStudy) -> list[str]:
    rows = [_resolution(each) for each in study.resolutions]
    return [
        "### What its noise can tell",
        "",
        "Runs of each arm that tell the difference four times in five, and whether one run of each already does, at a "
        "coefficient of variation of 6 % and of 15 %; `simtool power` works it out for recordings. The last rows "
        "are the "
        "measured costs as if all of each were on the critical path of a step of 39.7 ms. Both SLs' lag against "
        "this-step "
        "change their sign between the runs.",
        "",
        table(("difference", "size", "runs at 6 %", "runs at 15 %", "one run tells it"), rows),
    ]


def _resolution(each: Resolution) -> tuple[str, ...]:
    alone = {(True, True): "yes", (True, False): "at 6 % only"}.get(each.alone, "no")
    return each.what, words.percent(each.difference), *map(_runs, each.runs), alone


def _runs(count: int | None) -> str:
    return "over 1,000" if count is None else str(count)


def _load(study: PublishedStudy) -> list[str]:
    rows = []
    for sl, found in study.loads.items():
        for name, place in (("least", 0), ("middle", len(found) // 2), ("most", -1)):
            rows.append(_timeline(f"SL {sl}, {name}", found[place]))
    ranges = "; ".join(f"sigma {sigma:g}: {low:.1f} to {high:.1f}" for sigma, (low, high) in study.occupancy.items())
    return [
        "### The load: 48 requests, 32 at once",
        "",
        "tok/s times TPOT is how many requests ran at once on average. Of all draws of the lengths, those with the "
        "least, "
        "the middle and the most; then how many ran at once in each tenth of the run. The 95 % range at SL 7 by how "
        f"unequal the lengths are: {ranges}.",
        "",
        table(("draw", "tok/s x TPOT", "time at 32", *_TENTHS), rows),
    ]


def _timeline(name: str, load: Load) -> tuple[str, ...]:
    at_once = (f"{each:.0f}" for each in load.at_once)
    return name, f"{load.occupancy:.1f}", words.percent(load.full_share, 0, sign=False), *at_once


def _exposed(study: PublishedStudy) -> list[str]:
    heads = ("arm", "SL", "moved", "exposed under lag", "over draws", "lag-overlap's step", "over draws")
    by_draft = ("arm", "SL", *(f"draft {ms:g} ms" for ms in DRAFT_MS))
    short_drafts = [
        (each.arm, str(each.sl), *(f"{us:.0f} us" for us in each.by_draft_us.values())) for each in study.exposed
    ]
    return [
        "### What was exposed of what lag-overlap moves",
        "",
        "Full batches of 32. Exposed: by how much lag's step is shorter when the build takes no time; draws: 64 of the "
        "assumed figures, within their ranges. `lag` waits for nothing that it need not wait for, `xllm-2280/lag` "
        "for what "
        "the code waits for. The build is hidden as long as the draft outlasts the host's work beside it, which "
        "the second "
        "table puts to the test: the draft with its sampling takes 6 ms by the figures.",
        "",
        table(heads, [_exposed_row(each) for each in study.exposed]),
        table(by_draft, short_drafts),
    ]


def _exposed_row(each: Exposed) -> tuple[str, ...]:
    gains = each.drawn_gains
    return (
        each.arm,
        str(each.sl),
        f"{each.moved_us:.0f} us",
        f"{each.exposed_us:.0f} us",
        f"{each.drawn_us.min():.0f} to {each.drawn_us.max():.0f} us",
        words.percent(each.overlap_gain, 2),
        f"{words.percent(float(gains.min()), 2)} to {words.percent(float(gains.max()), 2)}",
    )
