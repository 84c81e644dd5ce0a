"""`simtool validate`: record the arms live, calibrate, replay, and set predicted beside measured."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import (
    FINDING,
    ForceFlag,
    JsonFlag,
    check_controller,
    check_output,
    command_line,
    options_given,
)
from simtool.cli.registry import COMMANDS, PUBLISHED, load_target
from simtool.cli.shared import console
from simtool.cli.shared import live_options as options
from simtool.cli.shared.policies import ALL
from simtool.cli.shared.policies import placements as resolved
from simtool.errors import UsageError
from simtool.files.writing import write_text

if TYPE_CHECKING:
    from simtool.cli.shared.campaign import Validation

_REPEATS = 5


def validate(
    out: Annotated[Path | None, typer.Option(help="Folder for everything: fit/, live/, replayed/, profile, validation; "
                                             "with --published a page (Markdown), default: none.")] = None,
    published: Annotated[bool, typer.Option("--published", help="Instead: predict what others published from what else "
                                            "they published. Only --out, --json and --force go with it.")] = False,
    policy: Annotated[list[str] | None, typer.Option(help="Placements to judge; may be repeated; default: the four "
                                                          "arms of the pull request.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or npu.")] = "cpu",
    algorithm: Annotated[str | None, typer.Option(help="Shipped drafter to use: dspark or dflash.")] = None,
    sl: Annotated[int | None, typer.Option(help="Draft tokens per block.")] = None,
    concurrency: Annotated[int, typer.Option(help="Requests that run at once.")] = 8,
    num_prompts: Annotated[int | None, typer.Option(help="Prompts of each set: one to fit on, another to judge on; "
                                                         "default 32, or half of the file.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(help="Tokens asked for at most, per request.")] = None,
    prompt_ids: options.PromptIds = None,
    prompts: options.PromptTexts = None,
    repeats: Annotated[int | None, typer.Option(help=f"Live repetitions per arm, interleaved, order rotated; default "
                                                     f"{_REPEATS}.")] = None,
    tokens_only: Annotated[bool, typer.Option("--tokens-only", help="One live run an arm; judge tokens, not time.")]
    = False,
    target: Annotated[Path | None, typer.Option(help="Target checkpoint folder.")] = None,
    draft: Annotated[Path | None, typer.Option(help="Drafter checkpoint folder.")] = None,
    dtype: Annotated[str, typer.Option(help="float32, float64, bfloat16 or float16.")] = "float32",
    draft_ms: Annotated[float | None, typer.Option(help="Draft time the controller assumes, live and in the replay; "
                                                        "default 0, as in xLLM.")] = None,
    min_gain: Annotated[float | None, typer.Option(help="Relative gain a longer prefix must bring, live and in the "
                                                        "replay; default 0.")] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy; a replay is judged token by token, so above 0 "
                                                    "it takes --accept match.")] = 0.0,
    accept: options.Accept = "reject",
    kv_blocks: options.KvBlocks = None,
    block_size: options.BlockSize = 16,
    graph_rows: options.GraphRows = 0,
    attention: options.Attention = None,
    npu_layout: options.NpuLayout = "BSH",
    seed: Annotated[int, typer.Option(help="Seed of the prompts to fit on; those to judge on take the next.")] = 0,
    report: Annotated[Path | None, typer.Option(help="Also write the interactive page here.")] = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Judge the replay: live arms on one set of prompts, costs fitted on another, errors printed, failures included.

    A live run that differs from its replay is shown with its gap; exit 1 unless rounding explains it.
    """
    if published:
        return _validate_published(out, json=json, force=force)
    if out is None:
        raise UsageError("--out is missing: a folder for the recordings, the profile and the judgement")
    if temperature and accept != "match":
        raise UsageError(
            "--temperature: a replay is judged token by token, which needs greedy decoding or --accept match; to "
            "compare placements that sample otherwise, record them interleaved (simtool record --policy A --policy B "
            "--repeats 5) and run compare"
        )
    if tokens_only and (repeats is not None or report is not None):
        raise UsageError("--tokens-only times nothing, so --repeats and --report have no effect; leave them out")
    rounds = 1 if tokens_only else repeats or _REPEATS
    if repeats is not None and repeats < 2:
        raise UsageError(f"--repeats is {repeats}; an interval needs 2 or more")
    placements = resolved(policy or [ALL])
    check_controller(placements, {"--draft-ms": draft_ms, "--min-gain": min_gain})
    if report is not None:
        check_output(report, force=force)
    from simtool.cli.shared import campaign

    campaign.check_room(out, force=force)
    from simtool.engine.models.shipped import choose_models
    from simtool.engine.outcomes.complete import complete_outcomes
    from simtool.engine.prompts.source import PromptSource, describe_prompts
    from simtool.engine.runner.spec import SamplingConfig
    from simtool.engine.serving.opening import SessionSettings, open_session
    from simtool.engine.serving.predictor import controller_settings

    models = choose_models(target, draft, algorithm, sl)
    sampling = SamplingConfig(temperature, seed=seed, accept=accept)  # type: ignore[arg-type]  # checked there
    asked = PromptSource(
        count=num_prompts,
        max_new_tokens=max_new_tokens,
        seed=seed + 1 if tokens_only else seed,
        ids=prompt_ids,
        text=prompts,
    )
    sets, seeds = campaign.prompt_sets(asked, models.target, ("live",) if tokens_only else ("fit", "live"))
    served = [prompt for each in sets.values() for prompt in each]
    runs_at_once = len(placements) * len(sets)  # all arms on all sets of prompts take turns on one device
    room = SessionSettings(
        models=models,
        device=device,
        concurrency=concurrency * runs_at_once,
        dtype=dtype,
        sampling=sampling,
        kv_blocks=None if kv_blocks is None else kv_blocks * runs_at_once,
        block_size=block_size,
        graph_rows=graph_rows,
        attention=attention,
        npu_layout=npu_layout,
    )
    with open_session(room, served, console.note) as session:
        controller = controller_settings(session, "live", draft_ms or 0.0, min_gain or 0.0, console.note)
        console.note(f"to judge on: {describe_prompts(sets['live'])}")
        runs = campaign.record_arms(session, placements, controller, sets, seeds=seeds, repeats=rounds, out=out)
    source = runs["live"][placements[0].name][0]
    complete_outcomes(source, models.target, models.draft, say=console.note, progress=console.progress)
    outcome = campaign.judge_arms(runs, source, placements, controller, out=out)
    command = command_line()
    document = outcome.document(command)
    write_text(out / "validation.json", json_format.dumps(document, indent=2) + "\n")
    if report is not None:  # files first: whoever reads what is printed may stop reading
        _write_report(outcome, report, command)
    if json:
        from simtool.cli.documents.of_replays import ValidateDocument
        from simtool.cli.documents.record import document as made

        console.emit(made(ValidateDocument, document))
    else:
        _present(outcome)
    if outcome.fidelity.faults:
        raise typer.Exit(FINDING)


def _validate_published(out: Path | None, *, json: bool, force: bool) -> None:
    """Nothing is recorded, so every option of a recording is refused."""
    known = COMMANDS["validate"].modes["--published"].parameters
    if others := [name for name in options_given() if name not in known]:
        raise UsageError(f"--{others[0].replace('_', '-')} has no effect with --published; leave it out")
    if out is not None:
        check_output(out, force=force)
    load_target(PUBLISHED)(out, json=json)


def _present(outcome: Validation) -> None:
    from simtool.report.terminal.fidelity import describe, headline, tables

    for line in headline(outcome.fidelity):
        console.say(line, style="bold")
    for table in tables(outcome.fidelity):
        console.show(table)
    for line in describe(outcome.fidelity):
        console.say(line)


def _write_report(outcome: Validation, path: Path, command: str) -> None:
    from simtool.report.page.report import report

    traces = [trace for arm in outcome.live.values() for trace in arm]
    report([*traces, *outcome.replayed.values()], path, force=True, command=command)
    console.note(f"report written to {path}")
