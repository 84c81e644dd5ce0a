"""docs/peers.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.peers.live import BASELINE, SETTINGS, Said, Setting

LIVE, OURS = "live", "simtool"
#: A live difference below so many percent, of one repetition, has no sign to be right about.
_TELLING = 1.0
_SPEED, _GAIN = "tokens/s of the run", "tokens/s of the run over static's, %"


@dataclass(frozen=True)
class Answer:
    """What one simulator (or the live run) says of an arm of a setting."""

    who: str
    setting: str
    arm: str
    said: Said


@dataclass(frozen=True)
class Question:
    """One figure of a run. value: None where it is not told. relative: an error is a share, not a difference."""

    title: str
    value: Callable[[Said, Said], float | None]
    written: Callable[[float], str]
    relative: bool = True

    def error(self, said: float, live: float) -> float:
        """How far what was said is from live."""
        return said / live - 1 if self.relative else said - live

    def told(self, error: float) -> str:
        """An error as it is written."""
        return f"{error:+.1%}".replace("%", " %") if self.relative else self.written(error)


def _gain(run: float | None, static: float | None) -> float | None:
    return None if run is None or static is None else 100 * (run / static - 1)


#: Each value is of an arm's run and of the same simulator's static run.
QUESTIONS = (
    Question(_SPEED, lambda run, _: run.tokens_per_s, lambda x: f"{x:.0f}"),
    Question("tokens/s at a full batch", lambda run, _: run.steady, lambda x: f"{x:.0f}"),
    Question("mean decode step, ms", lambda run, _: run.step_ms, lambda x: f"{x:.2f}"),
    Question("ms a token, mean over requests", lambda run, _: run.token_ms, lambda x: f"{x:.2f}"),
    Question(
        _GAIN,
        lambda run, static: None if run is static else _gain(run.tokens_per_s, static.tokens_per_s),
        lambda x: f"{x:+.1f}",
        relative=False,
    ),
    Question(
        "tokens/s at a full batch over static's, %",
        lambda run, static: None if run is static else _gain(run.steady, static.steady),
        lambda x: f"{x:+.1f}",
        relative=False,
    ),
    Question("drafts verified, a sequence and step", lambda run, _: run.drafts, lambda x: f"{x:.2f}", relative=False),
)

CANNOT = (
    (
        "a decision on confidence one step old (lag)",
        "yes",
        "no: a step's gate always reads that step's round",
        "no: it decides nothing; a recorded run's widths can be played back",
    ),
    (
        "what waiting for the confidence costs the host (this-step against lag)",
        "yes",
        "only by another table of step times",
        "no: what a proposer takes depends on the sequences drafted for alone",
    ),
    (
        "the order of host work and what of it is hidden behind the device (lag against lag-overlap)",
        "yes",
        "no: a step is one number",
        "no: times of operators are added up",
    ),
    ("host-device syncs", "yes", "no", "no"),
    (
        "widths that adapt",
        "yes, by xLLM's rule or one of ten others",
        "yes: fixed, one for all, one for each; by its own objective, whole steps",
        "no: planned drafts are an input",
    ),
    (
        "a controller that weighs other costs than the step really has (xLLM's knows the verify alone)",
        "yes",
        "no: what prices a step decides",
        "no",
    ),
    (
        "which drafts of which request are accepted",
        "each anchor's own outcome, under any widths",
        "rounds drawn at random from a bank: confidence and outcome belong together, steps of a request do not",
        "played back as recorded; under other widths it has none",
    ),
    (
        "how a request's confidence lasts from step to step",
        "as recorded",
        "no: rounds are independent",
        "no confidence",
    ),
    ("error of its own answer", "intervals of noise and fit (not used here)", "none; seeds differ", "none"),
)


def page(answers: Sequence[Answer]) -> str:
    """Return the page as Markdown."""
    return "\n".join([*_head(answers), *_tables(answers), *_cannot(), *_how()]) + "\n"


def _peers(answers: Sequence[Answer]) -> list[str]:
    """Everybody but the live runs, simtool first."""
    return sorted({each.who for each in answers} - {LIVE}, key=lambda who: (who != OURS, who == "Frontier", who))


def _values(answers: Sequence[Answer], question: Question) -> Iterator[tuple[Setting, str, dict[str, float]]]:
    """Yield of each arm what everybody says, by who; those who do not tell are left out."""
    runs = {(each.who, each.setting, each.arm): each.said for each in answers}
    for setting in SETTINGS:
        for arm in setting.arms:
            found = {}
            for who in (LIVE, *_peers(answers)):
                run, static = (runs.get((who, setting.name, name)) for name in (arm, BASELINE))
                value = question.value(run, static) if run and static else None
                if value is not None:
                    found[who] = value
            if LIVE in found:
                yield setting, arm, found


def _errors(answers: Sequence[Answer], question: Question, who: str) -> list[tuple[float, str]]:
    """Errors on runs that costs were not taken from, and of which run each is."""
    return [
        (question.error(found[who], found[LIVE]), f"{arm}, SL {setting.sl}, {setting.concurrency} at once")
        for setting, arm, found in _values(answers, question)
        if who in found and not setting.fits(arm)
    ]


def _head(answers: Sequence[Answer]) -> Iterator[str]:
    yield "# What other public simulators say of the same live runs"
    yield ""
    yield from _verdict(answers)
    yield ""
    yield from _ASKED
    yield ""
    yield "| question | " + " | ".join(_peers(answers)) + " |"
    yield "|---|" + "---:|" * len(_peers(answers))
    for question in QUESTIONS:
        cells = []
        for who in _peers(answers):
            errors = _errors(answers, question, who)
            if not errors:
                cells.append("not told")
                continue
            mean = _mean([error for error, _ in errors])
            worst, where = max(errors, key=lambda each: abs(each[0]))
            cells.append(f"{question.told(mean).lstrip('+')}; worst {question.told(worst)} ({where})")
        yield f"| {question.title} | {' | '.join(cells)} |"
    yield ""
    yield "Mean size of the error on the judged runs, and the worst. Of figures over static's and of drafts the error"
    yield "is a difference, not a share."


def _verdict(answers: Sequence[Answer]) -> Iterator[str]:
    speed, gain = (next(each for each in QUESTIONS if each.title == title) for title in (_SPEED, _GAIN))
    for who in _peers(answers):
        speeds, gains = (_errors(answers, each, who) for each in (speed, gain))
        if not speeds or not gains:
            continue
        signs = [
            (found[who] > 0) == (found[LIVE] > 0)
            for setting, arm, found in _values(answers, gain)
            if who in found and not setting.fits(arm) and abs(found[LIVE]) >= _TELLING
        ]
        apart = (
            f"{_mean([error for error, where in speeds if where.endswith(f' {at} at once')]):.1%} at {at} at once"
            for at in dict.fromkeys(int(where.split()[-3]) for _, where in speeds)
        )
        off = f"{_mean([error for error, _ in speeds]):.1%} on average ({', '.join(apart)})".replace("%", " %")
        yield f"- **{who}**: tokens/s of a run off by {off}; what an"
        yield f"  arm gives over static off by {_mean([error for error, _ in gains]):.1f} points, its sign right in"
        yield f"  {sum(signs)} of {len(signs)} arms whose live difference is {_TELLING:g} % or more."
    yield from _READ


def _mean(errors: Sequence[float]) -> float:
    return sum(map(abs, errors)) / len(errors)


def _tables(answers: Sequence[Answer]) -> Iterator[str]:
    yield ""
    yield "## Every figure"
    yield "*In italics*: runs that the costs were taken from, so a fit and no prediction; they count in no mean above."
    peers = _peers(answers)
    for question in QUESTIONS:
        yield ""
        yield f"**{question.title}**: live, then what each says and its error."
        yield ""
        yield f"| SL | at once | arm | live | {' | '.join(peers)} |"
        yield "|---:|---:|---|---:|" + "---:|" * len(peers)
        for setting, arm, found in _values(answers, question):
            cells = [
                f"{question.written(found[who])} ({question.told(question.error(found[who], found[LIVE]))})"
                if who in found
                else "-"
                for who in peers
            ]
            mark = "*" if setting.fits(arm) else ""
            line = [str(setting.sl), str(setting.concurrency), arm, question.written(found[LIVE]), *cells]
            yield "| " + " | ".join(f"{mark}{cell}{mark}" for cell in line) + " |"


def _cannot() -> Iterator[str]:
    yield ""
    yield "## What each can express"
    yield ""
    yield "| | simtool | inference-lab | Frontier |"
    yield "|---|---|---|---|"
    for line in CANNOT:
        yield f"| {' | '.join(line)} |"
    yield ""
    yield from _BEYOND


def _how() -> Iterator[str]:
    yield ""
    yield "## How each was asked"
    yield from _HOW


_READ = (
    "",
    "Two things to know before the figures are held against the peers. simtool is told more: the time of every op.",
    "And inference-lab answers another question in part: the live arms decide by xLLM's rule, which weighs the",
    "verify alone and cuts too much ([policies](policies.md)), while its gate weighs whole steps. Told what a draft",
    "costs, the live engine gains as well ([log](log/2026-12-01.md)). What neither peer can say at all is the",
    "question that this project asks: what the *place* of the decision is worth, and what its old confidence costs.",
)
_ASKED = (
    "Everybody learns costs from the same live runs: `static` and `this-step` at 8 sequences at once, of the same",
    "block length (SL); for 32 at once from `static` there, too. Judged is what those costs say of *other* runs:",
    "`lag` and `lag-overlap` at 8, `lag-overlap` at 32. All ran on two CPU cores and ship in `traces/`; one",
    "repetition each, so a live figure itself is good to a percent or two ([fidelity](fidelity.md)). Figures of",
    "peers are what their own programs printed; how each was told what [is below](#how-each-was-asked).",
)
_BEYOND = (
    "What they can and simtool cannot: prefix caches and KV tiers, replicas and routers, tensor and expert",
    "parallelism, disaggregated prefill, costs of a mixture of experts from a data sheet, chunked prefill. None of",
    "it is in a run that ships here; whoever asks about it should ask them.",
)
_HOW = (
    "    python -m benchmarks.peers --inference-lab COMMAND --frontier CHECKOUT --frontier-python PYTHON",
    "",
    "writes their input from the traces, runs their commands, reads their output and writes this page. No code of",
    "theirs is in this repository. The replays and their runs are arithmetic on recorded runs: the machine that",
    "runs them does not matter.",
    "",
    "**simtool** is told more than they are: the same runs with the time of every op, on the host and on the",
    "device, and the order of host work under each placement; that is what it is for. Like inference-lab it is told",
    "the requests and how their drafts fare, from the setting's static run, and decides widths itself, by the",
    "controller that the judged run had.",
    "",
    "**inference-lab** (doublewordai/inference-lab, MIT, commit 24d4011, 2026-08-21) is described as its",
    "documentation asks of a measured engine: a bank of draft rounds (the confidences of each block that static",
    "verified, and how many drafts were accepted), and a table of step times by batch and verify width. A table",
    "must have every cell, or its gate verifies nothing and its steps fall back to a data sheet; so cells that no",
    "run had are filled in two ways. *static's steps*: full width as static took it, below that what a row costs",
    "the target, as if nothing waited. *this-step's steps*: the plane, by batch and rows, through this-step's live",
    "steps, its wait for the confidence included, and on to 32 along the plane. Its adaptive arm is `gated_budget`",
    "with a block drafter: widths for each sequence by this step's confidence. It stands for this-step, lag and",
    "lag-overlap alike, so both columns say one thing for all three; the one to read is this-step's for this-step",
    "and static's for the others. Prompts are priced by the measured time of a prompt token. A full batch is asked",
    "for with 50 rounds of the same lengths; 20 seeds, whose means are given. Adapted: its library is built as it",
    "is, with rand 0.8 and toml 0.5 for 0.10 and 0.8 and a driver of 40 lines for its command line, because its",
    "package registry was out of reach; its own `cargo build --release` makes the command that the script takes.",
    "",
    "**Frontier** (NetX-lab/Frontier, MIT, commit a4b22df, 2026-07-06) runs on a CPU from operator profiles, and",
    "its profiler needs CUDA and vLLM. So its profile is written in its format from the traces: the target's",
    "forward, timed as a whole, stands in one operator of four layers, by rows; all else that a static step takes",
    "stands in its latency profile of the proposer, by sequences. Its linear predictor of degree 1 is taken. It",
    "decides no widths; it plays back how many drafts each request verified and how many tokens it committed in",
    "each iteration **of the judged run itself**, which the others are not told: only its times are predictions.",
    "Why they are too short where widths adapt: a sequence none of whose drafts is verified counts as not drafted",
    "for, and 16 to 47 % of the sequences of these steps are such. DSpark is none of its methods; `eagle` stands",
    "for it. Its steps mix prompts with decoding; its mean decode step leaves those out, which at 32 at once are",
    "most of the full ones. A full batch it does not tell.",
    "",
    "Looked at and not run: yfzzzyyls/dsdSim (three of its acceptance models were missing from the copy to be had),",
    "keyboardAnt/distributed-speculative-inference (one sequence, every draft accepted by one constant chance),",
    "AdaSpec (a vLLM fork that needs CUDA).",
)
