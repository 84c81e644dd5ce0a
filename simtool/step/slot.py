"""One place in the order of a step: what runs there in a step that prunes, and what in a full-width one."""

from __future__ import annotations

from dataclasses import dataclass

from simtool.step.ops import Op, syncing

#: In an order, the name of an absent op.
NOTHING = "-"
#: Before a slot: it runs for the next step, or only in a step that nothing was launched ahead for.
NEXT, COLD = "next:", "cold:"


@dataclass(frozen=True)
class Slot:
    """One place in the order: the op of a pruned step and the op of a full-width step (either may be absent).

    cold: it runs only in a step for which the step before launched nothing ahead.
    """

    pruned: Op | None
    full: Op | None
    cold: bool = False

    @property
    def ahead(self) -> bool:
        """Whether it runs for the next step."""
        return any(op is not None and op.ahead for op in (self.pruned, self.full))

    def pick(self, *, pruned: bool) -> Op | None:
        """Return the op to run here, or None when this kind of step has nothing to do."""
        return self.pruned if pruned else self.full

    @property
    def when(self) -> str:
        """What its text begins with: nothing where it runs in every step, for that step."""
        return NEXT if self.ahead else COLD if self.cold else ""

    def __str__(self) -> str:
        pruned, full = (op.name if op else NOTHING for op in (self.pruned, self.full))
        return self.when + (pruned if pruned == full else f"{pruned}|{full}")

    @property
    def sync(self) -> tuple[str, ...]:
        """Which of its ops sync, as `Placement.sync` says it."""
        pruned, full = (op.name if op and op.syncs else NOTHING for op in (self.pruned, self.full))
        if pruned == full:
            return () if pruned == NOTHING else (pruned,)
        if "|" in str(self):  # each op runs in one kind of step anyway
            return tuple(name for name in (pruned, full) if name != NOTHING)
        return (f"{pruned}|{full}",)

    def syncing(self, name: str, *, pruned: bool, full: bool) -> Slot:
        """Return the slot with its op of that name blocking, in pruned or full-width steps or both."""
        return Slot(
            syncing(self.pruned) if self.pruned and pruned and self.pruned.name == name else self.pruned,
            syncing(self.full) if self.full and full and self.full.name == name else self.full,
            self.cold,
        )
