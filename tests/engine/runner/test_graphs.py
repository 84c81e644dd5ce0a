"""Padded forwards and bucket choice, on a device whose graphs recompute: the same tokens as eagerly, in any bucket."""

from __future__ import annotations

import pytest
import torch

from simtool.engine.devices.virtual import TimedDevice, same_durations
from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.graphs import Spare, pad_into, padding
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.runner import Runner, load_runner
from simtool.engine.serving.engine import run
from simtool.engine.serving.session import RunPlan, Session
from simtool.engine.serving.worker import BlockShape, Worker
from simtool.errors import DeviceError, UsageError
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.graph_buckets import pick_bucket
from simtool.step.placement import resolve_placement
from simtool.step.scheduler import BlockPool, Scheduler
from tests.engine import golden
from tests.engine.driving import generate
from tests.engine.recomputing import RecomputingCapture
from tests.engine.small_runs import Keeping

TOKENS = 24


def graphed(name: str, slots: int, graph_rows: int) -> tuple[Runner, RecomputingCapture]:
    spec = golden.spec(name, slots, graph_rows=graph_rows)
    target = load_target(spec.target, torch.float32)
    capture = RecomputingCapture()
    return Runner(target, load_draft(spec.draft, target, torch.float32), spec, capture=capture), capture


@pytest.mark.parametrize("name", golden.NAMES)
@pytest.mark.parametrize("graph_rows", [512, 13])
def test_padding_changes_no_token_in_graphs_and_past_them(name, graph_rows):
    cases = golden.cases(name)[:3]
    runner, capture = graphed(name, 3, graph_rows)
    device = TimedDevice(runner, same_durations(1))
    streams = golden.streams([case["prompt"] for case in cases])
    n = device.info.drafts
    generate(device, streams, TOKENS, lambda step, running: [(3 * step + 5 * s.slot) % (n + 1) for s in running])
    assert [s.output[:TOKENS] for s in streams] == [case["output"][:TOKENS] for case in cases]
    assert all(step["accepted"] <= step["prefix"] for s in streams for step in s.steps)
    graphs = device.info.graphs
    assert graphs.target[-1] == min(graph_rows, 3 * (n + 1))
    assert graphs.draft == (1, 2, 3)
    assert len(capture.graphs) == len(graphs.draft) + len(graphs.target)
    assert sum(graph.replays > 0 for graph in capture.graphs) >= 3


def test_padding_rows_write_only_to_spare_pages_and_never_twice_to_one_place():
    spare = Spare(first=40, block=10)
    one = torch.zeros(1, dtype=torch.int64)
    table = torch.zeros(1, 5, dtype=torch.int64)
    static = padding(BatchRows(one, one, one, table, one, table, one), 8, spare)
    tables = torch.tensor([[3, 4], [3, 4], [7, 1]])
    three, lengths = torch.tensor([5, 6, 7]), torch.tensor([1, 2, 6])
    rows = BatchRows(three, three, torch.tensor([12, 13, 28]), tables, lengths, tables, lengths)
    for _ in range(2):  # the second batch finds the first in the buffers
        pad_into(static, rows, spare)
        assert static.mapping.tolist() == [12, 13, 28, 40, 41, 42, 43, 44]
        assert static.lengths.tolist() == [1, 2, 6, 1, 1, 1, 1, 1]
        assert static.tables[:3].tolist() == [[3, 4, 10, 10, 10], [3, 4, 10, 10, 10], [7, 1, 10, 10, 10]]
        assert static.tables[3:].unique().tolist() == [10]
        assert static.ids[3:].unique().tolist() == static.positions[3:].unique().tolist() == [0]


def test_graphs_on_a_cpu_are_refused():
    with pytest.raises(UsageError, match="a cpu has no graphs"):
        load_runner(golden.spec("dspark_b7", graph_rows=8))
    with pytest.raises(UsageError, match="graph_rows is -1"):
        golden.spec("dspark_b7", graph_rows=-1)


def test_a_rebind_without_graphs_that_take_lengths_is_refused():
    runner, _ = graphed("dspark_b7", 1, 8)
    with pytest.raises(DeviceError, match="no graph of 'target' takes lengths from the host"):
        runner.rebind("target")


def test_the_worker_binds_what_it_launches_and_says_which_graph_ran():
    spec = golden.spec("dspark_b7", 3, graph_rows=16)
    target = load_target(spec.target, torch.float32)
    capture = RecomputingCapture(rebinds=True)
    runner = Runner(target, load_draft(spec.draft, target, torch.float32), spec, capture=capture)
    device = TimedDevice(runner, same_durations(1))
    cases = golden.cases("dspark_b7")[:3]
    prompts = [Prompt(f"r{i}", tuple(case["prompt"]), 12) for i, case in enumerate(cases)]
    recorder = Keeping(device.now_ns)
    block = BlockShape(device.info.drafts, device.info.block_width, device.info.mask_token_id)
    scheduler = Scheduler(3, BlockPool(spec.kv_blocks, spec.block_size), lookahead=device.info.drafts + 1)
    controller = ControllerSettings(LinearPredictor(1.0, 0.3, 0.0))
    worker = Worker(device, scheduler, block, resolve_placement("lag+rebind"), controller, recorder)
    result = run(worker, prompts, device.info.max_tokens)
    assert result.output_ids == {f"r{i}": case["output"][:12] for i, case in enumerate(cases)}
    buckets = device.info.graphs.target
    assert {s.graph_bucket for s in recorder.decodes} >= {None, 16}
    for s in recorder.decodes:
        assert s.graph_bucket == pick_bucket(buckets, s.cu_rows[-1])
    for graph in capture.graphs:
        assert len(graph.bound) == graph.replays
    widths = [len(lengths) for graph in capture.graphs for lengths in graph.bound]
    assert set(widths) <= {*device.info.graphs.draft, *buckets}


@pytest.mark.parametrize(("rebinds", "name"), [(True, "static"), (False, "static+rebind")])
def test_a_session_wants_the_placement_that_its_graphs_need(rebinds, name):
    spec = golden.spec("dspark_b7", 1, graph_rows=8)
    target = load_target(spec.target, torch.float32)
    draft = load_draft(spec.draft, target, torch.float32)
    runner = Runner(target, draft, spec, capture=RecomputingCapture(rebinds=rebinds))
    session = Session(TimedDevice(runner, same_durations(1)), spec)
    prompt = Prompt("r0", tuple(golden.cases("dspark_b7")[0]["prompt"]), 4)
    with pytest.raises(UsageError, match=r"use static\+rebind|drop \+rebind"):
        session.check(RunPlan([prompt], resolve_placement(name)))
