"""Small traces made by a toy machine with known costs, for tests of analysis and report.

One host thread, and one device that runs its lanes first come, first served. Outcomes depend on (seed, request,
anchor) alone, so the same seed under two placements decodes the same tokens.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path

import numpy as np
import polars as pl

from simtool.step.ops import Op
from simtool.step.placement import BUILT_IN, PREFILL_ORDER, Placement
from simtool.step.scheduler import ActiveRequest, BlockPool, Request, Scheduler
from simtool.trace.manifest import Manifest
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, write_trace

SL = 7
_US = 1000
_HOST_US = {"decide": 150, "build_varlen": 120, "build_dense": 120, "fill_varlen": 90, "write_context": 40}
_DEVICE_US = {"draft": 700, "sample": 200, "target": 1500, "prefill": 2500}
_TARGET_ROW_US = 20
EXECUTORS = {"prepare": "device", "compute": "device", "copy": "device"}


class Machine:
    """Runs ops against a clock and keeps the events."""

    def __init__(self, rng: np.random.Generator, noise: float, host_scale: float) -> None:
        self.now_ns = 1_000_000
        self.tokens_ns = 0  # when read_tokens last had them on the host
        self.events: dict[str, list[object]] = {column.name: [] for column in TABLES["events"].columns}
        self._rng, self._noise, self._host_scale = rng, noise, host_scale
        self._device_free_ns = 0
        self._flow = 0

    def run(self, step: int, op: Op, rows: int) -> None:
        start = self.now_ns
        launched = start + self._draw(_HOST_US.get(op.name, 20) * self._host_scale)
        last = launched
        for work in op.works:
            begin = max(launched, self._device_free_ns)
            cost = _DEVICE_US.get(work.name, 15) + (_TARGET_ROW_US * rows if work.name == "target" else 0)
            last = self._device_free_ns = begin + self._draw(cost)
            self._add(step, work.name, str(work.lane), begin, last, None, None)
        waited = max(last, launched)
        end = waited + 5 * _US if op.blocks else launched
        wait = (launched, waited) if op.blocks else (None, None)
        self._add(step, op.name, "host", start, end, *wait)
        self._flow += 1
        self.now_ns = end
        if op.name == "read_tokens":
            self.tokens_ns = end

    def _draw(self, mean_us: float) -> int:
        return max(round(mean_us * _US * (1 + self._noise * self._rng.standard_normal())), 1)

    def _add(self, step, op, lane, start, end, wait_start, wait_end) -> None:
        values = (step, op, lane, start, end, wait_start, wait_end, self._flow, 0, None, None, None)
        for column, value in zip(self.events.values(), values, strict=True):
            column.append(value)


def outcome(seed: int, request_id: str, anchor: int) -> tuple[list[float], int]:
    """Confidence and match run of the block drafted at one anchor."""
    rng = np.random.default_rng((seed, int(request_id[1:]), anchor))
    ease = rng.beta(3, 1)
    truth = np.clip(ease + 0.15 * rng.standard_normal(SL), 0.02, 0.98)
    match = int(np.cumprod(rng.random(SL) < truth).sum())
    return [float(x) for x in np.clip(truth + 0.1, 0, 1)], match


def make_trace(
    path: Path,
    placement: str | Placement = "static",
    *,
    origin: str = "live",
    seed: int = 0,
    noise_seed: int = 0,
    noise: float = 0.03,
    host_scale: float = 1.0,
    requests: int = 6,
    concurrency: int = 3,
    new_tokens: int = 40,
    details: dict[str, object] | None = None,
) -> Trace:
    """Run the toy machine under a placement and write what happened as a trace."""
    placement = BUILT_IN[placement] if isinstance(placement, str) else placement
    run = _Run(placement, seed, Machine(np.random.default_rng(noise_seed), noise, host_scale), concurrency)
    for index in range(requests):
        run.scheduler.add(Request(f"r{index}", 10 + index, new_tokens, 0))
    while not run.scheduler.idle:
        run.step()
    manifest = Manifest(
        origin=origin,
        engine="toy",
        engine_version="1",
        device="cpu",
        device_name="toy machine",
        algorithm="dspark",
        sl=SL,
        block_width=SL,
        concurrency=concurrency,
        placement=placement.to_dict(),
        seed=seed,
        clock="toy",
        models={role: {"id": f"toy-{role}", "sha256": "0" * 64} for role in ("target", "draft")},
        controller={"predictor": None, "draft_ms": 0.0, "min_gain": 0.0},
        sampling={"temperature": 0.0, "top_k": 0, "top_p": 1.0, "seed": seed},
        details={"executors": EXECUTORS, **(details or {})},
    )
    return write_trace(path, manifest, run.frames())


class _Run:
    def __init__(self, placement: Placement, seed: int, machine: Machine, concurrency: int) -> None:
        self.placement, self.seed, self.machine = placement, seed, machine
        self.scheduler = Scheduler(concurrency, BlockPool(1000, 16), SL + 1)
        self.columns = {name: {c.name: [] for c in TABLES[name].columns} for name in ("requests", "steps", "rows")}
        self.lagged: dict[str, deque[list[float]]] = {}
        self.count = 0
        self.first: dict[str, int] = {}
        self.admitted: dict[str, int] = {}

    def frames(self) -> dict[str, pl.DataFrame]:
        tables = {**self.columns, "events": self.machine.events}
        return {name: pl.DataFrame(columns, schema=TABLES[name].polars_schema) for name, columns in tables.items()}

    def step(self) -> None:
        new = self.scheduler.admit(self.machine.now_ns)
        if new:
            self._prefill(new)
        else:
            self._decode(list(self.scheduler.running))
        self.count += 1

    def _prefill(self, new: list[ActiveRequest]) -> None:
        start = self.machine.now_ns
        rows = sum(sequence.request.prompt_tokens for sequence in new)
        for op in PREFILL_ORDER:
            self.machine.run(self.count, op, rows)
        for sequence in new:
            sequence.output_tokens = 1
            self.admitted[sequence.request.request_id] = start
            self.first[sequence.request.request_id] = self.machine.tokens_ns
        self._add("steps", self.count, "prefill", start, self.machine.now_ns, len(new), rows, False, "prefill", None)

    def _decode(self, running: list[ActiveRequest]) -> None:
        drawn = [outcome(self.seed, s.request.request_id, s.position) for s in running]
        prefixes = [self._prefix(s, c) for s, (c, _) in zip(running, drawn, strict=True)]
        widths, start = sum(p for p, _ in prefixes) + len(running), self.machine.now_ns
        pruned = any(p < SL for p, _ in prefixes)
        for op in self.placement.ops(pruned=pruned):
            self.machine.run(self.count, op, widths)
        name = self.placement.name
        self._add("steps", self.count, "decode", start, self.machine.now_ns, len(running), widths, pruned, name, None)
        for sequence, (confidence, match), (prefix, fresh) in zip(running, drawn, prefixes, strict=True):
            self._emit(sequence, confidence, min(prefix, match), prefix, fresh)

    def _emit(self, sequence: ActiveRequest, confidence: list[float], accepted: int, prefix: int, fresh: bool) -> None:
        name, at = sequence.request.request_id, sequence.position
        emitted = min(accepted + 1, sequence.remaining)
        tokens = list(range(SL))
        row = (self.count, name, sequence.slot, at, at, confidence, None, tokens, prefix, accepted, emitted, fresh)
        self._add("rows", *row)
        self.lagged.setdefault(name, deque(maxlen=8)).append(confidence)
        sequence.output_tokens += emitted
        if not sequence.remaining:
            self.scheduler.retire(sequence)
            prompt, output = sequence.request.prompt_tokens, sequence.output_tokens
            times = (0, self.admitted[name], self.first[name], self.machine.tokens_ns)
            ids = (None, list(range(output)), None)
            self._add("requests", name, *times, prompt, output, output, "length", "toy", *ids, sequence.slot)

    def _prefix(self, sequence: ActiveRequest, confidence: list[float]) -> tuple[int, bool]:
        lag = self.placement.lag_steps
        if lag is None:
            return SL, True
        past = self.lagged.get(sequence.request.request_id, deque())
        if lag and len(past) < lag:
            return SL, False
        seen = confidence if lag == 0 else past[-lag]
        return int((np.cumprod(seen) > 0.45).sum()), True

    def _add(self, table: str, *values: object) -> None:
        for column, value in zip(self.columns[table].values(), values, strict=True):
            column.append(value)
