"""One cell of a study is one replay, boiled down to what questions need; cells run on all cores.

Figures are over decode steps at the full batch, as the steady tok/s of a single replay; its mean step is over all
decode steps, so those differ where batches ramp up and down. Placements that share a source, a concurrency and a seed
draw the same noise (common random numbers), so their differences are differences in order and not in noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import active_children, get_context

import polars as pl

from simtool.analysis.busy import device_busy
from simtool.analysis.comparison.arms import Arm
from simtool.analysis.comparison.runs import Run, cycles_of
from simtool.analysis.metrics import decode_steps, full_occupancy, whole_run_tokens_per_s
from simtool.errors import SimtoolError, UsageError, WorkerError
from simtool.lifetimes import end_with_parent, starting_helpers
from simtool.profile.profile import Profile
from simtool.replay.caveats import Caveats, merged
from simtool.replay.compiled.kernel import check_compiler, default_simulator
from simtool.replay.controller_options import ControllerOptions, PredictorChoice
from simtool.replay.profiling.step_table import with_step_table
from simtool.replay.replay import replay
from simtool.replay.scenario import Scenario, SimulatorChoice, outcome_mode
from simtool.step.beyond import stretch_of
from simtool.step.controller import ControllerSettings
from simtool.step.placement import Placement
from simtool.study.cluster import on_cluster
from simtool.study.compiled_figures import CompiledFigures, Figures
from simtool.trace.trace import Trace
from simtool.units import NS_PER_S

Progress = Callable[[int], None]


def silent(_done: int) -> None:
    """Report nothing."""


@dataclass(frozen=True)
class Setting:
    """What placements are compared under: a trace, a machine, a concurrency.

    seeds: of the noise; none: no noise. fit_error: every seed also prices with another refit of the costs, where the
    profile carries refits. stale_loss: see Scenario. controller: what is asked of it instead of the recorded settings.
    simulator: which one replays; None: the compiled one, or SimPy where that cannot run.
    """

    source: Trace
    profile: Profile
    concurrency: int
    seeds: tuple[int, ...] = ()
    fit_error: bool = True
    stale_loss: float = 0.0
    controller: ControllerOptions = field(default_factory=ControllerOptions)
    simulator: SimulatorChoice | None = None

    @property
    def refitted(self) -> bool:
        """Whether its replays differ in their costs too, so that their spread covers the fit's error."""
        return bool(self.fit_error and self.seeds and self.profile.refits)

    def scenarios(self, placement: Placement) -> list[Scenario]:
        """Return the replays of one placement: one without noise, or one a seed."""
        controller = self.controller.settings(self.source, self.profile)
        mode = outcome_mode(self.source.manifest)
        plain = Scenario(placement, self.concurrency, controller, outcomes=mode, stale_loss=self.stale_loss)
        base = with_step_table(self.source, self.profile, plain, self.controller)
        return [replace(base, noise="residual", seed=seed) for seed in self.seeds] or [base]

    def costs(self, seed: int, refitted: Callable[[int], Profile] | None = None) -> Profile:
        """Return what the replay of a seed is priced at; raises UsageError when there are more seeds than refits.

        refitted: makes the profile's refits, or remembers them; None: they are made anew.
        """
        if not self.refitted:
            return self.profile
        if seed >= self.profile.refits:
            raise UsageError(
                f"seed {seed}: profile {self.profile.name} holds {self.profile.refits} refits of its costs; expected "
                "at most as many seeds, or --noise-only"
            )
        return (refitted or self.profile.refitted)(seed)


#: A placement under a setting: one replay a seed.
Job = tuple[Setting, Placement]


