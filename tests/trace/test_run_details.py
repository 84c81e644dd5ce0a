"""Typed details: what is told arrives typed, what is not told is None, and a key that nobody knows survives."""

from __future__ import annotations

from pathlib import Path

import pytest

from simtool.errors import TraceError
from simtool.step.beyond import Beyond
from simtool.step.graph_buckets import GraphBuckets
from simtool.trace.run_details import Bootstrap, ServedWorkload
from simtool.trace.trace import open_trace, write_trace
from tests.trace.small import small_manifest

TOLD = {
    "command": "simtool record",
    "dtype": "float32",
    "kv_blocks": 7,
    "block_size": 16,
    "executors": {"compute": "device"},
    "graphs": {"draft": [1], "target": [4, 8], "rebinds": False},
    "closed_loop": True,
    "machine": {"cores": 2, "others_share": 0.25},
    "workload": {"source": "azure.csv", "requests": 2, "warnings": ["cut"]},
    "bootstrap": {
        "unit": "request",
        "seed": 3,
        "share_of_outcomes": 1.0,
        "recorded_requests": 4,
        "draws": 5,
        "spliced_requests": 1,
    },
}


def test_what_is_told_is_typed_and_unknown_keys_survive(tmp_path: Path) -> None:
    details = {**TOLD, "from_a_later_version": [1, {"deep": None}]}
    run = write_trace(tmp_path / "t", small_manifest(details=details), {}).manifest.run
    assert (run.command, run.dtype, run.kv_blocks, run.block_size) == ("simtool record", "float32", 7, 16)
    assert run.graphs == GraphBuckets((1,), (4, 8), False)
    assert (run.executors, run.closed_loop, run.others_share) == ({"compute": "device"}, True, 0.25)
    assert run.workload == ServedWorkload(source="azure.csv", requests=2, warnings=("cut",))
    assert run.bootstrap == Bootstrap(
        unit="request", seed=3, share_of_outcomes=1.0, recorded_requests=4, draws=5, spliced_requests=1
    )
    assert open_trace(tmp_path / "t").manifest.details == details


def test_what_is_not_told_is_none() -> None:
    manifest = small_manifest(details={"machine": None})
    assert (manifest.run.dtype, manifest.run.executors, manifest.run.others_share) == (None, None, None)
    assert manifest.run.graphs == GraphBuckets()
    assert not manifest.drawn


@pytest.mark.parametrize("origin", ["live", "imported"])
def test_only_a_replay_tells_of_a_replay(origin: str) -> None:
    told = {"source": "a.json", "profile": {"name": "p", "changes": ["decide=0"]}, "outcomes": "exact"}
    replayed = small_manifest(origin="replayed", details=told).replay
    assert replayed.costs is not None
    assert (replayed.source, replayed.costs.name, replayed.costs.changes) == ("a.json", "p", ("decide=0",))
    assert small_manifest(origin=origin, details=told).replay.costs is None


def test_an_import_tells_what_it_rejected() -> None:
    told = {"source": "a.json", "rejected": {"no time": {"count": 1, "first": "x"}}}
    assert small_manifest(origin="imported", details=told).imported.rejected
    assert not small_manifest(details=told).imported.rejected


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"kv_blocks": "many"}, "kv_blocks is 'many'; expected a whole number, or leave it out"),
        ({"kv_blocks": True}, "kv_blocks is True; expected a whole number"),
        ({"executors": 5}, "executors is 5; expected a table"),
        ({"bootstrap": {"seed": 1}}, "bootstrap: cannot be read"),
    ],
)
def test_another_kind_is_named(details: dict[str, object], message: str) -> None:
    with pytest.raises(TraceError, match=f"details: {message}|details: .*{message}"):
        _ = small_manifest(details=details).run


def test_work_beyond_the_calibrated_sizes_survives_and_is_checked() -> None:
    told = {"name": "target", "feature": "batch", "value": 64, "low": 1.0, "high": 32}
    assert small_manifest(origin="replayed", details={"beyond": [told]}).replay.beyond == (
        Beyond("target", "batch", 64, 1, 32),
    )
    for broken in ("much", [{**told, "value": "64"}], [{"name": "target"}]):
        with pytest.raises(TraceError, match="details: beyond cannot be read"):
            _ = small_manifest(origin="replayed", details={"beyond": broken}).replay
