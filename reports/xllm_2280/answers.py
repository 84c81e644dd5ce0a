"""Everything that the answers page says about the traces of one SL, computed; the report room puts it into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simtool import PLACEMENTS, Trace
from simtool.analysis.staleness import Persistence, Staleness
from simtool.progress import Expected, ShowProgress, unshown
from simtool.study.break_even import BreakEven, break_even
from simtool.study.full_batch import workload
from simtool.study.runner import Setting
from simtool.study.search import OrderCandidates, SearchResult, order_candidates, search
from simtool.study.sensitivity import Sensitivity, sensitivity
from simtool.study.settings import expect
from simtool.study.staleness import staleness_study
from xllm_2280.arms import ARMS
from xllm_2280.load import Load
from xllm_2280.losses import STALE_LOSSES, LossAxis, loss_axes
from xllm_2280.machines import MachineKind, StudiedMachine, machines
from xllm_2280.rebinding import Rebound, rebinding
from xllm_2280.regions import Region, regions

#: Costs of a decision that the break-even contours cover.
DECISIONS_NS = tuple(us * 1000 for us in (0, 50, 100, 200, 500, 1000, 2000))


@dataclass(frozen=True)
class AnswersPlan:
    """How much to compute. waves: requests that each slot serves. fit_error: see Setting.

    searched: concurrencies at which orders are searched and each op's worth is computed.
    """

    concurrencies: tuple[int, ...] = (1, 8, 32, 64)
    searched: tuple[int, ...] = (1, 32)
    lags: tuple[int, ...] = (1, 2, 3)
    waves: int = 2
    seeds: int = 8
    fit_error: bool = True
    losses: tuple[float, ...] = STALE_LOSSES
    processes: int = 1


@dataclass(frozen=True)
class Searched:
    """A search on one machine."""

    machine: StudiedMachine
    tried: OrderCandidates
    results: tuple[SearchResult, ...]


@dataclass(frozen=True)
class TraceAnswers:
    """The answers from the traces of one algorithm and load. source: whose requests and outcomes were replayed."""

    source: Trace
    fitted_on: tuple[str, ...]
    machines: tuple[StudiedMachine, ...]
    regions: tuple[Region, ...]
    losses: tuple[LossAxis, ...]
    searches: tuple[Searched, ...]
    sensitivities: tuple[tuple[StudiedMachine, Sensitivity], ...]
    break_evens: tuple[tuple[StudiedMachine, tuple[BreakEven, ...]], ...]
    effects: tuple[Staleness, ...]
    persistence: tuple[Persistence, ...]
    rebound: tuple[Rebound, ...]
    plan: AnswersPlan

    def machine(self, kind: MachineKind) -> StudiedMachine:
        """Return the machine of a kind; published is there only where figures were given."""
        return next(machine for machine in self.machines if machine.kind is kind)

    @property
    def load(self) -> Load:
        """Block length, and greedy or sampled."""
        return Load.of(self.source)


def group_traces(traces: Sequence[Trace]) -> list[list[Trace]]:
    """Group live traces that may be calibrated together: one algorithm, SL and temperature, greedy ones first."""
    groups: dict[tuple[str, Load], list[Trace]] = {}
    for trace in traces:
        if trace.manifest.origin == "live":
            groups.setdefault((trace.manifest.algorithm, Load.of(trace)), []).append(trace)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[1].temperature, key[1].sl, key[0]))]


def answer_traces(
    traces: Sequence[Trace],
    figures: Path | None,
    created: str,
    plan: AnswersPlan,
    say: Callable[[str], None],
    progress: ShowProgress = unshown,
) -> TraceAnswers:
    """Answer from the live traces of one load; say: is told what is being computed, and progress how far that is."""
    source = _best_source(traces)
    made, load = machines(traces, source, figures, created), Load.of(source)
    say(f"SL {load}: {len(ARMS)} placements on {len(made)} machines")
    grid = [setting for machine in made for setting in _settings(source, machine, plan.concurrencies, plan)]
    each = sum(max(len(setting.seeds), 1) for setting in grid)
    with progress("replaying every placement", each * len(ARMS), _expect(grid, len(ARMS), plan)) as done:
        found = regions(grid, ARMS, processes=plan.processes, progress=done)
    say(f"SL {load}: acceptance loss")
    with progress("replaying every loss", each * len(plan.losses), _expect(grid, len(plan.losses), plan)) as done:
        axes = loss_axes(grid, found, ARMS, losses=plan.losses, processes=plan.processes, progress=done)
    say(f"SL {load}: search")
    extremes = [machine for machine in made if machine.kind is not MachineKind.DEVICE_BOUND]
    searches = tuple(_search(source, machine, plan, progress) for machine in extremes)
    say(f"SL {load}: what if")
    sensitivities = tuple((machine, _sensitivity(source, machine, plan)) for machine in extremes)
    contours = tuple((machine, _break_even(source, machine, plan)) for machine in extremes)
    lagged = staleness_study(source, made[0].profile, plan.lags)
    published = [machine for machine in made if machine.kind is MachineKind.PUBLISHED]
    rebound = [
        rebinding(setting, processes=plan.processes)
        for machine in published  # only there do the costs of an NPU's graph mode mean anything
        for setting in _settings(source, machine, plan.searched, plan)
    ]
    return TraceAnswers(
        source=source,
        fitted_on=tuple(trace.path.name for trace in traces),
        machines=tuple(made),
        regions=tuple(found),
        losses=tuple(axes),
        searches=searches,
        sensitivities=sensitivities,
        break_evens=contours,
        effects=lagged.effects,
        persistence=lagged.persistence,
        rebound=tuple(each for found_there in rebound for each in found_there),
        plan=plan,
    )


def _best_source(traces: Sequence[Trace]) -> Trace:
    """The trace that knows most outcomes: a placement may visit any anchor."""
    return max(traces, key=lambda trace: trace.height("outcomes"))


def _settings(source: Trace, machine: StudiedMachine, concurrencies: Sequence[int], plan: AnswersPlan) -> list[Setting]:
    """A constructed profile has no residuals, so noise would change nothing: one replay says it all."""
    noisy = any(cost.pre.residuals_ns for cost in machine.profile.decode.host.values())
    seeds = tuple(range(plan.seeds)) if noisy else ()
    return [Setting(workload(source, c, plan.waves), machine.profile, c, seeds, plan.fit_error) for c in concurrencies]


def _search(source: Trace, machine: StudiedMachine, plan: AnswersPlan, progress: ShowProgress) -> Searched:
    settings = _settings(source, machine, plan.searched, plan)
    tried = order_candidates(settings[0], (None, 0, 1))
    results = []
    for setting in settings:
        count = len(tried.placements)
        takes = _expect([replace(setting, seeds=())], count, plan)
        with progress(f"searching orders for {machine.profile.name}", count, takes) as done:
            results.append(search(setting, tried, top=3, processes=plan.processes, progress=done))
    return Searched(machine, tried, tuple(results))


def _expect(settings: Sequence[Setting], placements: int, plan: AnswersPlan) -> Expected:
    return expect([(setting, placements) for setting in settings], plan.processes)


def _sensitivity(source: Trace, machine: StudiedMachine, plan: AnswersPlan) -> Sensitivity:
    (setting,) = _settings(source, machine, plan.searched[-1:], plan)
    quiet = replace(setting, seeds=())
    return sensitivity(quiet, PLACEMENTS["lag-overlap"], processes=plan.processes)


def _break_even(source: Trace, machine: StudiedMachine, plan: AnswersPlan) -> tuple[BreakEven, ...]:
    settings = [replace(setting, seeds=()) for setting in _settings(source, machine, plan.concurrencies, plan)]
    late = PLACEMENTS["lag-overlap-late"]
    return tuple(break_even(settings, DECISIONS_NS, late, processes=plan.processes))