@dataclass(frozen=True)
class Cell:
    """One replay. Figures are over decode steps at full occupancy; times in ns.

    tokens, duration_ns: by step. idle_ns: in which no device lane ran. whole_run_tokens_per_s: of all steps, ramp-up
    and ramp-down too. caveats: the replay's own.
    """

    placement: str
    concurrency: int
    seed: int | None
    run: Run
    full_batch: int
    sequence_steps: int
    offered: int
    accepted: int
    idle_ns: int
    whole_run_tokens_per_s: float
    caveats: Caveats = field(default_factory=Caveats)

    @property
    def steps(self) -> int:
        """Decode steps at full occupancy."""
        return len(self.run.tokens)

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second."""
        return float(self.run.tokens.sum() * NS_PER_S / self.run.duration_ns.sum())

    @property
    def step_ns(self) -> float:
        """Mean step."""
        return float(self.run.duration_ns.mean())

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens that the whole batch emits in a step."""
        return float(self.run.tokens.mean())

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over offered drafts; None when none were offered."""
        return self.accepted / self.offered if self.offered else None

    @property
    def idle_share(self) -> float:
        """Share of the time in which the device had nothing to do."""
        return self.idle_ns / float(self.run.duration_ns.sum())


def controller_of(source: Trace, profile: Profile, predictor: PredictorChoice | None = None) -> ControllerSettings:
    """Return the recorded controller with the chosen predictor; None: as every replay (see `ControllerOptions`)."""
    return ControllerOptions(predictor).settings(source, profile)


def run_cell(source: Trace, profile: Profile, scenario: Scenario, *, simulator: SimulatorChoice = "simpy") -> Cell:
    """Replay one scenario and keep its figures."""
    replayed = replay(source, profile, scenario, simulator=simulator)
    return _cell(scenario, _boil_down(replayed.trace(source.path), replayed.caveats))


def run_cells(jobs: Sequence[Job], *, processes: int = 1, progress: Progress = silent) -> list[list[Cell]]:
    """Run placements under settings: for each job its cells, one a seed. The order is the jobs' own.

    processes: how many to use with SimPy; 1 stays in this one, and so does the compiled simulator, which is done before
    another process has started. Raises TraceError or ProfileError like a replay, UsageError where no step decodes.
    """
    found: list[list[Cell]] = []
    for cells in each_job(jobs, processes=processes):
        if isinstance(cells, SimtoolError):
            raise cells
        found.append(cells)
        progress(sum(map(len, found)))
    return found


def each_job(
    jobs: Sequence[Job], *, processes: int = 1, cluster: str | None = None
) -> Iterator[list[Cell] | SimtoolError]:
    """Yield each job's cells when they are done, in the jobs' order, or why there are none; see `run_cells`.

    cluster: the address of a Dask scheduler, whose workers run them instead.
    """
    if cluster is not None:
        yield from on_cluster(cluster, _attempt_alone, jobs)
        return
    compiled = all(simulator_of(setting, placement) == "compiled" for setting, placement in jobs)
    if compiled or processes == 1 or len(jobs) == 1:
        yield from map(partial(_attempt, job_runner()), jobs)
        return
    with _pool(processes) as pool:
        with starting_helpers():
            found = pool.map(partial(_attempt, _run_job), jobs, chunksize=4)
        yield from found


def _attempt_alone(job: Job) -> list[Cell] | SimtoolError:
    return _attempt(job_runner(), job)


def _attempt(run: Callable[[Job], list[Cell]], job: Job) -> list[Cell] | SimtoolError:
    try:
        return run(job)
    except SimtoolError as error:
        return error


@contextmanager
def _pool(processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes to compute with. Left by an exception, an interrupt too, they end at once, whatever they have to do."""
    others = set(active_children())
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=end_with_parent) as pool:
        try:
            yield pool
        except BaseException as error:
            for worker in set(active_children()) - others:
                worker.terminate()
            pool.shutdown(cancel_futures=True)  # waits for the pool's own thread, which alone reaps its workers
            if isinstance(error, BrokenProcessPool):
                why = "a worker process was ended from outside, perhaps for want of memory; try fewer --jobs"
                raise WorkerError(why) from error
            raise


def arm_of(cells: Sequence[Cell], label: str | None = None) -> Arm:
    """Return the cells of one placement as an arm, for `analysis.compare`."""
    name = label or cells[0].placement
    return Arm(name, cells[0].placement, "modeled", tuple(cell.run for cell in cells), ())


def caveats_of(cells: Iterable[Cell]) -> Caveats:
    """Return what the replays of a study have to say together."""
    return merged(cell.caveats for cell in cells)


def mean(cells: Sequence[Cell], get: Callable[[Cell], float]) -> float:
    """Average a figure over cells."""
    return sum(map(get, cells)) / len(cells)


