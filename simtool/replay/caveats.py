"""What a replay's figures rest on and do not show: one wording for a single replay and for studies of many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from simtool.step.beyond import Beyond, farthest


@dataclass(frozen=True)
class Visits:
    """looked_up: anchors that a replay asked for. substituted: those of them that were made up for."""

    looked_up: int
    substituted: int

    @property
    def substituted_share(self) -> float:
        """Share of the anchors asked for that were made up for."""
        return self.substituted / self.looked_up if self.looked_up else 0.0


@dataclass(frozen=True)
class Caveats:
    """sentences: about the source and its outcomes. proxies: ops priced at a similar op's cost. changes: what-ifs
    among the costs, and what-if losses of acceptance.
    """

    sentences: tuple[str, ...] = ()
    beyond: tuple[Beyond, ...] = ()
    changes: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()

    @property
    def extrapolated(self) -> str:
        """How far costs were priced beyond the calibrated sizes and the way to mend it, in a line; "" if none was."""
        if not self.beyond:
            return ""
        decodes = [each for each in self.beyond if each.step == "decode"] or self.beyond
        batches = [each for each in decodes if each.feature == "batch"]
        worst = max(batches or decodes, key=lambda each: each.times)
        edge, size = "largest" if worst.above else "smallest", worst.edge
        feature = worst.feature.replace("_", " ")
        what = feature if batches else f"{worst.name} at {feature}"
        times = f"{worst.times:.1f} times".replace(".0 ", " ") if worst.times >= 1.05 else "just"
        what = what if worst.step == "decode" else f"a prefill step's {what}"
        mend = f"record at concurrency {worst.value:g}" if batches else "record at such sizes"
        count = len({each.name for each in self.beyond})
        ops = f"{count} op" if count == 1 else f"{count} ops"
        return (
            f"extrapolated: {what} {worst.value:g} is {times} beyond the {edge} calibrated ({size:g}); {ops}; "
            f"{mend} and calibrate on that to mend it"
        )

    def short(self) -> list[str]:
        """Return the warnings for a terminal: as `lines`, but for one line about all that was extrapolated."""
        priced = [self.extrapolated] if self.beyond else []
        return [*self.sentences, *priced, *(f"what-if: {change}" for change in self.changes)]

    def lines(self) -> list[str]:
        """Return the warnings in full, a sentence each."""
        priced = [f"priced beyond the calibrated sizes: {'; '.join(map(str, self.beyond))}"] if self.beyond else []
        return [*self.sentences, *self.proxies, *priced, *(f"what-if: {change}" for change in self.changes)]


def merged(many: Iterable[Caveats]) -> Caveats:
    """Return what many replays have to say together.

    Changes that only some of them have are left out: those are what the study varies, not what it rests on.
    """
    each = list(many)
    sentences = dict.fromkeys(sentence for one in each for sentence in one.sentences)
    proxies = dict.fromkeys(proxy for one in each for proxy in one.proxies)
    shared = [change for change in (each[0].changes if each else ()) if all(change in one.changes for one in each)]
    return Caveats(
        sentences=tuple(sentences),
        beyond=farthest(beyond for one in each for beyond in one.beyond),
        changes=tuple(shared),
        proxies=tuple(proxies),
    )
