"""docs/where-lag-wins.md: where a decision on old confidence wins, by replay and by theory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from xllm_2280.page.markdown import table

from published_runs import words
from published_runs.plane.grid import DECISIONS, DRAFTS, SHARPNESS, TIE, Cell, Text, shape_of
from published_runs.plane.pairs import CostRatio, Pair
from published_runs.plane.picture import ASSUMED_AUTOCORRELATION, panel_of
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
            "minds the whole step. Rings: the pairs that ship. Diamonds: published pairs "
            "([below](#published-pairs)), at the accept length and in the panel of the costs that their figures tell, "
            "on a dashed line because their autocorrelation may be any: nobody publishes it. Ticks: published accept "
            "lengths without costs.",
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
            *_published(cells, published),
            "Made by `make where-lag-wins`.",
            "",
        ]
    )


def _published(cells: Sequence[Cell], pairs: Sequence[Pair]) -> list[str]:
    untold = [each.name for each in pairs if each.costs is None]
    asked = [words.percent(decision, 0, sign=False) for decision in _decisions(cells)]
    return [
        "## Published pairs",
        "",
        "Who is fastest in the square nearest to each published pair, by what deciding in line takes of a step. "
        "Published: the accept length, and two or three step times whose rows differ, of which the share of the rows "
        f"is worked out. **Assumed**: an autocorrelation of {ASSUMED_AUTOCORRELATION:g}, as the shipped pairs have; a "
        f"confidence of sharpness {SHARPNESS:g}; acceptance alike at every position. In brackets the autocorrelation "
        "from which on a lag beats this-step at those very rows, by theory.",
        "",
        table(
            ("pair", "accept length", "rows", "from", *asked),
            [_placed(cells, each, each.costs) for each in pairs if each.costs is not None],
        ),
        f"Without step times, so on no panel: {'; '.join(untold)}. Nor are these: vLLM's pull request 52362 on ROCm "
        "tells no accept length, and vLLM's table of DeepSeek-V4-Flash on B300 none either; the user report of a "
        "drifting server tells acceptance by position and no times.",
        "",
    ]


def _placed(cells: Sequence[Cell], pair: Pair, costs: CostRatio) -> tuple[str, ...]:
    asked = (_square_of(cells, pair, costs, decision) for decision in _decisions(cells))
    return (
        pair.name,
        f"{pair.accept_length:.2f}",
        words.percent(costs.rows, 0, sign=False),
        costs.says,
        *asked,
    )


def _decisions(cells: Sequence[Cell]) -> list[float]:
    return sorted({cell.costs.decision for cell in cells})


def _square_of(cells: Sequence[Cell], pair: Pair, costs: CostRatio, decision: float) -> str:
    rows = panel_of(costs, decision, sorted({cell.costs.rows for cell in cells}), _decisions(cells))
    if rows is None:
        return "-"
    here = [cell for cell in cells if (cell.costs.rows, cell.costs.decision) == (rows, decision)]
    nearest = min(
        here,
        key=lambda cell: (
            abs(cell.text.accept_length - pair.accept_length),
            abs(cell.text.autocorrelation - ASSUMED_AUTOCORRELATION),
        ),
    )
    asked = needed(pair.accept_length, decision, costs.rows)
    return f"{nearest.winner or 'tie'} ({'never' if asked is None else f'{asked:.2f}'})"


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


def needed(accept_length: float, decision: float, rows: float = _ROWS_OF_PAIRS) -> float | None:
    """Return the confidence's autocorrelation that a lag needs against this-step; None: it never does.

    The correlation that theory asks is the ease's, which that of the confidence grows with; found by halving.
    """
    low, high = 0.0, 0.99
    if not _enough(accept_length, high, decision, rows):
        return None
    if _enough(accept_length, low, decision, rows):
        return 0.0
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if _enough(accept_length, middle, decision, rows) else (middle, high)
    return high


def _enough(accept_length: float, autocorrelation: float, decision: float, rows: float) -> bool:
    shape = shape_of(Text(accept_length, autocorrelation))
    return shape.correlation >= judge(shape, shape.correlation, Costs(rows, decision)).lag_needs


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