def mean_tokens_per_s(cells: Sequence[Cell]) -> float:
    """Average tokens per second over cells."""
    return mean(cells, lambda cell: cell.tokens_per_s)


def mean_step_ns(cells: Sequence[Cell]) -> float:
    """Average the mean step over cells, ns."""
    return mean(cells, lambda cell: cell.step_ns)


def mean_tokens_per_step(cells: Sequence[Cell]) -> float:
    """Average the tokens that the whole batch emits in a step over cells."""
    return mean(cells, lambda cell: cell.tokens_per_step)


def simulator_of(setting: Setting, placement: Placement) -> SimulatorChoice:
    """Return which simulator replays a placement; raises UsageError when one is asked for that cannot run.

    Some placements only SimPy's replays (`Placement.needs_simpy`).
    """
    if setting.simulator == "compiled":
        check_compiler()
    return "simpy" if placement.needs_simpy else setting.simulator or default_simulator()


def job_runner() -> Callable[[Job], list[Cell]]:
    """Return what runs jobs one after the other, each by its setting's simulator."""
    compiled = CompiledFigures()

    def run(job: Job) -> list[Cell]:
        setting, placement = job
        if simulator_of(setting, placement) == "simpy":
            return _run_job(job)
        refitted = partial(compiled.refitted, setting.profile)
        cells = [
            _compiled_cell(compiled, setting.source, setting.costs(scenario.seed, refitted), scenario)
            for scenario in setting.scenarios(placement)
        ]
        return _drawn(setting, cells)

    return run


def _run_job(job: Job) -> list[Cell]:
    setting, placement = job
    scenarios = setting.scenarios(placement)
    return _drawn(setting, [run_cell(setting.source, setting.costs(each.seed), each) for each in scenarios])


def _drawn(setting: Setting, cells: list[Cell]) -> list[Cell]:
    """The cells, their runs marked where each is priced at a draw of the costs."""
    return [replace(cell, run=replace(cell.run, refitted=True)) for cell in cells] if setting.refitted else cells


def _compiled_cell(compiled: CompiledFigures, source: Trace, profile: Profile, scenario: Scenario) -> Cell:
    figures = compiled.figures(source, profile, scenario)
    return _cell(scenario, figures) if figures else run_cell(source, profile, scenario, simulator="compiled")


def _cell(scenario: Scenario, figures: Figures) -> Cell:
    name = scenario.placement.name
    return Cell(
        placement=name,
        concurrency=scenario.concurrency,
        seed=None if scenario.noise == "none" else scenario.seed,
        run=Run(
            name=name,
            tokens=figures.tokens,
            duration_ns=figures.duration_ns,
            workload="replay",
            cycles=figures.cycles,
            stretch=stretch_of(figures.caveats.beyond),
        ),
        full_batch=figures.full_batch,
        sequence_steps=figures.sequence_steps,
        offered=figures.offered,
        accepted=figures.accepted,
        idle_ns=figures.idle_ns,
        whole_run_tokens_per_s=figures.whole_run_tokens_per_s,
        caveats=figures.caveats,
    )


def _boil_down(trace: Trace, caveats: Caveats) -> Figures:
    rows = trace.table("rows")
    full = full_occupancy(decode_steps(trace.table("steps"), rows))
    if full.is_empty():
        raise UsageError(f"{trace.path}: every request emits one token, so no step decodes; record longer outputs")
    mine = rows.filter(pl.col("step").is_in(full["step"].implode()))
    busy = device_busy(trace.table("events")).within(full["start_ns"], full["end_ns"])
    return Figures(
        tokens=full["tokens"].to_numpy(),
        duration_ns=full["duration_ns"].to_numpy(),
        full_batch=full["batch"].to_list()[0],
        sequence_steps=mine.height,
        offered=int(mine["prefix_len"].sum()),
        accepted=int(mine["accepted"].sum()),
        idle_ns=int(full["duration_ns"].sum()) - int(busy.sum()),
        whole_run_tokens_per_s=whole_run_tokens_per_s(trace.table("requests"), trace.table("steps")),
        cycles=cycles_of(trace, full),
        caveats=caveats,
    )
