"""doublewordai/inference-lab (MIT): its input from a trace, its command, its answer.

What it is told, as its documentation says a measured engine is to be described: request lengths, a bank of draft rounds
(confidence by position, drafts that were accepted), and a table of step times by batch and verify width.
"""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

import simtool as st
from benchmarks.peers.live import BASELINE, Said, Setting
from simtool.files.writing import write_text
from simtool.stats.student import mean_interval

#: Shape of the target that ships; the last two: vocabulary, width of the feed-forward.
_HIDDEN, _LAYERS, _HEADS, _KV_HEADS, _HEAD, _VOCABULARY, _WIDE = 192, 4, 6, 2, 32, 1024, 640
_PARAMETERS = _LAYERS * (_HIDDEN * _HEAD * (2 * _HEADS + 2 * _KV_HEADS) + 3 * _HIDDEN * _WIDE) + _HIDDEN * _VOCABULARY
#: Requests that each slot serves where a steady state is asked for.
_WAVES = 50


@dataclass(frozen=True)
class Way:
    """How an arm is described. waiting: by this-step's own steps, its wait included; else as if nothing waited."""

    waiting: bool

    @property
    def name(self) -> str:
        """As it stands on the page."""
        return "inference-lab, this-step's steps" if self.waiting else "inference-lab, static's steps"


WAYS = (Way(waiting=True), Way(waiting=False))


def predict(command: Path, setting: Setting, arm: str, way: Way, folder: Path, seeds: Sequence[int]) -> Said:
    """Run its command twice a seed, on the requests of the run and on enough of them for a steady state; the means."""
    folder.mkdir(parents=True, exist_ok=True)
    source = setting.trace(BASELINE)
    requests = source.table("requests")
    _write_bank(source, folder / "bank.csv")
    _write_table(setting, waiting=way.waiting and arm != BASELINE, path=folder / "table.csv")
    write_text(folder / "config.toml", _config(setting, arm, folder))
    _write_workload(setting, requests, requests.height, folder, "run")
    decoding = requests.with_columns(prompt_tokens=pl.lit(1))
    _write_workload(setting, decoding, _WAVES * setting.concurrency, folder, "steady")
    runs = np.array([[*_run(command, folder, "run", seed), _run(command, folder, "steady", seed)[0]] for seed in seeds])
    half = mean_interval(runs[:, 3].tolist()).half
    speed, token_ms, drafts, steady = runs.mean(axis=0).tolist()
    return Said(steady=steady, tokens_per_s=speed, token_ms=token_ms, drafts=drafts, half=half)


def _run(command: Path, folder: Path, name: str, seed: int) -> tuple[float, float, float]:
    asked = {"--config": "config.toml", "--workload": f"{name}.toml", "--request-csv": f"{name}.csv"}
    arguments = [part for option, file in asked.items() for part in (option, str(folder / file))]
    subprocess.run([str(command), *arguments, "--seed", str(seed), "--quiet"], check=True, capture_output=True)
    requests = pl.read_csv(folder / f"{name}.csv")
    drafts = pl.read_csv(folder / f"{name}.depth.csv")
    weight = pl.col("mean_decode_batch")
    span_s = requests.select(pl.col("completion").max() - pl.col("arrival").min()).item()
    return (
        requests["output_toks"].sum() / span_s,
        requests.select(pl.col("mean_tpot").fill_nan(None).mean()).item() * 1e3,
        drafts.select((pl.col("mean_draft") * weight).sum() / weight.sum()).item(),
    )


def _write_bank(source: st.Trace, path: Path) -> None:
    """Every block that the static run verified: at full width, what was accepted is what would have been."""
    rows = source.table("rows").select("accepted", "confidence")
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["commits", "category", *(f"a{k}" for k in range(source.manifest.sl))])
        for accepted, confidence in rows.iter_rows():
            writer.writerow([accepted, "all", *(f"{each:.6f}" for each in confidence)])


def _write_table(setting: Setting, *, waiting: bool, path: Path) -> None:
    """A cell for every batch and width: it prices no other, and takes a step that it has no cell for as a roofline."""
    calibration, widths = setting.calibration, setting.sl + 1
    grid = calibration.deciding_grid(widths) if waiting else calibration.full_grid(widths)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["batch_size", "num_draft_tokens", "step_seconds"])
        writer.writerows((batch, width, f"{seconds:.9f}") for (batch, width), seconds in grid.items())


def _write_workload(setting: Setting, requests: pl.DataFrame, count: int, folder: Path, name: str) -> None:
    """So many requests of these lengths, in their order and from the start again, so many at once."""
    lines = [
        json.dumps({"id": request, "steps": [{"input": prompt, "new": prompt, "output": output, "gap": 0.0}]})
        for request, prompt, output in requests.select("request_id", "prompt_tokens", "output_tokens").iter_rows()
    ]
    write_text(folder / f"{name}.jsonl", "\n".join(lines) + "\n")
    lengths = "".join(f'{side}_len_dist = {{ type = "fixed", value = 1 }}\n' for side in ("input", "output"))
    write_text(
        folder / f"{name}.toml",
        f'sessions_path = "{folder / name}.jsonl"\narrival_pattern = "closed_loop"\n'
        f"num_concurrent_users = {setting.concurrency}\nnum_sessions = {count}\nseed = 1\n{lengths}",
    )


def _config(setting: Setting, arm: str, folder: Path) -> str:
    rate = 2 * _PARAMETERS / setting.calibration.prefill_token_s()  # of prompts alone: the table prices the rest
    policy = "fixed" if arm == BASELINE else "gated_budget"
    return (
        "[model]\n"
        f'name = "shipped"\nhidden_dim = {_HIDDEN}\nmax_seq_len = 512\nattention_precision = "fp16"\n'
        "[[model.weights]]\n"
        f'precision = "fp16"\nactive_params = {_PARAMETERS}\nresident_params = {_PARAMETERS}\n'
        "[[model.layers]]\n"
        f'kind = "attention"\ncount = {_LAYERS}\nheads = {_HEADS}\nhead_dim = {_HEAD}\nkv_heads = {_KV_HEADS}\n'
        'kv_precision = "fp16"\n'
        "[scheduler]\n"
        f'max_num_batched_tokens = 8192\nmax_num_seqs = {setting.concurrency}\npolicy = "fcfs"\n'
        "enable_chunked_prefill = true\nblock_size = 16\n"
        "[speculative]\n"
        f'gamma = {setting.sl}\npolicy = "{policy}"\n'
        f'acceptance = {{ kind = "trace_rounds", path = "{folder / "bank.csv"}" }}\n'
        f'measured_cost = {{ path = "{folder / "table.csv"}" }}\n'
        f'drafter = {{ kind = "block_parallel", params = 0.0, block = {setting.sl} }}\n'
        "[hardware.here]\n"
        "[hardware.here.spec]\n"
        f'name = "here"\nflops_fp16 = {rate:.6e}\nmemory_bandwidth = 1.0e15\nmemory_capacity = 1000000000000\n'
    )
