"""What is cut, what is queued again, and what is refused."""

import dataclasses

import pytest

from simtool.errors import UsageError
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario
from simtool.step.placement import BUILT_IN
from simtool.study.full_batch import workload
from simtool.trace.queue_order import queue_order
from simtool.trace.trace import Trace
from tests.replay.synthetic import constant_costs, profile_of, random_work, source_trace


@pytest.fixture
def source(tmp_path):
    return source_trace(tmp_path / "source", random_work(3, 4, 10))


def test_the_whole_trace_once(source):
    assert workload(source, 4, None).table("requests").height == 10
    with pytest.raises(UsageError, match="holds 10 finished requests"):
        workload(source, 11, None)


def test_the_whole_of_a_stored_trace_stays_where_it_is(source):
    whole, asked = workload(source, 4, None), queue_order(source)
    assert whole.table("requests").equals(asked)
    cut = workload(Trace(source.path, dataclasses.replace(source.manifest, complete=False)), 4, None)
    for name in ("rows", "outcomes"):
        assert whole.file_of(name) == source.file_of(name)
        assert whole.table(name).equals(cut.table(name))  # row by row picked out of the trace


def test_cut_to_the_first_of_the_queue(source):
    short = workload(source, 4, 2)
    assert short.table("requests")["request_id"].to_list() == [f"r{i}" for i in range(8)]
    assert set(short.table("outcomes")["request_id"]) <= {f"r{i}" for i in range(8)}


def test_queued_again_and_emitting_the_same(source):
    long = workload(source, 12, 2)
    ids = long.table("requests")["request_id"].to_list()
    assert len(ids) == 24
    assert {"r0", "r0#2", "r0#3"} <= set(ids)
    rows = replay(long, profile_of(constant_costs(pre=1)), Scenario(BUILT_IN["static"], 12)).tables["rows"]
    by_request = {name: part["emitted"].to_list() for (name,), part in rows.group_by("request_id", maintain_order=True)}
    copies = [name for name in by_request if "#" in name]
    assert copies
    for name in copies:
        assert by_request[name] == by_request[name.partition("#")[0]]


@pytest.mark.parametrize(("concurrency", "waves"), [(0, 1), (1, 0)])
def test_refused(source, concurrency, waves):
    with pytest.raises(UsageError, match="expected 1 or more"):
        workload(source, concurrency, waves)
