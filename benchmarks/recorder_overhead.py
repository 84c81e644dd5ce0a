"""What does recording cost a run?

    python benchmarks/recorder_overhead.py --target FOLDER --draft FOLDER

A pair is two runs of the same prompts on one open device that take turns step by step (interleave.py): one
writes a trace, the other keeps nothing. Both emit the same tokens in the same steps and meet the same machine, so the
ratio of their times is the cost of recording inside a step (what is kept is read between steps, where their clocks
stand still). Half of the pairs have a silent run whose device work is timed as in a recording, and half one without any
timing of device work: the two ratios tell what the timing costs. The interval is Student's t over pairs. Beside each
figure: the share of the machine that others used, and how often the host waited for the device, which recording must
not change.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from simtool.engine.devices.open import DEVICE_NAMES, open_device
from simtool.engine.prompts.files import stdlib_prompts
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import RunnerSpec
from simtool.engine.serving.engine import RunResult
from simtool.engine.serving.host_load import MachineMeter
from simtool.engine.serving.recorder import Recorder
from simtool.engine.serving.session import DeviceShare, RunPlan, Session
from simtool.stats.student import ratio_interval
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.units import NS_PER_MS

PROMPT_TOKENS = (24, 96)


class Waits(Recorder):
    """The silent recorder, which counts how often the host waits."""

    count = 0

    @contextmanager
    def waiting(self):
        """Count one wait."""
        self.count += 1
        yield


class Timed(Recorder):
    """The silent recorder with device work timed, as a recording has it."""

    times_work = True


@dataclass(frozen=True)
class Overhead:
    """Step times in ms, their ratio with its interval, and what the ratio must not hide.

    silent, ratio: against runs that keep nothing, their device work timed; untimed: against runs without that timing.
    """

    placement: str
    batch: int
    pairs: int
    steps: int
    silent_step_ms: float
    recorded_step_ms: float
    ratio: float
    low: float
    high: float
    untimed_step_ms: float
    untimed_ratio: float
    untimed_low: float
    untimed_high: float
    silent_waits: int
    recorded_waits: int
    others_share: float | None


def measure(session: Session, plan: RunPlan, pairs: int, folder: Path) -> Overhead:
    """Run the plan `4 x pairs` times, half of them recorded."""
    session.warm_up(plan)
    meter = MachineMeter(session.device.pids)
    rows: dict[type[Recorder], list[tuple[float, float]]] = {Timed: [], Recorder: []}
    for i in range(pairs):
        for silent, found in rows.items():
            jobs = [(None, plan), (folder / str(i), plan)]
            quiet, kept = session.record_interleaved(jobs, silent=silent, force=True)
            found.append((_step_ns(quiet), _step_ns(kept)))
    use = meter.stop()
    timed, recorded = np.array(rows[Timed]).T
    untimed, recorded_too = np.array(rows[Recorder]).T
    ratio, untimed_ratio = ratio_interval(recorded, timed), ratio_interval(recorded_too, untimed)
    low, high = ratio.bounds or (ratio.mean, ratio.mean)
    untimed_low, untimed_high = untimed_ratio.bounds or (untimed_ratio.mean, untimed_ratio.mean)
    return Overhead(
        placement=plan.placement.name,
        batch=session.spec.slots // 2,
        pairs=pairs,
        steps=quiet.steps,
        silent_step_ms=timed.mean() / NS_PER_MS,
        recorded_step_ms=recorded.mean() / NS_PER_MS,
        ratio=ratio.mean,
        low=low,
        high=high,
        untimed_step_ms=untimed.mean() / NS_PER_MS,
        untimed_ratio=untimed_ratio.mean,
        untimed_low=untimed_low,
        untimed_high=untimed_high,
        silent_waits=_silent_waits(session, plan),
        recorded_waits=_recorded_waits(folder / "0"),
        others_share=use.others if use else None,
    )


def _silent_waits(session: Session, plan: RunPlan) -> int:
    """How often the host waits when nothing is kept, at the concurrency that the pairs ran at."""
    counter = Waits(session.device.now_ns)
    half = DeviceShare(session.spec.slots // 2, session.spec.kv_blocks // 2)
    session.run(plan, counter, share=half)
    return counter.count


def _step_ns(result: RunResult) -> float:
    """Mean step time up to the last token: flushes between steps count, the trace's last flush does not."""
    last_ns = max(request.finished_ns for request in result.requests.values())
    return (last_ns - result.start_ns) / result.steps


def _recorded_waits(path: Path) -> int:
    from simtool.trace.trace import open_trace  # noqa: PLC0415  polars is not needed to measure

    return int(open_trace(path).table("events")["wait_start_ns"].count())


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--device", choices=DEVICE_NAMES, default="cpu")
    parser.add_argument("--placement", choices=list(BUILT_IN), default="lag-overlap")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=20)
    given = parser.parse_args()
    prompts: list[Prompt] = stdlib_prompts(given.target, given.prompts, 0, PROMPT_TOKENS, given.new_tokens)
    context = PROMPT_TOKENS[1] + given.new_tokens + 32
    slots = 2 * given.batch  # both runs of a pair at once
    spec = RunnerSpec(given.target, given.draft, slots, slots * -(-context // 16), context_tokens=context)
    plan = RunPlan(prompts, BUILT_IN[given.placement], ControllerSettings(LinearPredictor(1.0, 0.02, 0.0)))
    with Session(open_device(given.device, spec), spec) as session, tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(measure(session, plan, given.pairs, Path(folder))), indent=2))


if __name__ == "__main__":
    main()
