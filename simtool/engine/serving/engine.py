"""A live run: requests in, tokens out, one worker step after another until nothing is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from simtool.engine.devices.protocol import Download, WorkTiming
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.runner.spec import VERIFIED
from simtool.engine.serving.recorder import RequestFacts
from simtool.engine.serving.worker import StepState, Worker
from simtool.errors import CapacityError
from simtool.step.scheduler import ActiveRequest, Request, Scheduler
from simtool.units import NS_PER_S


@dataclass
class RunResult:
    """What a run produced. Times in ns on the run's clock. counters: its policy's fallbacks; None: it has no policy."""

    requests: dict[str, RequestFacts] = field(default_factory=dict)
    steps: int = 0
    start_ns: int = 0
    end_ns: int = 0
    counters: dict[str, int] | None = None

    @property
    def output_ids(self) -> dict[str, list[int]]:
        """Output token ids by request."""
        return {name: facts.output_ids for name, facts in self.requests.items()}


@dataclass
class _Unread:
    """A step and whom it finished, whose device outputs are on their way. names: what each is called -> what it is."""

    step: StepState
    finished: list[tuple[ActiveRequest, str]]
    names: dict[str, str] = field(default_factory=dict)
    download: Download | None = None


class LiveRun:
    """A run under way: `advance` makes one step, until it is `finished`.

    timings: device times on this run's clock; None: the device's own. Raises CapacityError at its start when a prompt
    cannot fit the models' context_tokens or the KV cache.
    """

    def __init__(
        self,
        worker: Worker,
        prompts: Iterable[Prompt],
        context_tokens: int,
        timings: Callable[[], list[WorkTiming]] | None = None,
    ) -> None:
        self.worker = worker
        self._timings = timings or worker.device.timings
        self._unread: _Unread | None = None
        self.result = RunResult(start_ns=worker.recorder.now_ns())
        for prompt in sorted(prompts, key=lambda prompt: prompt.arrival_ns):  # who comes first is served first
            _enqueue(worker, prompt, context_tokens, self.result)

    @property
    def finished(self) -> bool:
        """Whether every request has been served."""
        return self.worker.scheduler.idle

    @property
    def served(self) -> int:
        """Tokens that are done with, of all that were asked for: of a finished request all, whenever it stopped."""
        requests = self.result.requests.values()
        return sum(each.max_new_tokens if each.finish_reason else len(each.output_ids) for each in requests)

    def advance(self) -> None:
        """Make the next step and keep it; waits for an arrival when there is nothing else to do."""
        self.step()
        self.keep()

    def step(self) -> None:
        """Make the next step: its ops and nothing else, up to the stamp that closes the last."""
        worker = self.worker
        worker.device.timed = worker.recorder.times_work
        _await_arrival(worker)
        self._made = worker.step(self.result.steps, worker.recorder.now_ns())
        worker.recorder.close_step()

    def keep(self) -> None:
        """Read what is observed of the step just made, and when its device work ran, all at once; record it."""
        s, worker = self._made, self.worker
        names = worker.recorder.observes_prefill if s.prefill else worker.recorder.observes
        unread = _Unread(s, list(worker.finished))
        worker.finished.clear()
        if names and s.ahead:  # the next block is being drafted: what is read comes behind it, and nobody waits here
            behind = {VERIFIED.format(name): name for name in worker.recorder.observes_behind}
            unread.names = {**behind, **{name: name for name in names if name not in behind.values()}}
            unread.download = worker.device.observe_later(tuple(unread.names))
        elif names:
            s.observed = worker.device.observe(names)
        worker.recorder.end_step(s, self._timings())
        self.result.steps += 1
        self._read()
        self._unread = unread
        if unread.download is None:
            self._read()

    def _read(self) -> None:
        """Keep what the last step did that was not observed yet."""
        unread, self._unread = self._unread, None
        if unread is None:
            return
        if unread.download is not None:
            arrays = unread.download.wait()
            unread.step.observed = {unread.names[name]: array for name, array in arrays.items()}
        self.worker.recorder.end_rows(unread.step)
        _account(self.worker, unread, self.result)

    def close(self) -> RunResult:
        """Take the last device times and return the result."""
        self._read()
        self.worker.device.timed = True
        self.worker.recorder.close(self._timings())
        self.result.end_ns = self.worker.recorder.now_ns()
        self.result.counters = dict(self.worker.decider.counters) if self.worker.decider else None
        return self.result


def run(
    worker: Worker,
    prompts: Iterable[Prompt],
    context_tokens: int,
    progress: Callable[[int], None] = lambda finished: None,
    most_steps: int | None = None,
) -> RunResult:
    """Serve every prompt and return the result; `progress` hears how many tokens are done with, of those asked for.

    context_tokens: positions the models can hold. most_steps: stop after so many, whatever is left to do.
    """
    this = LiveRun(worker, prompts, context_tokens)
    while not this.finished and (most_steps is None or this.result.steps < most_steps):
        this.advance()
        progress(this.served)
    return this.close()


def queue(scheduler: Scheduler, prompt: Prompt, context_tokens: int, arrival_ns: int = 0) -> None:
    """Queue a request; raises CapacityError for one that the models' context or the KV cache could never hold."""
    needed = len(prompt.prompt_ids) + prompt.max_new_tokens + scheduler.lookahead
    if needed > context_tokens:
        raise CapacityError(
            f"request {prompt.request_id}: {len(prompt.prompt_ids)} prompt + {prompt.max_new_tokens} new tokens and "
            f"the drafts ahead need {needed} positions; the models hold {context_tokens}: shorten it or "
            "--max-new-tokens"
        )
    scheduler.add(Request(prompt.request_id, len(prompt.prompt_ids), prompt.max_new_tokens, arrival_ns))


