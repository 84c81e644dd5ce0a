"""What does a step log cost a step?

    python benchmarks/step_log_overhead.py --target FOLDER --draft FOLDER

The engine runs with a recorder that hands every decode step to `integrations/python/simtool_step_log.py`, confidence
and drafts included, and keeps nothing else. Two shares of the step's time are told, each with Student's t interval over
runs: what the engine's thread spends on making the lists and handing them over, and what the writer's thread spends on
the CPU, which an engine that waits for its device does not notice.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from simtool.engine.devices.open import DEVICE_NAMES, open_device
from simtool.engine.prompts.files import stdlib_prompts
from simtool.engine.runner.spec import RunnerSpec
from simtool.engine.serving.recorder import Recorder, StepFacts
from simtool.engine.serving.session import RunPlan, Session
from simtool.stats.interval import Interval
from simtool.stats.student import ratio_interval
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import BUILT_IN

sys.path.insert(0, str(Path(__file__).parents[1] / "integrations" / "python"))
from simtool_step_log import StepLog  # a file to copy, not a package

PROMPT_TOKENS = (24, 96)


class Logging(Recorder):
    """Hands every decode step to the log, and adds up how long that took on the engine's thread."""

    observes = ("draft_tokens", "confidence")

    def __init__(self, now_ns, log: StepLog) -> None:
        super().__init__(now_ns)
        self.log, self.spent_ns, self.steps = log, 0, 0

    def end_step(self, s: StepFacts, timings) -> None:
        if s.prefill:
            return
        start_ns = time.perf_counter_ns()
        self.log.step(
            start_ns,
            start_ns,
            [sequence.request.request_id for sequence in s.sequences],
            anchor=list(s.positions),
            prefix_len=list(s.prefix_lens),
            accepted=list(s.accepted),
            emitted=[len(tokens) for tokens in s.emitted],
            confidence=s.observed["confidence"].tolist(),
            draft_tokens=s.observed["draft_tokens"].tolist(),
        )
        self.spent_ns += time.perf_counter_ns() - start_ns
        self.steps += 1


@dataclass(frozen=True)
class Cost:
    """Shares of the steps' time, with their intervals; bytes: of a line."""

    batch: int
    runs: int
    steps: int
    step_ms: float
    engine_share: dict[str, object]
    writer_share: dict[str, object]
    bytes_a_step: float


def measure(session: Session, plan: RunPlan, runs: int, folder: Path) -> Cost:
    """Run the plan so often, each run with a log of its own."""
    session.warm_up(plan)
    rows, size = [], 0
    for i in range(runs):
        path = folder / f"{i}.jsonl"
        log = StepLog(str(path), engine="simtool", sl=plan_sl(session), algorithm="dspark")
        clock = time.pthread_getcpuclockid(log._writer.ident or 0)
        before_ns = time.clock_gettime_ns(clock)
        recorder = Logging(session.device.now_ns, log)
        result = session.run(plan, recorder)
        last_ns = max(request.finished_ns for request in result.requests.values())
        while not log._lines.empty():
            time.sleep(0.001)  # until the writer has caught up, to read its clock
        rows.append((recorder.spent_ns, time.clock_gettime_ns(clock) - before_ns, last_ns - result.start_ns))
        log.close()
        size += path.stat().st_size
    spent, written, whole = zip(*rows, strict=True)
    return Cost(
        batch=session.spec.slots,
        runs=runs,
        steps=recorder.steps,
        step_ms=sum(whole) / runs / recorder.steps / 1e6,
        engine_share=_told(ratio_interval(spent, whole)),
        writer_share=_told(ratio_interval(written, whole)),
        bytes_a_step=size / runs / recorder.steps,
    )


def plan_sl(session: Session) -> int:
    """Draft tokens per block of the session's drafter."""
    return session.info.drafts


def _told(interval: Interval) -> dict[str, object]:
    low, high = interval.bounds or (interval.mean, interval.mean)
    return {"share": interval.mean, "low": low, "high": high, "method": interval.method}


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--device", choices=DEVICE_NAMES, default="cpu")
    parser.add_argument("--placement", choices=list(BUILT_IN), default="static")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=64)
    parser.add_argument("--runs", type=int, default=10)
    given = parser.parse_args()
    prompts = stdlib_prompts(given.target, given.prompts, 0, PROMPT_TOKENS, given.new_tokens)
    context = PROMPT_TOKENS[1] + given.new_tokens + 32
    spec = RunnerSpec(given.target, given.draft, given.batch, given.batch * -(-context // 16), context_tokens=context)
    plan = RunPlan(prompts, BUILT_IN[given.placement], ControllerSettings(LinearPredictor(1.0, 0.02, 0.0)))
    with Session(open_device(given.device, spec), spec) as session, tempfile.TemporaryDirectory() as folder:
        print(json.dumps(asdict(measure(session, plan, given.runs, Path(folder))), indent=2))


if __name__ == "__main__":
    main()
