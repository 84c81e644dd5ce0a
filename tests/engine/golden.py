"""The small random-weight pairs in tests/data/golden, and what the drafters' own code makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simtool.engine.runner.spec import RunnerSpec
from tests.engine.driving import BLOCK_SIZE, Stream

FOLDER = Path(__file__).parents[1] / "data" / "golden"
NAMES = ("dspark_b7", "dspark_b16", "nomarkov_b7", "dflash_b16")
BLOCKS_EACH = 40


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / name / "expected.json").read_text())["cases"]
    return found


def spec(name: str, slots: int = 4, **changes: Any) -> RunnerSpec:
    fields = {"kv_blocks": slots * BLOCKS_EACH, "block_size": BLOCK_SIZE, "context_tokens": 160, **changes}
    return RunnerSpec(FOLDER / name / "target", FOLDER / name / "draft", slots, **fields)


def streams(prompts: list[list[int]], blocks: list[int] | None = None) -> list[Stream]:
    """One stream a prompt, in slots 0, 1, ...; `blocks` is the order in which KV blocks are handed out."""
    blocks = list(range(len(prompts) * BLOCKS_EACH)) if blocks is None else blocks
    return [
        Stream(prompt, slot, blocks[slot * BLOCKS_EACH : (slot + 1) * BLOCKS_EACH], key=slot)
        for slot, prompt in enumerate(prompts)
    ]
