"""A step table from a profile: dummy steps of many sizes through the simulator, as servers profile themselves at start.

What comes out is what a step really takes under a placement: only work that is exposed counts, host or device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from simtool.profile.profile import Profile
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.prices.cost_sampler import CostSampler
from simtool.replay.prices.step_program import StepProgram
from simtool.replay.recorder import StepTimes
from simtool.replay.replay import as_run
from simtool.replay.scenario import Scenario
from simtool.replay.simulator import Simulator
from simtool.replay.step_planner import Block, StepPlan
from simtool.step.cost_features import DecodeShape
from simtool.step.placement import Placement
from simtool.step.step_table import StepTable
from simtool.trace.trace import Trace
from simtool.units import NS_PER_MS

Floats = NDArray[np.float64]
#: Shares of the drafts that are offered, as a profiler forces them.
_SHARES = 8
_MOST_PROBES = 32
#: How much a bend counts beside a step's time: where steps tell, nothing.
_STRAIGHTEN = 1e-3
#: Tokens that each sequence of a dummy step gets: what the drafter's context takes does not depend on the offer.
_EMITTED = 2


def with_step_table(source: Trace, profile: Profile, scenario: Scenario, asked: ControllerOptions) -> Scenario:
    """Return the scenario with what its steps take at the profile's costs, where its policy profiles that.

    As it is where the recording's controller had a table, or a predictor or a draft time is asked for instead. Raises
    ProfileError when the profile lacks the cost of an op.
    """
    told = scenario.controller.table is not None or asked.predictor is not None or asked.draft_ms is not None
    if told or "table" not in scenario.placement.rule.reads:
        return scenario
    manifest = source.manifest
    block = Block(manifest.sl, manifest.block_width, profile.graphs)
    costs, run = as_run(profile, scenario)
    table = step_table(costs, run.placement, block, _mean_kv(source), scenario.concurrency)
    return replace(scenario, controller=replace(scenario.controller, table=table))


def _mean_kv(source: Trace) -> int:
    """Tokens of a request that are there on average over its output."""
    served = source.table("requests").select((pl.col("prompt_tokens") + pl.col("output_tokens") / 2).mean())
    return round(served.item() or 0)


@dataclass(frozen=True)
class _Size:
    batch: int
    offered: int

    @property
    def rows(self) -> int:
        return self.batch + self.offered


def step_table(profile: Profile, placement: Placement, block: Block, kv_len: int, most_batch: int) -> StepTable:
    """Return what steps of up to so many sequences take under a placement, each with so many tokens in its kv cache.

    Raises ProfileError when the profile lacks the cost of an op.
    """
    sizes = list(_sizes(most_batch, block))
    times = _Durations()
    Simulator(
        _DummySteps(sizes, placement, block, kv_len), CostSampler(profile, "none", 0, placement.handed_on), times
    ).run()
    step_ms = np.array(times.step_ns, np.float64) / NS_PER_MS
    pruned = [i for i, size in enumerate(sizes) if size.offered < size.batch * block.drafts]
    table = _fitted([sizes[i] for i in pruned], step_ms[pruned])
    return replace(table, full_ms=tuple(_whole(sizes, step_ms, table, block.drafts)))


def _sizes(most_batch: int, block: Block) -> Iterator[_Size]:
    batches = sorted({most_batch, *(1 << k for k in range(most_batch.bit_length()) if 1 << k <= most_batch)})
    for batch in batches:
        most = batch * block.drafts
        offered = {round(most * share / _SHARES) for share in range(_SHARES + 1)}
        offered |= {rows - batch for rows in block.graphs.target if batch <= rows <= batch + most}
        yield from (_Size(batch, each) for each in sorted(offered))


def _fitted(sizes: list[_Size], step_ms: Floats) -> StepTable:
    """Parts of the batch and of the rows whose sums are nearest to the steps; rows between probes are in a line.

    Many row counts are those of one batch alone, where a time could count for either: of equally near tables the
    straightest is taken.
    """
    rows = np.array([size.rows for size in sizes])
    distinct = np.unique(rows)
    probes = distinct[np.unique(np.linspace(0, len(distinct) - 1, _MOST_PROBES).round().astype(int))]
    batches = sorted({size.batch for size in sizes})
    columns = np.zeros((len(sizes), len(batches) + len(probes)))
    columns[np.arange(len(sizes)), [batches.index(size.batch) for size in sizes]] = 1.0
    for k in range(len(probes)):
        columns[:, len(batches) + k] = np.interp(rows, probes, np.eye(len(probes))[k])
    bends = np.hstack([np.zeros((max(len(probes) - 2, 0), len(batches))), _STRAIGHTEN * _bends(probes)])
    wanted = np.concatenate([step_ms, np.zeros(len(bends))])
    found = np.linalg.lstsq(np.vstack([columns, bends]), wanted, rcond=None)[0]
    token_ms = found[len(batches) :]
    batch_ms = found[: len(batches)] + token_ms.min()
    return StepTable(
        batches=tuple(batches),
        batch_ms=tuple(np.maximum(batch_ms, 0.0).tolist()),
        tokens=tuple(probes.tolist()),
        token_ms=tuple((token_ms - token_ms.min()).tolist()),
    )


def _bends(probes: NDArray[np.int64]) -> Floats:
    """Return how far the slope changes at each probe between two others, by the ms at each: [probes - 2, probes]."""
    slopes = np.diff(np.eye(len(probes)), axis=0) / np.diff(probes)[:, None]
    return np.diff(slopes, axis=0)


def _whole(sizes: list[_Size], step_ms: Floats, table: StepTable, drafts: int) -> Iterator[float]:
    """How far a full-width step of each batch is from what the table says of its rows: it takes the dense way."""
    for batch in table.batches:
        size = _Size(batch, batch * drafts)
        yield float(step_ms[sizes.index(size)] - table.linear_ms(batch, np.array([size.rows]))[0])


class _DummySteps:
    """Plans one decode step of each size, twice, and none that serves anybody: the first warms up."""

    def __init__(self, sizes: list[_Size], placement: Placement, block: Block, kv_len: int) -> None:
        self._left = [size for size in sizes for _ in range(2)]
        self._block, self._kv_len = block, kv_len
        self._keeps = placement.keeps_drafts
        self._ops = {
            pruned: tuple(placement.ops(pruned=pruned, warm=self._keeps, ahead=self._keeps)) for pruned in (False, True)
        }

    @property
    def idle(self) -> bool:
        return not self._left

    def sleep_until_ns(self) -> int:
        return 0

    def plan_ahead(self, now_ns: int) -> list[StepPlan]:
        sizes, self._left = self._left, []
        return list(map(self._plan, sizes))

    def _plan(self, size: _Size) -> StepPlan:
        each, more = divmod(size.offered, size.batch)
        prefixes = [each + (i < more) for i in range(size.batch)]
        pruned = min(prefixes) < self._block.drafts
        shape = DecodeShape(
            num_speculative_tokens=self._block.drafts,
            block_width=self._block.width,
            kv_lens=[self._kv_len] * size.batch,
            prefix_lens=prefixes,
            emitted=[_EMITTED] * size.batch,
            graphs=self._block.graphs,
        )
        return StepPlan(
            kind="decode",
            ops=self._ops[pruned],
            sizes=shape.sizes(),
            key=("dummy", 0),
            batch=size.batch,
            validate_rows=size.rows,
            admitted=[],
            finished=[],
            pruned=pruned,
            warm=self._keeps,
            ahead=self._keeps,
            graph_bucket=shape.graph_bucket,
        )


class _Durations:
    """Keeps how long the second step of each size took."""

    def __init__(self) -> None:
        self._all_ns: list[int] = []

    @property
    def step_ns(self) -> list[int]:
        return self._all_ns[1::2]

    def add_step(self, plan: StepPlan, program: StepProgram, times: StepTimes, start_ns: int, end_ns: int) -> None:
        self._all_ns.append(end_ns - start_ns)

    def flush(self) -> None:
        pass
