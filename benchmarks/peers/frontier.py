"""NetX-lab/Frontier (MIT): its input from a trace, its command, its answer.

What it is told, in its own formats: operator times of the target by rows; a latency profile, by sequences, of all else
that a step does (its place for what a proposer takes); and for each request, iteration by iteration, how many drafts
the live run verified and how many tokens it committed. It decides no widths, so these are the judged run's own.
"""

from __future__ import annotations

import csv
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import polars as pl

import simtool as st
from benchmarks.peers.live import Said, Setting
from simtool.files.writing import write_text

_MODEL, _DEVICE, _METHOD = "shipped-target", "h100", "eagle"
_HIDDEN, _LAYERS, _HEADS, _KV_HEADS = 192, 4, 6, 2
#: The operators of a layer that its profile names; the measured forward is put into one, for it was timed as a whole.
_WHOLE = "mlp_up_proj"
_OPERATORS = (
    "emb",
    "input_layernorm",
    "attn_pre_proj",
    "attn_rope",
    "attn_post_proj",
    "post_attention_layernorm",
    _WHOLE,
    "mlp_act",
    "mlp_down_proj",
    "add",
)
_MOST_ROWS = 1024
_NOTHING_MS = 1e-9


@dataclass(frozen=True)
class Peer:
    """A checkout and a Python that has what it imports."""

    checkout: Path
    python: Path


def predict(peer: Peer, setting: Setting, arm: str, folder: Path) -> Said:
    """Run its command on what the arm's live run did, at costs of the calibration runs."""
    judged = setting.trace(arm)
    served = _served(judged)
    _write_model(folder)
    _write_operators(setting, folder)
    _write_beside(setting, folder)
    _write_requests(served, folder)
    _write_acceptance(judged, served, folder)
    subprocess.run(
        [str(peer.python), "-m", "frontier.main", *_arguments(setting, folder)],
        cwd=folder,
        env={"PYTHONPATH": str(peer.checkout), "WANDB_DISABLED": "true", "PATH": "/usr/bin:/bin"},
        check=True,
        capture_output=True,
    )
    return _read(served, folder / "out")


def _served(judged: st.Trace) -> pl.DataFrame:
    """Requests in the order in which they are served, all there at the start."""
    return (
        judged.table("requests")
        .sort("admitted_ns", "request_id")
        .select("request_id", "prompt_tokens", "output_tokens")
    )


def _write_model(folder: Path) -> None:
    shape = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "hidden_size": _HIDDEN,
        "intermediate_size": 640,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "max_position_embeddings": 512,
        "vocab_size": 1024,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
    }
    path = folder / "data" / "config" / "models" / f"{_MODEL}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(shape))


def _write_operators(setting: Setting, folder: Path) -> None:
    line = setting.calibration.device_line("target")
    place = folder / "data" / "profiling" / "compute" / _DEVICE / _MODEL
    place.mkdir(parents=True, exist_ok=True)
    common = {
        "num_tensor_parallel_workers": 1,
        "measurement_type": "CUDA_EVENT",
        "profiling_precision": "BF16",
        "quant_signature": "none",
        "model_arch": "generic",
        "model_architecture_profile": "generic",
    }
    sizes = [*range(1, 65), *range(72, _MOST_ROWS + 1, 8)]
    linear = [
        {
            **{f"time_stats.{name}.median": _NOTHING_MS for name in _OPERATORS},
            f"time_stats.{_WHOLE}.median": max(line.constant_ms + line.row_ms * rows, 0.0) / _LAYERS,
            "n_head": _HEADS,
            "n_kv_head": _KV_HEADS,
            "n_embd": _HIDDEN,
            "n_expanded_embd": 640,
            "vocab_size": 1024,
            "use_gated_mlp": True,
            "use_qk_norm": False,
            "num_tokens": rows,
            **common,
        }
        for rows in sizes
    ]
    _write_rows(place / "linear_op.csv", linear)
    _write_rows(place / "attention.csv", [{**each, **common} for each in _attention()])


def _attention() -> list[dict[str, object]]:
    """Rows of every kind that its models of attention are fitted to; they cost nothing: the forward was timed whole."""
    found: list[dict[str, object]] = []
    for batch in (1, 2, 4, 8, 16, 32):
        for kv in (0, 64, 128, 256, 512):
            for chunk in (0, 8, 64, 256):
                prefill = chunk > 0
                each = chunk if prefill else 1
                found.append(
                    {
                        **{
                            f"time_stats.{name}.median": _NOTHING_MS
                            for name in (
                                "attn_input_reshape",
                                "attn_kv_cache_save",
                                "attn_prefill",
                                "attn_decode",
                                "attn_output_reshape",
                            )
                        },
                        "n_embd": _HIDDEN,
                        "n_q_head": _HEADS,
                        "n_kv_head": _KV_HEADS,
                        "block_size": 16,
                        "max_model_len": 512,
                        "batch_size": batch,
                        "prefill_chunk_size": chunk,
                        "kv_cache_size": kv,
                        "is_prefill": prefill,
                        "attention_backend": "FLASHINFER",
                        "is_mixed_batch": prefill and batch > 1,
                        "is_true_mixed_batch": False,
                        "total_tokens": batch * each,
                        "max_seq_len": each,
                        "min_seq_len": each,
                        "avg_seq_len": each,
                        "seq_len_variance": 0.0,
                        "seq_len_cv": 0.0,
                        "num_prefill_seqs": batch if prefill else 0,
                        "num_decode_seqs": 0 if prefill else batch,
                        "decode_avg_kv_cache_size": kv,
                        "total_prefill_tokens": batch * each if prefill else 0,
                    }
                )
    return found + [{**row, "is_true_mixed_batch": True} for row in found if row["is_mixed_batch"]]


