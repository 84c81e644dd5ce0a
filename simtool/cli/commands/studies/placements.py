"""`simtool placements`: list the built-in placements, or check one of your own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from simtool.cli.options import JsonFlag
from simtool.cli.shared import console
from simtool.step.ops import Op
from simtool.step.placement import NAMED, Placement, resolve_placement
from simtool.step.slot import NEXT

if TYPE_CHECKING:
    from simtool.cli.documents.of_traces import PlacementRecord


def placements(
    placement: Annotated[
        str | None, typer.Argument(help="A built-in's name or a .toml file: check it and show what each op waits for.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="The list with every order in full.")] = False,
    json: JsonFlag = False,
) -> None:
    """List the built-in placements, or check one and show its order and dependencies."""
    chosen = [resolve_placement(placement)] if placement is not None else list(NAMED.values())
    if json:
        from simtool.cli.documents.of_traces import PlacementsDocument

        console.emit(PlacementsDocument(placements=[_as_record(each) for each in chosen]))
    elif placement is not None:
        _print_detail(chosen[0])
    else:
        _print_list(chosen, verbose=verbose)


def _as_record(placement: Placement) -> PlacementRecord:
    from simtool.cli.documents.of_traces import PlacementRecord
    from simtool.cli.documents.record import record

    ops = list(placement.ops(pruned=placement.decides))
    dependencies = {_called(op): _sources(op, ops) for op in ops}
    return record(PlacementRecord, placement.to_dict(), dependencies=dependencies)


def _called(op: Op) -> str:
    return f"{NEXT}{op.name}" if op.ahead else op.name


def _sources(op: Op, ops: list[Op]) -> dict[str, str]:
    """Map each datum that `op` needs to the op before it that gives it; a lagged confidence comes with the states.

    Of work for the next step also what it needs of this one.
    """
    earlier = ops[: ops.index(op)]
    givers = {datum: _called(giver) for giver in earlier if giver.ahead is op.ahead for datum in giver.gives}
    of_this = {datum: giver.name for giver in earlier if not giver.ahead for datum in giver.gives}
    prior = {need: of_this[need] for need in op.prior if op.ahead}
    return {**{need: givers.get(need, "read_states") for need in op.needs}, **prior}


def _lag_text(placement: Placement) -> str:
    if placement.lag_steps is None:
        return "no decision: every step verifies at full width"
    if placement.lag_steps == 0:
        return "lag 0: the decision waits for this step's confidence"
    steps = "step" if placement.lag_steps == 1 else "steps"
    return f"lag {placement.lag_steps}: the decision reads confidence {placement.lag_steps} {steps} old"


def _print_list(chosen: list[Placement], *, verbose: bool) -> None:
    from simtool.report.terminal.tables import table

    console.say(f"{len(chosen)} placements are built in; any .toml file is another", style="bold")
    rows = [
        (each.name, "-" if each.lag_steps is None else str(each.lag_steps), _decides(each), ", ".join(each.sync) or "-")
        for each in chosen
    ]
    console.show(table("", ("placement", "lag", "decides", "syncs"), rows))
    if verbose:
        for each in chosen:
            console.say(each.name, style="bold")
            console.say("  " + " ".join(map(str, each.order)))
    console.after(
        "lag: steps by which the confidence that is decided on is old; syncs: ops that block as an implementation "
        "does, a|- in pruned steps only; in an order next:a runs for the next step, cold:a only in a step that nothing "
        "was launched ahead for; one in detail: simtool placements NAME"
    )


def _decides(placement: Placement) -> str:
    """Where in the step the decision stands."""
    if not placement.decides:
        return "never"
    ops = list(placement.ops(pruned=True))
    place = next(i for i, op in enumerate(ops) if "decision_confidence" in op.needs)
    return f"after {_called(ops[place - 1])}"


def _print_detail(placement: Placement) -> None:
    from simtool.report.terminal.tables import table

    ops = list(placement.ops(pruned=placement.decides))
    rows = []
    for op in ops:
        needs = ", ".join(f"{need} ({giver})" for need, giver in _sources(op, ops).items())
        works = ", ".join(f"{work.name} on {work.lane}" for work in op.works)
        rows.append((_called(op), needs or "-", works or "-", "syncs" if op.syncs else "yes" if op.blocks else ""))
    kind = "a step that prunes" if placement.decides else "every step"
    if placement.runs_ahead:
        kind += " that nothing was launched ahead for"
    console.say(f"{placement.name}: legal. {_lag_text(placement)}.", style="bold")
    console.say(" ".join(map(str, placement.order)))
    console.show(table(f"Order of {kind}", ("op", "needs (from)", "launches", "host waits"), rows, numbers_from=4))
