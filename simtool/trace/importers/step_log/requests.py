"""What a step log tells of its requests: what their own lines say, and the rest from the steps they ran in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from simtool.trace.frames import make_frame
from simtool.trace.importers.step_log.read import StepLog
from simtool.trace.schema import TABLES

_REASONS = ("length", "stop")


@dataclass
class _Seen:
    """A request as the steps show it. spans are of the first and last steps that it was in; times in ns."""

    first_ns: int
    token_ns: int
    last_ns: int
    last_step: int
    prompt_tokens: int | None = None
    anchor: int | None = None
    emitted: int = 0

    @property
    def output_tokens(self) -> int:
        """The prefill's token, and what its rows emitted."""
        return 1 + self.emitted


def requests_frame(log: StepLog, spans: Sequence[tuple[int, int]]) -> tuple[pl.DataFrame, list[str]]:
    """Return the requests table and what is to be told of it.

    A request counts as finished when its line says so and the steps hold all that it emitted. In a log without any
    request line those that are gone before the last step count as finished, which is told.
    """
    seen = _from_steps(log, spans)
    silent = not any("finished_ns" in known or "finish_reason" in known for known in log.requests.values())
    last = len(log.steps) - 1
    rows, partial, unserved = [], 0, 0
    for name in dict.fromkeys([*log.requests, *seen]):
        known, steps = dict(log.requests.get(name, {})), seen.get(name)
        if steps is None:
            unserved += 1
            if "prompt_tokens" not in known:
                continue
        row = _row(name, known, steps, gone=silent and steps is not None and steps.last_step < last)
        if steps is not None and row["finished_ns"] is not None and not _whole(row, steps):
            row["finished_ns"], row["finish_reason"], partial = None, None, partial + 1
        rows.append(row)
    if unserved:
        log.ledger.drop("requests that no step served", unserved)
    notes = []
    if partial:
        notes.append(
            f"{partial} finished requests are not whole in the log (it began late, or lines are lost): not replayed"
        )
    if silent:
        notes.append("no request line says finished: requests that are gone before the last step count as finished")
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    return make_frame(TABLES["requests"], columns) if rows else TABLES["requests"].polars_schema.to_frame(), notes


def _from_steps(log: StepLog, spans: Sequence[tuple[int, int]]) -> dict[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for number, (step, (start_ns, end_ns)) in enumerate(zip(log.steps, spans, strict=True)):
        names = [*step.request, *(name for name in step.prefilled if name not in step.request)]
        for i, name in enumerate(names):
            is_row = step.kind == "decode" and i < len(step.request)
            token_ns = start_ns if is_row else end_ns  # a request that decodes got its first token before
            request = seen.setdefault(name, _Seen(start_ns, token_ns, end_ns, number))
            request.last_ns, request.last_step = end_ns, number
            if is_row:
                request.anchor = step.anchor[i] if request.anchor is None else request.anchor
                request.emitted += step.emitted[i]
            elif step.kind == "prefill":
                request.prompt_tokens = step.prompt_tokens[i]
    return seen


def _row(name: str, known: dict[str, Any], steps: _Seen | None, *, gone: bool) -> dict[str, Any]:
    prompt = known.get("prompt_tokens")
    if prompt is None and steps is not None:
        prompt = steps.prompt_tokens if steps.anchor is None else steps.anchor
    output = known.get("output_tokens", steps.output_tokens if steps else 0)
    finished, reason = known.get("finished_ns"), known.get("finish_reason")
    if steps is not None and finished is None and (gone or reason is not None):
        finished = steps.last_ns
    if finished is not None and reason is None:
        reason = "length" if output == known.get("max_new_tokens", output) else "stop"
    if reason not in _REASONS:  # aborted: its output is not what it would have been
        finished, reason = None, None
    limit = known.get("max_new_tokens", output)
    row = {
        "request_id": name,
        "arrival_ns": known.get("arrival_ns", known.get("admitted_ns", steps.first_ns if steps else 0)),
        "admitted_ns": known.get("admitted_ns", steps.first_ns if steps else None),
        "first_token_ns": known.get("first_token_ns", steps.token_ns if steps else None),
        "finished_ns": finished,
        "prompt_tokens": max(prompt or 0, 1),
        "output_tokens": output,
        "max_new_tokens": output if reason == "length" else max(limit, output),  # a context's end is a length too
        "finish_reason": reason,
        "kind": known.get("kind"),
        "prompt_ids": _if_long(known.get("prompt_ids"), prompt),
        "output_ids": _if_long(known.get("output_ids"), output),
        "output_margin": None,
    }
    return row


def _whole(row: dict[str, Any], steps: _Seen) -> bool:
    """Whether the steps hold every token that the request emitted."""
    return bool(row["output_tokens"] == steps.output_tokens and steps.anchor in (None, row["prompt_tokens"]))


def _if_long(ids: list[int] | None, length: int | None) -> list[int] | None:
    return ids if ids is not None and len(ids) == length else None
