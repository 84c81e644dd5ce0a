"""Figures of one accelerator on a mid-size pair with random weights: graphs against eager, the recorder, the arms.

    python benchmarks/accelerator.py --device cuda --out accelerator.json

Random weights accept almost nothing, so these are times of steps, not of tokens. Arms take turns within a repeat, so
that a drift of the machine meets all of them; intervals are over repeats (Student, 95 %).
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from simtool.engine.devices.open import open_device
from simtool.engine.models.draft import DraftConfig, DraftModel
from simtool.engine.models.target import TargetConfig, TargetModel
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import RunnerSpec
from simtool.engine.serving.session import RunPlan, Session
from simtool.stats.student import mean_interval
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN, Placement, with_rebinds

ARMS = ("static", "this-step", "lag", "lag-overlap")
VOCAB = 8192
PAGE = 128
STD = 0.02


def main() -> None:
    args = arguments()
    figures: dict[str, dict[str, object]] = {}
    for sl in args.sl:
        with tempfile.TemporaryDirectory() as folder:
            figures[f"SL {sl}"] = measure(args, sl, Path(folder))
    report = {"arguments": {**vars(args), "out": str(args.out)}, "date": time.strftime("%Y-%m-%d"), "figures": figures}
    args.out.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps(report, indent=2))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--sl", type=int, nargs="+", default=[7, 16])
    parser.add_argument("--prompt", type=int, default=256, help="tokens")
    parser.add_argument("--tokens", type=int, default=64, help="new tokens per request")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--no-graphs", action="store_true", help="for a device that has none")
    parser.add_argument("--out", type=Path, default=Path("accelerator.json"))
    return parser.parse_args()


def measure(args: argparse.Namespace, sl: int, folder: Path) -> dict[str, object]:
    """Step times in ms of every arm, interleaved: mean and half width of the interval."""
    spec = write_pair(args, sl, folder)
    rng = random.Random(0)
    prompts = [
        Prompt(f"r{i}", tuple(rng.randrange(VOCAB - 1) for _ in range(args.prompt)), args.tokens)
        for i in range(args.batch)
    ]
    with ExitStack() as stack:
        eager = stack.enter_context(Session(open_device(args.device, spec), spec))
        modes = {"eager": eager}
        if not args.no_graphs:
            graphs = replace(spec, graph_rows=args.batch * (sl + 1))
            modes["graphs"] = stack.enter_context(Session(open_device(args.device, graphs), graphs))
        arms = {
            f"{arm}, {mode}": step_timer(session, plan_for(session, arm, prompts))
            for mode, session in modes.items()
            for arm in ARMS
        }
        main_mode = list(modes)[-1]
        plan = plan_for(modes[main_mode], "static", prompts)
        arms[f"static, {main_mode}, recorded"] = record_timer(modes[main_mode], plan, folder / "bundle")
        for timer in arms.values():
            timer()
        seen = [{name: timer() for name, timer in arms.items()} for _ in range(args.repeats)]
        return {"hardware": eager.device.hardware, "clock": eager.device.clock_facts(), "step_ms": summary(seen)}


def plan_for(session: Session, arm: str, prompts: list[Prompt]) -> RunPlan:
    placement: Placement = BUILT_IN[arm]
    if session.info.graphs.rebinds:
        placement = with_rebinds(placement)
    return RunPlan(prompts, placement, ControllerSettings(LinearPredictor(1.0, 0.01, 0.0)))


def step_timer(session: Session, plan: RunPlan) -> Callable[[], float]:
    def timer() -> float:
        result = session.run(plan)
        return (result.end_ns - result.start_ns) / result.steps / 1e6

    return timer


def record_timer(session: Session, plan: RunPlan, trace: Path) -> Callable[[], float]:
    def timer() -> float:
        result = session.record(trace, plan, force=True)
        return (result.end_ns - result.start_ns) / result.steps / 1e6

    return timer


def summary(seen: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    table = {}
    for name in seen[0]:
        values = [repeat[name] for repeat in seen]
        found = mean_interval(values)
        table[name] = {"mean": round(found.mean, 4), "plus_minus": round(found.half or 0.0, 4)}
    return table


def write_pair(args: argparse.Namespace, sl: int, folder: Path) -> RunnerSpec:
    """A Qwen3 target and a two-layer DSpark drafter of its width, in the checkpoints' own format."""
    head_dim = min(128, args.hidden // 2)
    heads = args.hidden // head_dim
    length = args.prompt + args.tokens + 2 * sl + 2
    sizes = {
        "vocab_size": VOCAB, "hidden_size": args.hidden, "intermediate_size": 3 * args.hidden,
        "num_attention_heads": heads, "num_key_value_heads": max(heads // 2, 1), "head_dim": head_dim,
        "rms_norm_eps": 1e-6, "rope_theta": 10_000.0, "max_position_embeddings": length, "hidden_act": "silu",
        "tie_word_embeddings": False, "attention_bias": False, "model_type": "qwen3",
    }  # fmt: skip
    common: Any = {
        "vocab_size": VOCAB, "hidden_size": args.hidden, "intermediate_size": 3 * args.hidden, "heads": heads,
        "kv_heads": sizes["num_key_value_heads"], "head_dim": head_dim, "rope_theta": 10_000.0, "eps": 1e-6,
        "max_positions": length,
    }  # fmt: skip
    taps = tuple(range(0, args.layers, max(args.layers // 3, 1)))[:3]
    target_config = TargetConfig(**common, layers=args.layers, tied_embeddings=False)
    draft_config = DraftConfig(
        **common, algorithm="dspark", trained_drafts=sl, samples_anchor_row=True, mask_token_id=VOCAB - 1, tap_ids=taps,
        layers=2, markov_type="vanilla", markov_rank=64, confidence_head=True, confidence_with_markov=True,
    )  # fmt: skip
    dtype = getattr(torch, args.dtype)
    torch.manual_seed(0)
    target_json = {**sizes, "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": args.layers}
    save(TargetModel(target_config), folder / "target", target_json, dtype, "model.")
    drafter = {
        "architectures": ["Qwen3DSparkModel"], "num_hidden_layers": 2, "num_target_layers": args.layers,
        "block_size": sl, "mask_token_id": VOCAB - 1, "target_layer_ids": list(taps), "markov_head_type": "vanilla",
        "markov_rank": 64, "enable_confidence_head": True, "confidence_head_with_markov": True,
    }  # fmt: skip
    save(DraftModel(draft_config), folder / "draft", {**sizes, **drafter}, dtype, "")
    blocks = args.batch * -(-length // PAGE)
    return RunnerSpec(
        target=folder / "target",
        draft=folder / "draft",
        slots=args.batch,
        kv_blocks=blocks,
        block_size=PAGE,
        dtype=args.dtype,
    )


def save(model: torch.nn.Module, folder: Path, config: dict[str, object], dtype: torch.dtype, prefix: str) -> None:
    folder.mkdir(parents=True)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=STD)
    tensors = {
        (name if name.startswith("lm_head") else prefix + name): tensor.to(dtype).contiguous()
        for name, tensor in model.state_dict().items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main()
