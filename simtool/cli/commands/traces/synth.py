"""`simtool synth`: a trace whose outcomes are drawn from a stated process, with the times that a profile gives it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from simtool.cli.options import ForceFlag, JsonFlag, SimulatorOption, check_trace_output, command_line
from simtool.cli.shared import console
from simtool.errors import UsageError
from simtool.files.reading import quoted

if TYPE_CHECKING:
    from simtool.replay.synthetic.process import AcceptanceProcess
    from simtool.trace.trace import Trace


def synth(
    out: Annotated[Path, typer.Option(help="The trace to write (a folder).")],
    profile: Annotated[Path, typer.Option(help="Costs, which give the drawn requests their times.")],
    acceptance: Annotated[str | None, typer.Option(help="Share of blocks whose first 1, 2, ... drafts are all "
                          "accepted: 0.85,0.7,0.55; SL is how many.")] = None,
    acceptance_length: Annotated[float | None, typer.Option(help="Instead: tokens a full-width step emits per "
                                 "sequence, with the bonus token, all drafts alike. Needs --sl.")] = None,
    sl: Annotated[int | None, typer.Option(help="Draft tokens per block, with --acceptance-length.")] = None,
    confidence_autocorrelation: Annotated[float, typer.Option(help="Correlation of a block's expected accepted drafts "
                                          "with those of the request's block before.")] = 0.5,
    acceptance_autocorrelation: Annotated[float | None, typer.Option(help="The same of drafts accepted; default: what "
                                          "follows from --sharpness.")] = None,
    sharpness: Annotated[float | None, typer.Option(help="Share of the variance of accepted drafts that the confidence "
                         "foretells; default 0.5, or what --acceptance-autocorrelation asks for.")] = None,
    calibration_error: Annotated[float, typer.Option(min=-1.0, help="Forecast less acceptance, on average; above 0: "
                                                     "over-confident.")] = 0.0,
    num_requests: Annotated[int, typer.Option(help="Requests to draw.")] = 64,
    prompt_tokens: Annotated[str, typer.Option(metavar="LENGTH", help="128, lognormal:MEAN:SIGMA or "
                                               "lognormal:MEAN:SIGMA:MOST.")] = "128",
    output_tokens: Annotated[str, typer.Option(metavar="LENGTH", help="As --prompt-tokens.")] = "128",
    algorithm: Annotated[Literal["dspark", "dflash"], typer.Option(help="Whose block width the draft has.")] = "dspark",
    policy: Annotated[str, typer.Option(help="The placement that the written steps ran under.")] = "static",
    concurrency: Annotated[int, typer.Option(help="Requests that run at once.")] = 8,
    seed: Annotated[int, typer.Option(help="Seed of lengths and outcomes.")] = 0,
    simulator: SimulatorOption = None,
    json: JsonFlag = False,
    force: ForceFlag = False,
) -> None:  # fmt: skip
    """Draw requests and what the drafter does for them, and write them as a trace of origin "synthetic".

    Every other command takes it as any trace, with --profile; what it says is of the stated process, not of a model.
    """
    check_trace_output(out, force=force)
    from dataclasses import replace

    from simtool.profile.proxies import with_proxies
    from simtool.profile.storage import load_profile
    from simtool.replay.as_recorded import scenario
    from simtool.replay.synthetic.lengths import read_lengths
    from simtool.replay.synthetic.trace import SyntheticPlan, draw_trace, synthesize

    plan = SyntheticPlan(
        process=_process(
            _by_position(acceptance, acceptance_length, sl),
            confidence_autocorrelation,
            acceptance_autocorrelation,
            sharpness,
            calibration_error,
        ),
        requests=num_requests,
        prompt=read_lengths(prompt_tokens),
        output=read_lengths(output_tokens),
        seed=seed,
        drafter=algorithm,
    )
    costs = with_proxies(load_profile(profile))
    drawn = draw_trace(plan, costs, concurrency, out.name)
    priced = synthesize(
        plan, costs, scenario(drawn, costs, policy, concurrency=concurrency), out.name, simulator=simulator or "simpy"
    )
    details = {**priced.manifest.details, "command": command_line()}
    trace = replace(priced, manifest=replace(priced.manifest, details=details)).save(out, force=force)
    if json:
        from simtool.cli.documents.of_traces import SynthDocument
        from simtool.cli.documents.record import document

        console.emit(document(SynthDocument, trace=str(out), manifest=trace.manifest.to_dict()))
    else:
        _print(trace)


def _by_position(acceptance: str | None, length: float | None, sl: int | None) -> tuple[float, ...]:
    from simtool.replay.synthetic.process import constant_acceptance

    if (acceptance is None) == (length is None):
        raise UsageError("give either --acceptance, by position, or --acceptance-length with --sl")
    if length is not None:
        if sl is None:
            raise UsageError("--acceptance-length does not say how many drafts a block has; give --sl too")
        return constant_acceptance(sl, length)
    if sl is not None:
        raise UsageError("--sl has no effect with --acceptance, which has a share for each draft; leave it out")
    assert acceptance is not None
    try:
        return tuple(float(part) for part in acceptance.split(","))
    except ValueError as error:
        raise UsageError(f"--acceptance {quoted(acceptance)}: expected shares by position, such as 0.85,0.7") from error


def _process(
    acceptance: tuple[float, ...], lasting: float, drafts_lasting: float | None, sharpness: float | None, error: float
) -> AcceptanceProcess:
    from dataclasses import replace

    from simtool.replay.synthetic.process import AcceptanceProcess
    from simtool.replay.synthetic.solve import sharpness_for

    if sharpness is not None and drafts_lasting is not None:
        raise UsageError("--sharpness and --acceptance-autocorrelation follow from each other; keep one of them")
    process = AcceptanceProcess(
        acceptance=acceptance,
        sharpness=0.5 if sharpness is None else sharpness,
        confidence_autocorrelation=lasting,
        calibration_error=error,
    )
    if drafts_lasting is None:
        return process
    return replace(process, sharpness=sharpness_for(process, drafts_lasting))


def _print(trace: Trace) -> None:
    told = trace.manifest.run.synthetic
    assert told is not None
    requests, outcomes = trace.table("requests"), trace.table("outcomes")
    console.line(
        f"wrote {trace.path}: synthetic, {requests.height:,} requests, {requests['output_tokens'].sum():,} tokens, "
        f"{outcomes.height:,} drawn outcomes"
    )
    console.note(f"drawn from: {told}")
    console.note(f"next: simtool replay {trace.path} --policy all --profile PROFILE")
