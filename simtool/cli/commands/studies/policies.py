"""`simtool policies`: list the rules that decide verify lengths, or one in detail."""

from __future__ import annotations

from typing import Annotated

import typer

from simtool.cli.documents.of_traces import PoliciesDocument, PolicyRecord
from simtool.cli.documents.record import record
from simtool.cli.options import JsonFlag
from simtool.cli.shared import console
from simtool.step.placement import with_policy
from simtool.step.policies.catalogue import POLICIES, parse_policy
from simtool.step.policies.policy import Policy


def policies(
    policy: Annotated[
        str | None, typer.Argument(help="A policy's name, or NAME:PARAMETER=VALUE,...: show it in detail.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List the rules that decide how many drafts to verify, or show one with its parameters and source."""
    chosen = [parse_policy(policy)] if policy is not None else [kind() for kind in POLICIES.values()]
    if json:
        console.emit(PoliciesDocument(policies=[_as_record(each) for each in chosen]))
    elif policy is not None:
        _print_detail(chosen[0])
    else:
        _print_list(chosen)


def _as_record(policy: Policy) -> PolicyRecord:
    return record(
        PolicyRecord,
        policy,
        budget_age=policy.budget_steps,
        split_age=policy.split_steps,
        counters=sorted(policy.start().counters),
    )


def _age(steps: int | None) -> str:
    return "-" if steps is None else str(steps)


def _print_list(chosen: list[Policy]) -> None:
    from simtool.report.terminal.tables import table

    rows = [
        (
            each.name,
            _age(each.budget_steps),
            _age(each.split_steps),
            each.lossless.partition(":")[0].partition(" ")[0],
            each.what,
        )
        for each in chosen
    ]
    console.say(
        "Rules that decide how many drafts a step verifies; what each gains: docs/policies.md. To try one: simtool "
        "advise TRACE --policy NAME; one in detail: simtool policies NAME",
        style="bold",
    )
    columns = ("policy", "budget", "split", "lossless", "rule")
    console.show(table("", columns, rows))
    console.after(
        "budget (drafts in total) and split (of each sequence): how many steps old the confidence is that it is made "
        "from; 0: this step's; -: none. lossless: the output is the target's own. When in the step the rule is asked "
        "is the placement (simtool placements); --policy PLACEMENT@NAME:PARAMETER=VALUE,... gives all three."
    )


def _print_detail(policy: Policy) -> None:
    home = with_policy(None, policy)
    console.say(f"{policy.name}: {policy.what}.", style="bold")
    console.say(f"source: {policy.source}")
    console.say(f"lossless: {policy.lossless}")
    console.say(f"order of the host's work: {policy.home}'s; {_split(policy, device=home.splits_for_free)}")
    costs = "a step table profiled at the costs of the run" if "table" in policy.reads else "the predictor"
    console.say(f"knows of costs: {costs if policy.reads else 'nothing'}")
    counters = sorted(policy.start().counters)
    console.say(f"counts in the manifest: {', '.join(counters) if counters else 'nothing, it never falls back'}")
    for name, value in policy.parameters.items():
        console.say(f"  {name} = {value}   (default {policy.origins[name]})")


def _split(policy: Policy, *, device: bool) -> str:
    if device:
        return (
            "the split is made on the device by this step's confidence. A replay takes it for free and waits for "
            f"nothing; the engine's host splits: this-step@{policy.name} reads the confidence and pays for that"
        )
    if 0 in policy.ages:
        return "the host reads this step's confidence first, so decision and batch are on its path"
    return "the host decides while the device drafts"
