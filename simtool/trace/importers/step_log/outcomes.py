"""What a step log tells of the drafter: an outcome at every anchor that the run visited."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from simtool.trace.frames import make_frame
from simtool.trace.importers.step_log.read import StepLog
from simtool.trace.schema import TABLES

_Real = Sequence[float] | None
_Tokens = Sequence[int] | None


def visited_outcomes(log: StepLog) -> tuple[pl.DataFrame, int]:
    """Return the outcomes table, and how many rows had no confidence of their own.

    Those stand at the acceptance rate of each draft position over the whole log.
    """
    rates: list[float] | None = None
    outputs = _outputs(log)
    columns: dict[str, list[object]] = {
        name: [] for name in ("request_id", "anchor_position", "confidence", "draft_prob", "match_run")
    }
    substituted = 0
    for step in log.steps:
        if step.kind == "prefill":
            continue
        nothing: list[None] = [None] * len(step.request)
        confidences: Sequence[_Real] = step.confidence or nothing
        probabilities: Sequence[_Real] = step.draft_prob or nothing
        drafts: Sequence[_Tokens] = step.draft_tokens or nothing
        for i, name in enumerate(step.request):
            confidence = confidences[i]
            if confidence is None:
                rates = rates or acceptance_rates(log)
                confidence, substituted = rates, substituted + 1
            run = _match_run(log.header.sl, step.prefix_len[i], step.accepted[i])
            if run is None and drafts[i] is not None and name in outputs:
                run = _match_of_tokens(drafts[i] or (), outputs[name], step.anchor[i])
            columns["request_id"].append(name)
            columns["anchor_position"].append(step.anchor[i])
            columns["confidence"].append(confidence)
            columns["draft_prob"].append(probabilities[i])
            columns["match_run"].append(run)
    count = len(columns["request_id"])
    frame = make_frame(TABLES["outcomes"], {**columns, "source": ["visited"] * count})
    return frame.unique(["request_id", "anchor_position"], keep="last", maintain_order=True), substituted


def acceptance_rates(log: StepLog) -> list[float]:
    """Return for each draft position the share accepted of those offered whose drafts before were accepted."""
    reached, accepted = [0] * log.header.sl, [0] * log.header.sl
    for step in log.steps:
        for prefix_len, matched in zip(step.prefix_len, step.accepted, strict=True):
            for k in range(min(matched + 1, prefix_len)):
                reached[k] += 1
                accepted[k] += k < matched
    rates: list[float] = []
    for hits, tries in zip(accepted, reached, strict=True):
        rates.append(hits / tries if tries else (rates[-1] if rates else 0.0))
    return rates


def _match_run(sl: int, prefix_len: int, accepted: int) -> int | None:
    """A draft that was refused ends the match; where all offered ones were accepted, only a whole block tells."""
    return accepted if accepted < prefix_len or prefix_len == sl else None


def _match_of_tokens(draft: Sequence[int], output: tuple[int, Sequence[int]], anchor: int) -> int | None:
    """How many drafts equal the output from the anchor on; None where the output ends before one differs."""
    prompt_tokens, tokens = output
    for k, token in enumerate(draft):
        at = anchor + 1 + k - prompt_tokens
        if not 0 <= at < len(tokens):
            return None
        if tokens[at] != token:
            return k
    return len(draft)


def _outputs(log: StepLog) -> dict[str, tuple[int, Sequence[int]]]:
    """Of each request whose output is in the log: its prompt's length, and the output."""
    found: dict[str, tuple[int, Sequence[int]]] = {}
    for name, known in log.requests.items():
        prompt, output = known.get("prompt_tokens"), known.get("output_ids")
        if isinstance(prompt, int) and isinstance(output, list):
            found[name] = (prompt, output)
    return found
