"""A small trace that obeys every invariant: two requests, one prefill and three decode steps of SL 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simtool.step.placement import BUILT_IN
from simtool.trace.manifest import Manifest

Columns = dict[str, list[Any]]


def small_manifest(**changes: Any) -> Manifest:
    settings: dict[str, Any] = {
        "origin": "live",
        "engine": "simtool",
        "engine_version": "0.1.0",
        "device": "cpu",
        "device_name": "test",
        "models": {"target": {"id": "tiny", "sha256": "0" * 64}},
        "algorithm": "dspark",
        "sl": 2,
        "block_width": 2,
        "concurrency": 2,
        "placement": BUILT_IN["lag"].to_dict(),
        "controller": {"predictor": None, "draft_ms": 0.0, "min_gain": 0.0},
        "sampling": {"temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": 0},
        "seed": 0,
        "clock": "CLOCK_MONOTONIC",
    }
    return Manifest(**(settings | changes))


def columns_of(names: str, rows: Sequence[Sequence[Any]]) -> Columns:
    return {name: [row[i] for row in rows] for i, name in enumerate(names.split())}


def small_tables() -> Mapping[str, Columns]:
    return {
        "requests": columns_of(
            "request_id arrival_ns admitted_ns first_token_ns finished_ns "
            "prompt_tokens output_tokens max_new_tokens finish_reason",
            [("a", 0, 0, 100, 400, 4, 6, 6, "length"), ("b", 0, 0, 100, 400, 5, 5, 8, "stop")],
        ),
        "steps": columns_of(
            "step kind start_ns end_ns batch validate_rows pruned placement",
            [
                (0, "prefill", 0, 100, 2, 9, False, "lag"),
                (1, "decode", 100, 200, 2, 6, False, "lag"),
                (2, "decode", 200, 300, 2, 4, True, "lag"),
                (3, "decode", 300, 400, 2, 5, True, "lag"),
            ],
        ),
        "rows": columns_of(
            "step request_id slot anchor_position kv_len confidence draft_tokens prefix_len accepted emitted fresh",
            [
                (1, "a", 0, 4, 4, [0.5, 0.5], [7, 8], 2, 1, 2, False),
                (1, "b", 1, 5, 5, [0.5, 0.5], [7, 8], 2, 0, 1, False),
                (2, "a", 0, 6, 6, [0.5, 0.5], [7, 8], 1, 1, 2, True),
                (2, "b", 1, 6, 6, [0.5, 0.5], [7, 8], 1, 0, 1, True),
                (3, "a", 0, 8, 8, [0.5, 0.5], [7, 8], 1, 0, 1, True),
                (3, "b", 1, 7, 7, [0.5, 0.5], [7, 8], 2, 2, 2, True),
            ],
        ),
        "events": columns_of(
            "step op lane start_ns end_ns wait_start_ns wait_end_ns flow bytes",
            [
                (0, "launch_prefill", "host", 0, 20, None, None, 1, 0),
                (0, "prefill", "compute", 20, 90, None, None, 1, 0),
                (0, "read_tokens", "host", 20, 100, 30, 95, 2, 0),
                (0, "read_tokens", "copy", 90, 94, None, None, 2, 8),
                *[event for step in (1, 2, 3) for event in _decode_events(step)],
            ],
        ),
        "outcomes": columns_of(
            "request_id anchor_position confidence match_run source",
            [
                ("a", 4, [0.5, 0.5], 1, "visited"),
                ("a", 5, [0.5, 0.5], 0, "filled"),
                ("a", 6, [0.5, 0.5], 2, "visited"),
                ("a", 8, [0.5, 0.5], 0, "visited"),
                ("b", 5, [0.5, 0.5], 0, "visited"),
                ("b", 6, [0.5, 0.5], 0, "visited"),
                ("b", 7, [0.5, 0.5], 2, "visited"),
            ],
        ),
    }


def _decode_events(step: int) -> list[tuple[Any, ...]]:
    start, flow = step * 100, step * 10
    return [
        (step, "launch_target", "host", start, start + 20, None, None, flow, 0),
        (step, "target", "compute", start + 20, start + 80, None, None, flow, 0),
        (step, "read_tokens", "host", start + 20, start + 100, start + 30, start + 95, flow + 1, 0),
        (step, "read_tokens", "copy", start + 80, start + 90, None, None, flow + 1, 16),
    ]
