"""What one step hands on to the next, and why a datum is missing where an op would read it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from simtool.step.ops import CATALOGUE, Op


def given_ahead(ops: Iterable[Op]) -> frozenset[str]:
    """Return the next step's data that the ops of a step have given by its end: what those give that run for it."""
    return frozenset(datum for op in ops if op.ahead for datum in op.gives)


def why_missing(op: Op, need: str, ops: Sequence[Op], given: Collection[str], *, prior: bool = False) -> str:
    """Say which datum an op lacks, who gives it, and in the next step's case what that giver would need first.

    given: this step's data so far. prior: the datum is one of the step before the op's own.
    """
    whose = " of the step before it" if prior else " of the next step" if op.ahead else ""
    what = f"{op.name!r} for the next step" if op.ahead else repr(op.name)
    says = f"{what} needs {need}{whose}: "
    if op.ahead and not prior:
        return says + _root(need, ops, given)
    names = [other.name for other in ops if other.ahead is (op.ahead and not prior)]
    givers = [giver.name for giver in CATALOGUE.values() if need in giver.gives]
    later = [giver for giver in givers if giver in names]
    return says + (f"{later[0]!r} gives it, but only later" if later else f"add {_or(givers)} before it")


def _root(need: str, ops: Sequence[Op], given: Collection[str]) -> str:
    """Which op would have to run ahead to give it, and what stops each."""
    return "; ".join(_from(giver, ops, given) for giver in CATALOGUE.values() if need in giver.gives)


def _from(giver: Op, ops: Sequence[Op], given: Collection[str]) -> str:
    """What one giver of a datum would need of this step, through all that it needs in its turn."""
    lacking = [datum for datum in _priors(giver, frozenset()) if datum not in given]
    if not lacking:
        return f"add next:{giver.name} before it"
    later = next((op.name for op in ops if not op.ahead and lacking[0] in op.gives), None)
    where = f"which {later!r} gives only later" if later else f"which nothing here gives: add {_givers(lacking[0])}"
    return f"next:{giver.name} gives it once there is {lacking[0]} of this step, {where}"


def _priors(op: Op, seen: frozenset[str]) -> list[str]:
    """What an op and the givers of its needs read of the step before: the data that cross the border."""
    found = list(op.prior)
    for need in op.needs:
        givers = [each for each in CATALOGUE.values() if need in each.gives and each.name not in seen]
        if givers:
            found.extend(_priors(givers[0], seen | {op.name}))
    return list(dict.fromkeys(found))


def _givers(datum: str) -> str:
    return _or([op.name for op in CATALOGUE.values() if datum in op.gives])


def _or(names: Sequence[str]) -> str:
    return " or ".join(map(repr, names))