def _write_beside(setting: Setting, folder: Path) -> None:
    """What a step takes beside the target, by sequences; past the calibrated sizes on along a straight line."""
    table = setting.calibration.beside_ms("target")
    known = dict(table.iter_rows())
    slope = (known[max(known)] - known[min(known)]) / (max(known) - min(known))
    entries = [
        {
            "method": _METHOD,
            "model_name": _MODEL,
            "attn_tp_size": 1,
            "num_speculative_tokens": setting.sl,
            "spec_verify_request_count": batch,
            "latency_ms": known.get(batch, known[max(known)] + slope * (batch - max(known))),
        }
        for batch in range(1, setting.concurrency + 1)
    ]
    write_text(folder / "beside.json", json.dumps({"entries": entries}))


def _write_requests(served: pl.DataFrame, folder: Path) -> None:
    rows = [
        {"arrived_at": 0.0, "num_prefill_tokens": prompt, "num_decode_tokens": output}
        for _, prompt, output in served.iter_rows()
    ]
    _write_rows(folder / "requests.csv", rows)


def _write_acceptance(judged: st.Trace, served: pl.DataFrame, folder: Path) -> None:
    rows = judged.table("rows").sort("step").group_by("request_id").agg("prefix_len", "emitted")
    by_request = {name: (widths, tokens) for name, widths, tokens in rows.iter_rows()}
    lists = [by_request.get(name, ([], [])) for name in served["request_id"]]
    committed = {str(i): tokens for i, (_, tokens) in enumerate(lists)}
    offered = {str(i): widths for i, (widths, _) in enumerate(lists)}
    told = {
        "committed_tokens_per_iteration": [1],
        "per_request_committed_tokens_per_iteration": committed,
        "per_request_scheduled_draft_tokens_per_iteration": offered,
    }
    write_text(folder / "acceptance.json", json.dumps(told))


def _write_rows(path: Path, rows: list[dict[str, object]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _arguments(setting: Setting, folder: Path) -> list[str]:
    predictor = "linear_regression_execution_time_predictor_config"
    told = {
        "simulation_mode": "offline",
        "sys_arch": "co-location",
        "cc_backend_config_type": "analytical",
        "cluster_config_num_replicas": 1,
        "replica_config_device": _DEVICE,
        "replica_config_model_name": _MODEL,
        "replica_config_attn_tensor_parallel_size": 1,
        "replica_config_num_pipeline_stages": 1,
        "replica_config_attn_data_parallel_size": 1,
        "replica_scheduler_config_type": "vllm_v1",
        "vllm_v1_scheduler_config_batch_size_cap": setting.concurrency,
        "vllm_v1_scheduler_config_max_tokens_in_batch": 4096,
        "decode_cuda_graph_mode": "none",
        "request_generator_config_type": "trace_replay",
        "trace_request_generator_config_trace_file": folder / "requests.csv",
        "execution_time_predictor_config_type": "linear_regression",
        f"{predictor}_polynomial_degree": 1,
        f"{predictor}_prediction_max_tokens_per_request": 1024,
        f"{predictor}_prediction_max_prefill_chunk_size": 512,
        f"{predictor}_attention_decode_batching_overhead_fraction": 0,
        f"{predictor}_attention_prefill_batching_overhead_fraction": 0,
        "speculative_decoding_config_method": _METHOD,
        "speculative_decoding_config_num_speculative_tokens": setting.sl,
        "speculative_decoding_config_acceptance_trace_file": folder / "acceptance.json",
        "speculative_decoding_config_decode_draft_proposer_latency_profile_file": folder / "beside.json",
        "metrics_config_output_dir": folder / "out",
        "metrics_config_run_id": "run",
    }
    flags = (
        "--speculative_decoding_config_enabled",
        "--vllm_v1_scheduler_config_enable_chunked_prefill",
        f"--{predictor}_no_cache",
        "--metrics_config_write_metrics",
        "--metrics_config_store_request_metrics",
        "--metrics_config_store_batch_metrics",
        "--metrics_config_keep_individual_batch_metrics",
        "--no-metrics_config_store_plots",
        "--no-metrics_config_enable_chrome_trace",
        "--no-metrics_config_write_json_trace",
    )
    return [part for name, value in told.items() for part in (f"--{name}", str(value))] + list(flags)


def _read(served: pl.DataFrame, out: Path) -> Said:
    """Its steps mix prompts with decoding; a decode step is one that does not."""
    place = next(out.rglob("request_metrics.csv")).parent
    requests = pl.read_csv(place / "request_metrics.csv")
    steps = pl.read_csv(place / "monolithic_batch_metrics.csv").filter(pl.col("batch_num_prefill_tokens") == 0)
    return Said(
        steady=None,
        tokens_per_s=served["output_tokens"].sum() / requests.select(pl.col("request_e2e_time").max() / 1e3).item(),
        token_ms=requests.select(pl.col("tpot").mean()).item(),
        step_ms=steps.select(pl.col("batch_execution_time").mean() * 1e3).item(),
    )
