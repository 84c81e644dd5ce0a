"""What to optimise, in words: the biggest lever, what can be done about it, and how to try it on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from simtool.report.terminal.tables import TextTable, table
from simtool.study.draft_told import DraftTold
from simtool.study.sensitivity import OpSensitivity, Sensitivity
from simtool.units import format_ns

#: Of the tokens/s if it took no time: less stands under --verbose only.
_TELLING = 0.005
#: Of the tokens/s: less is no lever.
_LEAST = 0.0005
_NEXT = 3

#: What an engineer can do about a piece of device work; else it is the sentence below.
_ACTIONS = {
    "target": "fewer rows (a smaller SL, pruning) or a quicker forward (graphs, kernels, a smaller dtype)",
    "draft": "a smaller drafter or a quicker forward (graphs, kernels, a smaller dtype)",
    "sample": "one kernel for all positions, over fewer logits",
}
_DEVICE_ACTION = "a quicker kernel, or one fused with its neighbours"
_HOST_ACTION = "less work in it (buffers kept, no copies), or done while the device works"


class Kind(StrEnum):
    """What is changed: a piece takes a tenth less, has another place, does not block; the controller is told."""

    SHORTER = "shorter"
    MOVED = "moved"
    UNBLOCKED = "unblocked"
    TOLD = "told"


@dataclass(frozen=True)
class StepLever:
    """gain: of tokens/s, a share. what: the change in words, name: in a word or two. action: what can be done.

    options: of `simtool replay`, to try it on; empty: it has none.
    """

    kind: Kind
    gain: float
    what: str
    name: str
    action: str
    options: str
    on_host: bool = False


def levers(found: Sensitivity) -> list[StepLever]:
    """Return what can be changed and gains anything, the largest gain first."""
    listed = [_shorter(bar, found) for bar in found.bars]
    listed += [_moved(bar, found) for bar in found.bars if bar.moved_to is not None]
    listed += [_unblocked(bar, found) for bar in found.bars if bar.unsynced_ns is not None]
    listed += [_told(found.draft, found.placement)] if found.draft is not None else []
    return sorted((each for each in listed if each.gain >= _LEAST), key=lambda each: -each.gain)


def answer(found: Sensitivity, modeled: str, why: str) -> list[str]:
    """Return what to optimise, what can be done about it, and what comes next, a sentence each."""
    where = f"under {found.placement}{why}, concurrency {found.concurrency}"
    if not (every := levers(found)):
        return [f"{modeled}: nothing is worth a thing {where}"]
    best, *others = every
    lines = [f"{modeled}: {best.what} {_percent(best.gain)} tokens/s {where}", f"  how: {best.action}"]
    named = others[:_NEXT]
    if named:
        lines.append(f"  then: {', '.join(f'{each.name} {_percent(each.gain)}' for each in named)}")
    host = next((each for each in every if each.on_host), None)
    if host is not None and host not in (best, *named):
        lines.append(f"  on the host: {host.name} {_percent(host.gain)} ({host.action})")
    if found.draft is not None and Kind.TOLD not in [each.kind for each in (best, *named)]:
        told = _told(found.draft, found.placement)
        lines.append(f"  {told.name} ({told.options}): {_both(found.draft)}")
    return lines


def bars_table(found: Sensitivity, *, verbose: bool) -> tuple[TextTable, int]:
    """Lay out what each piece is worth in tokens/s; return how many pieces are left out, for they give too little."""
    syncs = any(bar.unsynced_ns is not None for bar in found.bars)
    telling = [bar for bar in found.bars if verbose or _most(bar, found) >= _TELLING]
    rows = []
    for bar in telling:
        gains = [bar.tenth_ns, bar.halved_ns, bar.free_ns, *([bar.unsynced_ns] if syncs else []), bar.moved_ns]
        cells = (bar.name, bar.stream, format_ns(round(bar.own_ns)), *(_share(gain, found) for gain in gains))
        rows.append((*cells, *((_where(bar),) if verbose else ())))
    heads = ("work", "lane", "takes", "10 % less", "half", "no time", *(["unblocked"] if syncs else []), "moved")
    title = f"tokens/s gained, of full-batch steps ({format_ns(found.step_ns)} in the mean)"
    whole = table(title, (*heads, *(["where to"] if verbose else [])), rows, numbers_from=2)
    return whole, len(found.bars) - len(telling)


def _shorter(bar: OpSensitivity, whole: Sensitivity) -> StepLever:
    on_host = bar.lane == "host"
    return StepLever(
        kind=Kind.SHORTER,
        gain=_gain(bar.tenth_ns, whole),
        what=f"shorten {bar.name} ({bar.stream}): 10 % less of it gives",
        name=bar.name,
        action=_HOST_ACTION if on_host else _ACTIONS.get(bar.name, _DEVICE_ACTION),
        options=f"--policy {whole.placement} --set {bar.lane}.{bar.name}=x0.9",
        on_host=on_host,
    )


def _moved(bar: OpSensitivity, whole: Sensitivity) -> StepLever:
    where = _where(bar)
    return StepLever(
        kind=Kind.MOVED,
        gain=_gain(bar.moved_ns or 0.0, whole),
        what=f"move {bar.name} {where}, which gives",
        name=f"{bar.name} moved {where}",
        action="that order is legal; simtool search --save writes the best orders as placements",
        options="",
        on_host=True,
    )


def _unblocked(bar: OpSensitivity, whole: Sensitivity) -> StepLever:
    return StepLever(
        kind=Kind.UNBLOCKED,
        gain=_gain(bar.unsynced_ns or 0.0, whole),
        what=f"let {bar.name} not block, which gives",
        name=f"{bar.name} not blocking",
        action="pin the memory that it uploads from, so that the host goes on",
        options=f"--policy {whole.placement} --set unsync={bar.name}",
        on_host=True,
    )


def _told(draft: DraftTold, placement: str) -> StepLever:
    turned_on = "" if draft.placement == placement else f", and turn {draft.placement} on"
    over_static = draft.worth.baseline == draft.over_static.baseline
    return StepLever(
        kind=Kind.TOLD,
        gain=draft.gain if over_static else draft.worth.ratio - 1,
        what=f"tell the controller what a draft costs{turned_on}, which gives",
        name=f"{draft.placement} told what a draft costs",
        action=f"give the controller the draft's time ({draft.draft_ms:.3g} ms), xLLM's counts the verify alone: "
        f"{_both(draft)}",
        options=f"--policy {draft.placement} --draft-ms {draft.draft_ms:.3g}",
    )


def _both(draft: DraftTold) -> str:
    """Its worth over both that it may be read as: over static, as every verdict, and over itself untold."""
    over = draft.over_static
    on = f", modeled on the live {_percent(draft.live.ratio - 1)}" if draft.live else ""
    untold = f"{_percent(draft.over_untold.ratio - 1)} over {draft.placement} untold"
    return f"{_percent(draft.gain)} over {over.baseline}{on}; {untold} (means of {over.repetitions} {over.over})"


def _most(bar: OpSensitivity, found: Sensitivity) -> float:
    return _gain(max(bar.free_ns, bar.moved_ns or 0.0, bar.unsynced_ns or 0.0), found)


def _gain(gained_ns: float, found: Sensitivity) -> float:
    """What shorter steps are worth in tokens/s, a share; all of a step would be worth without end."""
    left = found.step_ns - gained_ns
    return found.step_ns / left - 1 if left > 0 else float("inf")


def _share(gained_ns: float | None, found: Sensitivity) -> str:
    return "-" if gained_ns is None or found.step_ns <= gained_ns else _percent(_gain(gained_ns, found))


def _percent(share: float) -> str:
    return f"{share * 100:+.1f} %"


def _where(bar: OpSensitivity) -> str:
    return bar.moved_to.where if bar.moved_to is not None and (bar.moved_ns or 0.0) > 0 else ""
