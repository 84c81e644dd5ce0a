"""What each piece of a step is worth: the step time gained if it were free, halved, or in its best other place.

Time on the critical path is not the same thing: take one piece away and another bounds the step. So every entry is a
replay with that one change, at the same tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from simtool.errors import ProfileError
from simtool.profile.ahead_costs import with_ahead_costs
from simtool.profile.whatif import with_change
from simtool.replay.caveats import Caveats
from simtool.step.order_search import Move, moves
from simtool.step.placement import Placement
from simtool.study.draft_told import DraftTold, draft_told, op_times_ns
from simtool.study.runner import Progress, Setting, caveats_of, mean_step_ns, mean_tokens_per_s, run_cells, silent

#: What is tried of every piece of work: no time, half, a tenth less.
_CHANGES = ("0", "x0.5", "x0.9")


@dataclass(frozen=True)
class OpSensitivity:
    """One host op or one piece of device work; gains in ns of the mean full step (negative: lost).

    own_ns: what it takes itself in such a step, without its waits. free_ns is that and what follows from it: more where
    work behind it gets quicker too, less where something else bounds the step meanwhile.
    tenth_ns: if it took a tenth less. stream: host, or the device stream that runs it first.
    unsynced_ns: if it did not block where its implementation does; None where it does not block.
    moved_ns: of the best other legal place of a host op, moved_to: that place; None when it has none.
    """

    name: str
    lane: str
    own_ns: float
    free_ns: float
    halved_ns: float
    moved_ns: float | None = None
    moved_to: Move | None = None
    unsynced_ns: float | None = None
    tenth_ns: float = 0.0
    stream: str = ""

    @property
    def follows_ns(self) -> float:
        """The part of free_ns that is not its own time."""
        return self.free_ns - self.own_ns


@dataclass(frozen=True)
class Sensitivity:
    """Bars of one placement, the largest gain first. step_ns: the mean full step without any change.

    draft: what it is worth to tell the controller what a draft costs; None where it cannot be told.
    """

    placement: str
    concurrency: int
    step_ns: float
    bars: tuple[OpSensitivity, ...]
    draft: DraftTold | None = None
    caveats: Caveats = field(default_factory=Caveats)


def sensitivity(setting: Setting, placement: Placement, *, processes: int, progress: Progress = silent) -> Sensitivity:
    """Replay the placement once for each change of one cost, and once for each legal move of one op, without noise.

    What the controller is told is replayed with the setting's seeds.
    """
    setting = replace(setting, profile=with_ahead_costs(setting.profile))  # what a replay lends can be changed
    seeded, setting = setting, replace(setting, seeds=())
    parts = list(_parts(placement))
    cost_jobs = [(_changed(setting, f"{lane}.{name}", value), placement) for name, lane in parts for value in _CHANGES]
    tried = [move for name, lane in parts if lane == "host" for move in moves(placement, name)]
    move_jobs = [(setting, move.placement) for move in tried]
    syncs = _syncs(placement)
    unsync_jobs = [(replace(setting, profile=with_change(setting.profile, f"unsync={op}")), placement) for op in syncs]
    jobs = [(setting, placement), *cost_jobs, *move_jobs, *unsync_jobs]
    cells = run_cells(jobs, processes=processes, progress=progress)
    base_ns, *steps_ns = [mean_step_ns(found) for found in cells]
    gains = [base_ns - step_ns for step_ns in steps_ns]
    best = _best_moves(tried, gains[len(cost_jobs) : len(cost_jobs) + len(move_jobs)])
    unsynced = dict(zip(syncs, gains[len(cost_jobs) + len(move_jobs) :], strict=True))
    own = op_times_ns(setting, placement)
    streams = _streams(placement)
    bars = []
    for i, (name, lane) in enumerate(parts):
        moved_ns, moved_to = (best.get(name) if lane == "host" else None) or (None, None)
        bars.append(
            OpSensitivity(
                name=name,
                lane=lane,
                own_ns=own.get((name, lane), 0.0),
                free_ns=gains[len(_CHANGES) * i],
                halved_ns=gains[len(_CHANGES) * i + 1],
                tenth_ns=gains[len(_CHANGES) * i + 2],
                stream=streams[name] if lane != "host" else lane,
                unsynced_ns=unsynced.get(name) if lane == "host" else None,
                moved_ns=moved_ns,
                moved_to=moved_to,
            )
        )
    bars.sort(key=lambda bar: -max(bar.free_ns, bar.moved_ns or 0.0, bar.unsynced_ns or 0.0))
    caveats = caveats_of(cell for found in cells for cell in found)
    return Sensitivity(
        placement=placement.name,
        concurrency=setting.concurrency,
        step_ns=base_ns,
        bars=tuple(bars),
        draft=_draft(seeded, placement, processes),
        caveats=caveats,
    )


def _draft(setting: Setting, placement: Placement, processes: int) -> DraftTold | None:
    """None too where the costs lack an op of static, or of the placement that would be turned on."""
    try:
        return draft_told(setting, placement, processes=processes)
    except ProfileError:
        return None


def fastest(setting: Setting, placements: Sequence[Placement], *, processes: int) -> Placement:
    """Return the placement with the most steady tokens/s, replayed without noise; the first of equals."""
    quiet = replace(setting, seeds=())
    cells = run_cells([(quiet, placement) for placement in placements], processes=processes)
    return max(zip(cells, placements, strict=True), key=lambda pair: mean_tokens_per_s(pair[0]))[1]


def count_jobs(placement: Placement) -> int:
    """Return how many placements under settings a sensitivity takes, for progress."""
    parts = list(_parts(placement))
    moved = sum(len(moves(placement, name)) for name, lane in parts if lane == "host")
    return 1 + len(_CHANGES) * len(parts) + moved + len(_syncs(placement))


def _syncs(placement: Placement) -> list[str]:
    """The ops that block in this placement only because their implementation does."""
    return list(dict.fromkeys(op.name for op in placement.ever_runs() if op.syncs))


def _parts(placement: Placement) -> Iterator[tuple[str, str]]:
    """Yield (name, lane) of every host op and every piece of device work that either kind of step runs.

    Not loop_gap: it lies between steps, so no step is shorter without it.
    """
    kinds: Sequence[bool] = (True, False) if placement.decides else (False,)
    ops = list({op.name: op for pruned in kinds for op in placement.ops(pruned=pruned)}.values())
    yield from ((op.name, "host") for op in ops)
    yield from ((work, "device") for work in dict.fromkeys(work.name for op in ops for work in op.works))


def _streams(placement: Placement) -> dict[str, str]:
    """Device work -> the stream that runs it first in a step."""
    found: dict[str, str] = {}
    for pruned in (True, False) if placement.decides else (False,):
        for op in placement.ops(pruned=pruned):
            for work in op.works:
                found.setdefault(work.name, work.lane.value)
    return found


def _changed(setting: Setting, name: str, value: str) -> Setting:
    return replace(setting, profile=with_change(setting.profile, f"{name}={value}"))


def _best_moves(tried: Sequence[Move], gains: Sequence[float]) -> dict[str, tuple[float, Move]]:
    best: dict[str, tuple[float, Move]] = {}
    for move, gain in zip(tried, gains, strict=True):
        if move.op not in best or gain > best[move.op][0]:
            best[move.op] = (gain, move)
    return best
