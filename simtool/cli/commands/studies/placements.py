"""`simtool placements`: list the built-in placements, or check one of your own."""

from __future__ import annotations

from typing import Annotated

import typer

from simtool.cli.options import JsonFlag
from simtool.cli.shared import console
from simtool.step.ops import Op
from simtool.step.placement import NAMED, Placement, resolve_placement
from simtool.step.slot import NEXT


def placements(
    placement: Annotated[
        str | None, typer.Argument(help="A built-in's name or a .toml file: check it and show what each op waits for.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List the built-in placements (order, lag), or check one and show its dependencies."""
    chosen = [resolve_placement(placement)] if placement is not None else list(NAMED.values())
    if json:
        console.emit_json([_as_json(each) for each in chosen])
    elif placement is not None:
        _print_detail(chosen[0])
    else:
        _print_list(chosen)


def _as_json(placement: Placement) -> dict[str, object]:
    ops = list(placement.ops(pruned=placement.decides))
    return {**placement.to_dict(), "dependencies": {_called(op): _sources(op, ops) for op in ops}}


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


def _print_list(chosen: list[Placement]) -> None:
    for placement in chosen:
        console.say(f"{placement.name}  ({_lag_text(placement)})", style="bold")
        sync = f"\n  syncs: {', '.join(placement.sync)}" if placement.sync else ""
        console.say("  " + " ".join(str(slot) for slot in placement.order) + sync + "\n")
    console.say(
        "a|b: a in a step that prunes, b in a full-width step; -: nothing. next:a runs for the next step; cold:a only "
        "in a step that nothing was launched ahead for. syncs: blocks as an implementation does. One in detail: "
        "simtool placements NAME"
    )


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
    console.say(f"{placement.name}: legal. {_lag_text(placement)}.")
    console.show(table(f"Order of {kind}", ("op", "needs (from)", "launches", "host waits"), rows, numbers_from=4))
