"""`simtool record`: run the models live and leave a trace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import ForceFlag, JsonFlag, check_controller, check_output, check_trace_output, command_line
from simtool.cli.shared import console
from simtool.cli.shared import live_options as options
from simtool.cli.shared.policies import placements as resolved
from simtool.cli.shared.summary import print_summaries
from simtool.errors import UsageError
from simtool.step.placement import Placement

if TYPE_CHECKING:
    from simtool.engine.serving.record import ProfilesSteps
    from simtool.step.graph_buckets import GraphBuckets
    from simtool.step.step_table import StepTable

Device = Annotated[str, typer.Option(help="cpu, cuda or npu (cuda:0 and npu:0 too); auto takes the best there is.")]


def record(
    policy: Annotated[list[str], typer.Option(help="A placement's name (see `simtool placements`) or a .toml file; "
                                                   "repeated: all take turns, step by step.")],
    out: Annotated[Path, typer.Option(help="The trace's folder, made anew; of several runs, the folder that holds "
                                           "their traces.")],
    repeats: Annotated[int, typer.Option(help="Runs of each placement, interleaved: what compare needs to be sure.")]
    = 1,
    device: Device = "cpu",
    algorithm: Annotated[str | None, typer.Option(help="Shipped drafter to use: dspark or dflash.")] = None,
    sl: Annotated[int | None, typer.Option(help="Draft tokens per block; default: what the drafter was trained for.")]
    = None,
    concurrency: Annotated[int, typer.Option(help="Requests that run at once.")] = 8,
    num_prompts: Annotated[int | None, typer.Option(help="How many prompts; default 32, or all of the file.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens asked for at most, per request.")] = None,
    prompt_ids: options.PromptIds = None,
    prompts: options.PromptTexts = None,
    target: Annotated[Path | None, typer.Option(help="Target checkpoint folder (Qwen3).")] = None,
    draft: Annotated[Path | None, typer.Option(help="Drafter checkpoint folder (DSpark or DFlash).")] = None,
    dtype: Annotated[str, typer.Option(help="float32, float64, bfloat16 or float16.")] = "float32",
    predictor: Annotated[str | None, typer.Option(help="The controller's validate-time predictor: live (timed now), "
                                                       "none, or a profile's path; default: live.")] = None,
    draft_ms: Annotated[float | None, typer.Option(help="Draft time the controller assumes; default 0, as in xLLM.")]
    = None,
    min_gain: Annotated[float | None, typer.Option(help="Relative gain a longer prefix must bring; default 0.")] = None,
    outcomes: Annotated[str, typer.Option(help="visited, or full: then a teacher-forced pass fills in every anchor.")]
    = "visited",
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.0,
    accept: options.Accept = "reject",
    top_p: Annotated[float, typer.Option(help="Nucleus cut; 1 is off.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Keep the k likeliest; 0 is off.")] = 0,
    kv_blocks: options.KvBlocks = None,
    block_size: options.BlockSize = 16,
    graph_rows: options.GraphRows = 0,
    attention: options.Attention = None,
    npu_layout: options.NpuLayout = "BSH",
    profile: Annotated[int, typer.Option(help="Then run so many steps again under torch.profiler (or torch_npu's), "
                                              "into OUT.profile.")] = 0,
    seed: Annotated[int, typer.Option(help="Seed of prompts and sampling.")] = 0,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Run the models live under one placement, or several in turns, and write a trace of each run as it goes."""
    placements = resolved(policy)
    if repeats < 1:
        raise UsageError(f"--repeats is {repeats}; expected 1 or more")
    several = len(placements) * repeats > 1
    if outcomes not in ("visited", "full"):
        raise UsageError(f"--outcomes is {outcomes!r}; expected visited or full")
    check_controller(placements, {"--predictor": predictor, "--draft-ms": draft_ms, "--min-gain": min_gain})
    if profile < 0:
        raise UsageError(f"--profile is {profile}; expected 0 (off) or more steps")
    if profile and several:
        raise UsageError("--profile runs one placement again under the profiler; record it alone for that")
    names = [f"{placement.file_stem}-{repeat}" for placement in placements for repeat in range(repeats)]
    for path in [out / name for name in names] if several else [out]:
        check_trace_output(path, force=force)
    profiled = out.with_name(out.name + ".profile")
    if profile:
        check_output(profiled, force=force)
    from simtool.engine.models.shipped import choose_models
    from simtool.engine.prompts.source import PromptSource
    from simtool.engine.runner.spec import SamplingConfig
    from simtool.engine.serving.record import RecordSettings, record_interleaved
    from simtool.engine.serving.record import record as run

    sampling = SamplingConfig(temperature, top_k, top_p, seed, accept=accept)  # type: ignore[arg-type]  # checked there
    settings = RecordSettings(
        models=choose_models(target, draft, algorithm, sl),
        prompts=PromptSource(count=num_prompts, max_new_tokens=max_new_tokens, seed=seed, ids=prompt_ids, text=prompts),
        device=device,
        concurrency=concurrency,
        dtype=dtype,
        predictor=predictor or "live",
        draft_ms=draft_ms or 0.0,
        min_gain=min_gain or 0.0,
        sampling=sampling,
        kv_blocks=kv_blocks,
        block_size=block_size,
        graph_rows=graph_rows,
        attention=attention,
        npu_layout=npu_layout,
        every_anchor=outcomes == "full",
        profile_steps=profile,
        step_table=_step_table(placements, predictor, draft_ms),
    )
    if several:
        traces = record_interleaved(
            out,
            placements,
            settings,
            repeats=repeats,
            force=force,
            command=command_line(),
            say=console.note,
            progress=console.progress,
        )
        print_summaries(traces, json=json)
        console.note(f"next: simtool compare {out}/*")
        return
    trace = run(
        out,
        placements[0],
        settings,
        force=force,
        command=command_line(),
        say=console.note,
        progress=console.progress,
    )
    print_summaries([trace], json=json)
    console.note(f"next: {_next(out, placements[0], every_anchor=settings.every_anchor)}")


def _next(out: Path, placement: Placement, *, every_anchor: bool) -> str:
    """What answers a question with the trace: another placement needs the outcomes that this one did not visit."""
    then = f"simtool advise {out}" if placement.decides else f"simtool replay {out} --policy {placement.name}"
    fill = f"simtool fill {out}, so that other placements can be replayed; then "
    return then if every_anchor or not placement.decides else f"{fill}{then}"


def _step_table(placements: Sequence[Placement], predictor: str | None, draft_ms: float | None) -> ProfilesSteps | None:
    """What tells policies how long steps take: the profile, where one is given instead of a live predictor.

    A draft time that is asked for comes before a table, as in a replay.
    """
    if predictor in (None, "live", "none") or not any("table" in each.rule.reads for each in placements):
        return None
    if draft_ms is not None:
        return None
    from simtool.profile.storage import load_profile
    from simtool.replay.profiling.step_table import step_table
    from simtool.replay.step_planner import Block

    profile = load_profile(Path(predictor))

    def table(placement: Placement, block: tuple[int, int], graphs: GraphBuckets, kv_len: int, batch: int) -> StepTable:
        return step_table(profile, placement, Block(*block, graphs), kv_len, batch)

    return table