def _enqueue(worker: Worker, prompt: Prompt, context_tokens: int, result: RunResult) -> None:
    # requests of one moment are queued one after another: their stamps keep the order for whoever replays the run
    arrival_ns = result.start_ns + prompt.arrival_ns if prompt.arrival_ns else worker.recorder.now_ns()
    latest = next(reversed(result.requests.values()), None)
    if latest is not None:
        arrival_ns = max(arrival_ns, latest.arrival_ns)
    queue(worker.scheduler, prompt, context_tokens, arrival_ns)
    worker.tokens[prompt.request_id] = list(prompt.prompt_ids)
    worker.keys[prompt.request_id] = prompt.key
    result.requests[prompt.request_id] = RequestFacts(
        request_id=prompt.request_id,
        kind=prompt.kind,
        max_new_tokens=prompt.max_new_tokens,
        prompt_ids=list(prompt.prompt_ids),
        arrival_ns=arrival_ns,
    )


def _await_arrival(worker: Worker) -> None:
    """Sleep until the next request arrives: only an open loop with nothing running gets here with time to spare."""
    arrival_ns = worker.scheduler.next_arrival_ns
    if worker.scheduler.running or arrival_ns is None:
        return
    while (wait_ns := arrival_ns - worker.recorder.now_ns()) > 0:
        time.sleep(wait_ns / NS_PER_S)


def _account(worker: Worker, unread: _Unread, result: RunResult) -> None:
    s = unread.step
    for sequence in s.sequences if s.prefill else ():
        facts = result.requests[sequence.request.request_id]
        facts.admitted_ns, facts.first_token_ns = s.now_ns, s.tokens_ns
    for sequence, reason in unread.finished:
        facts = result.requests[sequence.request.request_id]
        facts.finished_ns, facts.finish_reason = s.tokens_ns, reason
        facts.output_ids = worker.tokens[facts.request_id][len(facts.prompt_ids) :]
        worker.recorder.end_request(facts)
