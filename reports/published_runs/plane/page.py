"""docs/where-lag-wins.md: where a decision on old confidence wins, by replay and by theory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xllm_2280.page.markdown import table

from published_runs import words
from published_runs.plane.grid import DECISIONS, DRAFTS, SHARPNESS, TIE, Cell, Text, shape_of
from published_runs.plane.pairs import Pair
from published_runs.plane.theory import Costs, judge

_ROWS_OF_PAIRS = 0.5
_ASKED = (0.01, 0.03, 0.08)


def page(cells: Sequence[Cell], shipped: Sequence[Pair], published: Sequence[Pair], drawing: str) -> str:
    """Return the page as Markdown. drawing: name of the SVG beside it."""
    agreeing, judged = agreement(cells)
    return "\n".join(
        [
            "# Where does a lag win?",
            "",
            f"**{headline(cells)}**",
            "",
            f"![Who is fastest, over acceptance, autocorrelation and costs]({drawing})",
            "",
            "All of it is **synthetic**: texts are drawn from a stated process ([synthetic "
            "traces](synthetic-traces.md)), "
            f"{DRAFTS} drafts, a confidence of sharpness {SHARPNESS:g}; machines are made: 32 at once, a static "
            "step of "
            "40 ms, of which the rows take a fifth, a half or four fifths. Each square is three replays (static, "
            f"this-step, lag) of one draw; a lead below {words.percent(TIE, 0, sign=False)} is a tie. The controller "
            "minds the whole step. Rings: the pairs that ship. Ticks: published accept lengths, whose autocorrelation "
            "nobody publishes.",
            "",
            table(("decision, of a static step", "lag wins", "this-step wins", "static wins", "tie"), _counts(cells)),
            "## Theory",
            "",
            "A step takes F + r W: r a row, W rows. The best threshold on survival picks the drafts. Decided on this "
            "step's confidence they bring E1 tokens, at random E0, on the last step's E0 + rho (E1 - E0), to first "
            "order "
            "in the correlation rho of a step's ease with the last one's. Deciding in line adds x: the decision, "
            "and the "
            "wait and launches behind it that a lag hides behind the draft. So",
            "",
            "- a lag beats this-step where (1 - rho) (E1 - E0) / E1 < x / (F + r W + x);",
            "- it beats static where (E0 + rho (E1 - E0)) / (F + r W) > L / (F + r (N + 1)), a sequence.",
            "",
            "Both must hold, so a lag wins on confident, steady texts, where rows cost and deciding in line does too; "
            "where a decision takes no time, what is left to gain is the wait for the confidence and the launches "
            "behind "
            "it. Theory is told x as a replay has it, where both arms decide alike. It names the replay's winner in "
            f"{agreeing} of the {judged} squares that are no tie, and is stricter with the lag at middling "
            "autocorrelation: its step is a full-width one, and pruned steps lie closer together.",
            "",
            "## Pairs",
            "",
            "The autocorrelation of the confidence from which on a lag beats this-step, by theory, at rows of half a "
            "step, when deciding in line adds 1, 3 or 8 % of one:",
            "",
            table(
                ("pair", "accept length", "autocorrelation", *(words.percent(x, 0, sign=False) for x in _ASKED)),
                [_pair(each) for each in (*shipped, *published)],
            ),
            "Made by `make where-lag-wins`.",
            "",
        ]
    )


def headline(cells: Sequence[Cell]) -> str:
    """Return where a lag wins, in a sentence."""
    wins = [cell for cell in cells if cell.lag_wins]
    free = sum(cell.costs.decision == 0 for cell in wins)
    if not wins:
        return f"In none of {len(cells)} replayed settings is a lag fastest."
    dear = [cell for cell in wins if cell.costs.decision >= 0.03]
    return (
        f"In {len(wins)} of {len(cells)} replayed settings a lag is fastest, in {free} of them with a decision "
        "that takes "
        f"no time and in {len(dear)} with one that takes 3 % of a step or more; it takes a confidence that lasts, rows "
        "that cost, and a decision that does."
    )


def agreement(cells: Sequence[Cell]) -> tuple[int, int]:
    """Return in how many settings theory names the replay's winner, and how many have one."""
    judged = [cell for cell in cells if cell.winner is not None]
    return sum(cell.winner == cell.theory.winner for cell in judged), len(judged)


def needed(accept_length: float, decision: float) -> float | None:
    """Return the confidence's autocorrelation that a lag needs against this-step; None: it never does.

    The correlation that theory asks is the ease's, which that of the confidence grows with; found by halving.
    """
    low, high = 0.0, 0.99
    if not _enough(accept_length, high, decision):
        return None
    if _enough(accept_length, low, decision):
        return 0.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if _enough(accept_length, middle, decision) else (middle, high)
    return high


def _enough(accept_length: float, autocorrelation: float, decision: float) -> bool:
    shape = shape_of(Text(accept_length, autocorrelation))
    return shape.correlation >= judge(shape, shape.correlation, Costs(_ROWS_OF_PAIRS, decision)).lag_needs


def _counts(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    found = []
    for decision in DECISIONS:
        wins = Counter(cell.winner for cell in cells if cell.costs.decision == decision)
        told = (str(wins[name]) for name in ("lag", "this-step", "static", None))
        found.append((words.percent(decision, 0, sign=False), *told))
    return found


def _pair(pair: Pair) -> tuple[str, ...]:
    known = "not published" if pair.autocorrelation is None else f"{pair.autocorrelation:.2f}"
    asked = (needed(pair.accept_length, decision) for decision in _ASKED)
    return pair.name, f"{pair.accept_length:.2f}", known, *("never" if x is None else f"{x:.2f}" for x in asked)
