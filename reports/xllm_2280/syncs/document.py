"""The answers in Markdown: both models side by side, where a step loses its time, and what the assumptions turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simtool.analysis.comparison.traces import compare_traces
from simtool.stats.interval import Interval
from simtool.trace.trace import Trace
from simtool.units import NS_PER_US
from xllm_2280.page.markdown import command, table
from xllm_2280.syncs.answers import TAKEN_APART, MachineAnswer, total_exposed
from xllm_2280.syncs.draws import DrawnAnswer, Turn
from xllm_2280.syncs.questions import QUESTIONS, effect, holds
from xllm_2280.syncs.variants import BY_KEY, VARIANTS

_BASE = "lag-overlap"
_LIVE_BASELINE = "xllm-2280/lag-overlap"
_OPS_SHOWN = 10
_TURNS_SHOWN = 3
_TELLS = 0.03  # share of the draws by which a threshold must tell more of them right than one answer for all
_WITHOUT_EFFECT_US = 0.5

_HEAD = """# xLLM pull request 2280, with the syncs of its code

On a step that prunes, xLLM's code blocks in two places where the pull request counts no wait: `fill` uploads two index
lists from memory that is not pinned, and the scatter before verify makes its indices straight on the device
([what was read](../reports/xllm_2280/upstream-issue.md)). The arms `xllm-2280/*` have these syncs; those without the
prefix do not. All but "Live" is **modeled**, from recorded requests and outcomes; nothing ran on an NPU.
That the uploads block is read from source, not measured. The recorded requests are short, so the first steps of each,
which a lag verifies at full width, weigh more in tokens/s than in long answers; steps at one lag are alike.
"""


def document(
    answers: Sequence[MachineAnswer],
    drawn: Sequence[DrawnAnswer],
    *,
    draws_of: str,
    live: Sequence[Trace],
    made_by: str,
) -> str:
    """Return the page. drawn, draws_of: of the machine with assumed figures, and its name. live: recordings or none."""
    parts = [_HEAD, "Made by:\n", command(made_by)]
    parts += [_answers_first(answers, drawn), "## Live, on the CPU device\n", _live(live)]
    parts += ["## Both models side by side\n", *(_side_by_side(answer) for answer in answers)]
    parts += ["## Where a pruned step of lag-overlap loses its time\n", *(_exposed(answer) for answer in answers)]
    if drawn:
        parts += ["## What the assumptions turn\n", _drawn(drawn, draws_of)]
    return "\n".join(parts)


def _answers_first(answers: Sequence[MachineAnswer], drawn: Sequence[DrawnAnswer]) -> str:
    """One row a question: on each machine the answer and the effect, and how many draws say yes."""
    heads = ["question", *(_name(answer) for answer in answers), *(["draws that say yes"] if drawn else [])]
    rows = []
    for place, question in enumerate(QUESTIONS):
        cells = []
        for answer in answers:
            share = effect(question, answer.figures)
            cells.append(f"{'yes' if holds(question, share) else 'no'} ({share:+.2%})")
        counts = [f"{drawn[place].yes} of {len(drawn[place].effects)}"] if drawn else []
        rows.append([question.text, *cells, *counts])
    note = (
        "In brackets: by how much the step is shorter, or tokens/s are more, than in the arm that it is set against.\n"
    )
    return "## Answers\n\n" + table(heads, rows) + "\n" + note


def _side_by_side(answer: MachineAnswer) -> str:
    base = answer.figures[_BASE].step_ns
    rows = [
        [
            variant.label,
            f"{found.step_ns / NS_PER_US:.0f}",
            f"{(found.step_ns - base) / NS_PER_US:+.0f}",
            f"{found.tokens_per_s:.0f}",
            f"{found.idle_share:.1%}",
        ]
        for variant in VARIANTS
        for found in (answer.figures[variant.key],)
    ]
    heads = ["arm", "step, us", "against lag-overlap as the code is, us", "tokens/s", "device idle"]
    told = f"### {_name(answer)}\n\n{answer.what}; {answer.pruned_share:.0%} of lag-overlap's full-batch steps prune.\n"
    warnings = "".join(f"- {line}\n" for line in answer.caveats.lines())
    return told + "\n" + table(heads, rows) + ("\n" + warnings if warnings else "")


def _exposed(answer: MachineAnswer) -> str:
    rows = [
        [each.op, *(f"{us:.0f}" for us in each.exposed_us)]
        for each in answer.exposed[:_OPS_SHOWN]
        if max(each.exposed_us) > _WITHOUT_EFFECT_US
    ]
    rows.append(["all ops", *(f"{us:.0f}" for us in total_exposed(answer))])
    heads = ["us a step on the critical path with the device idle", *(BY_KEY[key].label for key in TAKEN_APART)]
    return f"### {_name(answer)}\n\n" + table(heads, rows)


def _drawn(drawn: Sequence[DrawnAnswer], machine: str) -> str:
    count = len(drawn[0].effects)
    rows = [
        [
            answer.question.text,
            f"{answer.yes} of {count}",
            f"{answer.at_assumed:+.2%}",
            "{:+.2%} to {:+.2%}".format(*np.quantile(answer.effects, (0.05, 0.95))),
            "; ".join(_turn(turn, max(answer.yes, count - answer.yes) / count) for turn in answer.turns[:_TURNS_SHOWN]),
        ]
        for answer in drawn
    ]
    heads = [
        "question",
        "draws that say yes",
        "effect as assumed",
        "90 % of the draws",
        "what turns it, strongest first",
    ]
    return (
        f"{machine}: {count} draws of its assumed figures (a scrambled Sobol design over the logarithms of ranges, "
        "given in `models/profiles/xllm-2280-like.toml`). A draw is not a probability: a count tells how much of the "
        "box of assumptions says yes. In the last column assumptions are ranked by their rank correlation with the "
        "effect; a threshold, where there is one, is where that figure alone tells yes from no, with its share of "
        "right answers.\n\n" + table(heads, rows)
    )


def _turn(turn: Turn, majority: float) -> str:
    """An assumption and its rank, with its threshold where that tells more than the answer of most draws does."""
    name = f"{turn.figure.name} ({turn.rank:.2f})"
    if turn.told is None or turn.told < majority + _TELLS:
        return name
    return f"{name}: yes {'above' if turn.above else 'below'} {turn.threshold_us:.3g} us ({turn.told:.0%} right)"


def _live(traces: Sequence[Trace]) -> str:
    """The arms' recorded step times against xLLM's lag-overlap, with intervals; or how to get them."""
    if not traces:
        return (
            "Not measured yet: intervals need a machine with nothing else to do. `make answers-syncs-live` records the "
            "arms interleaved on the CPU device and writes this page again with them.\n"
        )
    shown: dict[str, list[str]] = {}
    told: dict[str, str] = {}
    for metric in ("step_time", "tokens_per_s"):
        found = compare_traces(traces, baseline=_LIVE_BASELINE, metric=metric)
        for verdict in found.verdicts:
            told |= dict.fromkeys([verdict.load.warning] if verdict.load.warning else [], "")
            for each in verdict.comparisons:
                shown.setdefault(each.other, []).append(_change(each.found))
                told[f"Intervals: {each.method}."] = ""
        told |= dict.fromkeys(found.findings, "")
    heads = (f"live, against {_LIVE_BASELINE}", "step", "tokens/s")
    rows = [(arm, *changes) for arm, changes in shown.items()]
    return table(heads, rows) + "\n" + "\n".join(f"- {line}" for line in told) + "\n"


def _change(found: Interval) -> str:
    mean = f"{(found.mean - 1) * 100:+.1f} %"
    if found.bounds is None:
        return mean
    low, high = ((end - 1) * 100 for end in found.bounds)
    return f"{mean} ({low:+.1f} to {high:+.1f})"


def _name(answer: MachineAnswer) -> str:
    return f"{answer.machine}, concurrency {answer.setting.concurrency}"
