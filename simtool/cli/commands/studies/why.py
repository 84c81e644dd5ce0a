"""`simtool why`: why a placement is faster than another, or not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from simtool.analysis.comparison.headline import BASELINE
from simtool.cli.options import JsonFlag, OtherModelFlag, SimulatorOption, VerboseFlag, check_controller
from simtool.cli.shared import console, study
from simtool.cli.shared.costs import modeled_on
from simtool.cli.shared.differences import as_record, as_records
from simtool.errors import UsageError

if TYPE_CHECKING:
    from simtool.analysis.comparison.judged import KnownLive
    from simtool.cli.documents.of_studies import WhyDocument
    from simtool.study.why import Reasons


def why(
    trace: study.TraceArgument,
    policy: Annotated[str, typer.Option(help="The placement to explain: a name or a .toml file.")] = "lag-overlap",
    baseline: Annotated[str, typer.Option(help="What it is compared with: a name or a .toml file.")] = BASELINE,
    profile: study.ProfileOption = None,
    allow_other_model: OtherModelFlag = False,
    predictor: study.Predictor = None,
    draft_ms: study.DraftMs = None,
    change: study.Changes = None,
    concurrency: study.Concurrency = None,
    seeds: study.Seeds = 8,
    noise_only: study.NoiseOnly = False,
    waves: study.Waves = None,
    jobs: study.Jobs = None,
    simulator: SimulatorOption = None,
    verbose: VerboseFlag = False,
    json: JsonFlag = False,
) -> None:
    """Say what makes a placement faster or slower: the tokens of a step, its time, and what its path is made of."""
    base, other = (study.placements([name])[0] for name in (baseline, policy))
    if (base.order, base.lag_steps, base.sync) == (other.order, other.lag_steps, other.sync):
        raise UsageError(f"--policy {policy} is what --baseline names; give two placements that differ")
    check_controller([base, other], {"--predictor": predictor, "--draft-ms": draft_ms})
    from simtool.profile.whatif import check_effect
    from simtool.report.terminal.live_first import live_first
    from simtool.study.settings import settings_of
    from simtool.study.why import count_replays, reasons

    source, costs = study.open_trace(
        trace, profile, change or (), predictor, refits=seeds, allow_other_model=allow_other_model
    )
    for placement in (base, other):
        study.check_priced(costs, placement)
    check_effect(costs, change or (), [base, other])
    wanted = source.manifest.concurrency if concurrency is None else concurrency
    (asked,) = settings_of(
        source,
        costs,
        [wanted],
        waves,
        seeds=seeds,
        noise_only=noise_only,
        controller=study.controller(predictor, draft_ms),
    )
    setting = replace(asked, simulator=simulator)
    from simtool.study.settings import expect

    known = expect([(setting, 3)], study.processes(jobs))
    with console.progress("replaying", count_replays(setting), known) as done:
        found = reasons(setting, base, other, processes=study.processes(jobs), progress=done)
    basis = study.basis([setting])
    live = study.known_live(setting, [base, other])
    if json:
        console.emit(_document(found, basis, live))
    else:
        difference = {found.difference.other: found.difference.ratio} if base.name == BASELINE else {}
        _print(found, f"{live_first(live, difference)}{modeled_on(costs, source)}")
        console.after(
            "on the path: of an op's own time (tornado's 'takes'), what the step's end waited for; prepare, compute, "
            "copy: streams of the device; the path is of the fitted costs, without noise"
        )
        console.after(f"modeled, {basis}")
    study.warn(found.caveats, verbose=verbose)


def _print(found: Reasons, modeled: str) -> None:
    from simtool.report.terminal.tables import table
    from simtool.study.why import changed, in_words
    from simtool.units import format_ns

    console.say(f"{modeled}: {found.difference.verdict}", style="bold")
    time = changed(found.step_change, "more", "less", "the same")
    console.say(f"  because a step {_tokens(found)}, and takes {time} time")
    console.say(f"  {in_words(found.path)}")
    rows = [
        (each.op, each.lane, *(format_ns(round(ns)) for ns in (each.before_ns, each.after_ns, each.change_ns)))
        for each in found.path
    ]
    first, second = found.before.full_ns, found.after.full_ns
    rest = [first - sum(each.before_ns for each in found.path), second - sum(each.after_ns for each in found.path)]
    rows += [
        ("all else", "", *map(format_ns, rest), format_ns(round(rest[1] - rest[0]))),
        ("the step", "", format_ns(first), format_ns(second), format_ns(second - first)),
    ]
    heads = ("on the path", "lane", found.difference.baseline, found.difference.other, "change")
    console.show(table("the mean full-batch step", heads, rows, numbers_from=2))
    console.say(
        f"over all decode steps, while the batch fills and drains too, the mean is {format_ns(found.before.every_ns)} "
        f"and {format_ns(found.after.every_ns)}: that is the step of replay and compare"
    )


def _tokens(found: Reasons) -> str:
    """What a step emits, and what takes tokens from it."""
    from simtool.study.why import changed

    parts = [
        (found.by_pruning, "by pruning"),
        (found.by_age, "by the older confidence"),
    ]
    told = [f"{change * 100:+.1f} % {what}" for change, what in parts if change is not None]
    emits = f"emits {changed(found.tokens_change, 'more', 'fewer', 'the same')} tokens"
    return f"{emits} ({', '.join(told)})" if told else emits


def _document(found: Reasons, basis: str, live: KnownLive | None) -> WhyDocument:
    from simtool.cli.documents.of_studies import WhyDocument
    from simtool.cli.documents.record import document

    return document(
        WhyDocument,
        found,
        origin="replayed",
        basis=basis,
        difference=as_record(found.difference),
        live=as_records(live),
        warnings=found.caveats.lines(),
    )
