"""docs/published.md: the answer first, then a section a source, then what follows and what is missed."""

from __future__ import annotations

from xllm_2280.page.markdown import table

from published_runs import words
from published_runs import xllm_section as section
from published_runs.cost_table import Budgets
from published_runs.others import ASCEND, GOOD_SHARPNESS, ROCM, SGLANG, V4_FLASH_LENGTH
from published_runs.study import PublishedStudy
from published_runs.xllm.gains import XLLM


def document(study: PublishedStudy) -> str:
    """Return the page as Markdown."""
    return "\n".join(
        [
            "# What others measured, predicted",
            "",
            *_answer(study),
            "",
            *_how(),
            "",
            *section.lines(study),
            "",
            *_other(study, ROCM, "vLLM on ROCm, pull request 52362", _ROCM),
            *_other(study, SGLANG, "SGLang, pull request 35413", _SGLANG),
            *_other(study, ASCEND, "vllm-ascend, pull request 15098", _ASCEND),
            *_cost_table(study),
            "",
            *_misses(study),
            "",
            "Made by `make published` from [traces/published](../traces/published/README.md); "
            "`simtool validate --published` prints the same.",
            "",
        ]
    )


def headline(study: PublishedStudy) -> str:
    """Return the answer in a sentence."""
    every = list(study.predictions)
    settled = [each for each in every if each.sign_holds is not None]
    right = sum(bool(each.sign_holds) for each in settled)
    return (
        f"Of {len(every)} predictions of published figures from other published ones, {words.counted(every)}; of "
        f"{len(settled)} gains whose sign the inputs settle, {right} have that sign."
    )


def _answer(study: PublishedStudy) -> list[str]:
    return [
        f"**{headline(study)}**",
        "",
        *section.short(study),
        "- *Adaptive verify lengths elsewhere*: at high load the gains of ROCm, Ascend and SGLang's Qwen3-8B come "
        "out in "
        "sign and size from the arms that do not adapt. At low load, and on DeepSeek-V4-Flash, the published gains are "
        "losses that no cost in the inputs explains: adapting itself costs something that nobody published.",
        f"- *A strict stop on a staircase* gives up {_strict_range(study)} of the best budget's rate from 16 "
        "requests on.",
    ]


def _strict_range(study: PublishedStudy) -> str:
    losses = [-each.strict_loss for found in study.budgets.values() for each in found if each.requests >= 16]
    return f"{words.percent(min(losses), 0, sign=False)} to {words.percent(max(losses), 0, sign=False)}"


def _how() -> list[str]:
    return [
        "## How to read it",
        "",
        "- *Predicted* is a range over what nobody published, such as how good the confidence is; its two ends are "
        "stated "
        "in each section. A figure that went into a prediction is an input, and is never counted as predicted.",
        "- *Covered*: the range meets the published figure's own 95 % interval, a gain being one run of each of "
        "two arms. "
        "Where a source tells a spread of 6 to 15 %, the interval is given at both. Where it tells none, the "
        "figure lies "
        "inside the range or is missed.",
        "- A covered figure confirms little where the published interval is wide; the table shows how wide it is.",
    ]


_ROCM = (
    "Inputs: tok/s without drafts and with all 7, at the same concurrency, and vLLM's table of another machine for the "
    "second half. The step's time is the straight line between the two arms' rows; tokens a step are taken as 3.0 "
    "to 4.0, "
    "for they are not told. The low end knows a draft's position only, the high end every outcome. No spread is "
    "published."
)
_SGLANG = (
    "Inputs: verify-all at 48 and 64 requests, its accept length, and for the second kind of row the accept length "
    "of the "
    "budgeted arm. The step's time is the straight line through the two; where one accept length is missing the other "
    f"stands in. Given the accept length, the ends are drafts cut by position and by a confidence of sharpness "
    f"{GOOD_SHARPNESS}. The spread is 1.5 to 6 % between repeats."
)
_ASCEND = (
    "Inputs: the full arm at three SLs, tok/s and accept length, and for the second kind of row the accept length "
    "of the "
    "dynamic arm. The step's time is the straight line of least squares through three SLs at an unknown batch, which "
    "cancels. No spread is published."
)


def _other(study: PublishedStudy, source: str, title: str, inputs: str) -> list[str]:
    found = study.of(source)
    kinds = dict.fromkeys(each.figure for each in found)
    ordered = [each for kind in kinds for each in found if each.figure == kind]
    return [
        f"## {title}",
        "",
        f"{words.counted(found).capitalize()}. {inputs}",
        "",
        table(words.HEADS, [words.row(each) for each in ordered]),
    ]


def _cost_table(study: PublishedStudy) -> list[str]:
    steps = ", ".join(
        f"{low} to {high} ({words.percent(share, 0)})" for low, high, share in study.falls if share < -0.05
    )
    lines = [
        "## vLLM's cost table: budgets, staircase, strict stop",
        "",
        "Nothing is published to hold this against; it is what follows from the table, at an accept length of "
        f"{V4_FLASH_LENGTH} (SGLang's, of the same model) and one draft chance at all positions. In the table "
        f"{len(study.falls)} of its steps go down, more tokens taking less time; by more than 5 %: {steps}. A scan "
        "that "
        "stops at the first draft which does not raise tokens per ms ends on the first stair; the best budget is the "
        "highest over all.",
        "",
    ]
    for sharpness, found in study.budgets.items():
        lines += [
            f"Confidence of sharpness {sharpness:g}:",
            "",
            table(_BUDGET_HEADS, [_budget(each) for each in found]),
        ]
    return lines


_BUDGET_HEADS = (
    "requests",
    "best drafts a request",
    "over verify-all",
    "strict stop's drafts a request",
    "against the best",
)


def _budget(each: Budgets) -> tuple[str, ...]:
    return (
        str(each.requests),
        f"{each.best.drafts / each.requests:.2f}",
        words.percent(each.best_gain),
        f"{each.strict.drafts / each.requests:.2f}",
        words.percent(each.strict_loss),
    )


_LACKING = {
    XLLM: "Static loses far more than its rows cost by any of the figures, and the replayed confidence is not the "
    "run's: neither a profile of the static arm nor a confidence by position is published.",
    ROCM: "Below 64 requests adapting loses 5 to 8 % where the model says that it loses nothing: its host work, or its "
    "graphs of uneven widths, cost time that neither arm of the inputs pays.",
    SGLANG: "A line through two loads gives batch and rows one slope, so trimming looks as good as serving fewer "
    "requests; and a budget that is chosen costs nothing in it.",
    ASCEND: "Nothing tells which requests the dynamic lengths cut.",
}


def _misses(study: PublishedStudy) -> list[str]:
    missed = study.misses
    lines = ["## The misses", ""]
    for source, why in _LACKING.items():
        mine = [each for each in missed if each.source == source]
        if mine:
            told = "; ".join(f"{each.setting}, {each.figure}" for each in mine)
            lines.append(f"- **{source}**, {len(mine)} of {len(study.of(source))}: {told}. {why}")
    return lines
