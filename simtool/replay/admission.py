"""Who may run at once: the live run's scheduler, over a KV cache of the scenario's size."""

from __future__ import annotations

from collections.abc import Sequence

from simtool.errors import CapacityError
from simtool.replay.scenario import Scenario
from simtool.step.scheduler import BlockPool, Request, Scheduler
from simtool.trace.manifest import Manifest

_BLOCK_SIZE = 16


def make_scheduler(manifest: Manifest, scenario: Scenario, queue: Sequence[Request]) -> Scheduler:
    """Return a scheduler with the requests queued; raises CapacityError for one that could never fit."""
    scheduler = _empty(manifest, scenario, queue)
    for request in queue:
        scheduler.add(request)
    return scheduler


def admissible(
    manifest: Manifest, scenario: Scenario, requests: Sequence[Request]
) -> tuple[list[Request], list[CapacityError]]:
    """Return the requests that the KV cache can ever hold, and a refusal for each of the others."""
    scheduler = _empty(manifest, scenario, requests)
    fitting, refusals = [], []
    for request in requests:
        try:
            scheduler.add(request)
        except CapacityError as refusal:
            refusals.append(refusal)
        else:
            fitting.append(request)
    return fitting, refusals


def tells_kv_cache(manifest: Manifest) -> bool:
    """Whether the trace says how large its KV cache was."""
    return manifest.run.kv_blocks is not None


def told_kv_cache(manifest: Manifest, scenario: Scenario) -> dict[str, int]:
    """Return the KV cache that a replay has, as its manifest tells it; nothing where that is not known."""
    blocks, size = _blocks(manifest, scenario), manifest.run.block_size
    if blocks is None:
        return {} if size is None else {"block_size": size}
    return {"block_size": size or _BLOCK_SIZE, "kv_blocks": blocks}


def _empty(manifest: Manifest, scenario: Scenario, queue: Sequence[Request]) -> Scheduler:
    """A trace that does not tell its KV cache gets one that never fills."""
    lookahead, size, blocks = manifest.sl + 1, manifest.run.block_size or _BLOCK_SIZE, _blocks(manifest, scenario)
    if blocks is None:
        blocks = sum(-(-(r.prompt_tokens + r.max_new_tokens + lookahead) // size) for r in queue)
    return Scheduler(scenario.concurrency, BlockPool(blocks, size), lookahead)


def _blocks(manifest: Manifest, scenario: Scenario) -> int | None:
    recorded = manifest.run.kv_blocks
    if scenario.kv_blocks is not None or recorded is None:
        return scenario.kv_blocks
    return max(recorded, -(-recorded * scenario.concurrency // max(manifest.concurrency, 1)))
