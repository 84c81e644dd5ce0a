"""The same system written a second time, as a max-plus recurrence over plain numbers.

Taken from the description of the step, not from simtool.replay: no SimPy, no queues, no processes. Every time is
either a sum (work takes its time) or a maximum (work waits for several things). That both agree to the nanosecond
is what makes either believable. Shared with the code under test: the catalogue and the placements (data) and the
controller (which has its own golden cases).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from simtool.step.controller import ControllerSettings, decide
from simtool.step.ops import CATALOGUE
from simtool.step.placement import Placement
from tests.replay.synthetic import Asked, Costs, Line, Work

PREFILL = ("schedule", "build_prefill", "launch_prefill", "read_tokens", "write_context", "finish")


@dataclass
class Sequence:
    asked: Asked
    emitted: int = 0
    confidences: list[list[float]] = field(default_factory=list)

    @property
    def anchor(self) -> int:
        return self.asked.prompt + self.emitted - 1


@dataclass
class Timeline:
    """waited: the host's last wait. last: executor -> (start, end) of its last work. handed: datum of the next step ->
    when it is there; handed_to: the requests it is of.

    steps: (kind, start, end). events: (step, op, lane, start, end, wait_start, wait_end). tokens: per decode row.
    """

    steps: list[tuple[str, int, int]] = field(default_factory=list)
    events: list[tuple[int, str, str, int, int, int | None, int | None]] = field(default_factory=list)
    rows: list[tuple[int, str, int, int, int, int, bool]] = field(default_factory=list)
    host: int = 0
    free: dict[str, int] = field(default_factory=dict)
    waited: int = 0
    last: dict[str, tuple[int, int]] = field(default_factory=dict)
    handed: dict[str, int] = field(default_factory=dict)
    handed_to: list[str] = field(default_factory=list)


def evaluate(
    work: Work,
    costs: Costs,
    placement: Placement,
    executors: dict[str, str],
    concurrency: int,
    controller: ControllerSettings,
) -> Timeline:
    line = Timeline(free=dict.fromkeys(executors.values(), 0))
    waiting, running = deque(work.requests), []
    while waiting or running:
        if not running and waiting[0].arrival_ns > line.host:
            line.host = waiting[0].arrival_ns
        admitted = []
        while waiting and len(running) < concurrency and waiting[0].arrival_ns <= line.host:
            admitted.append(Sequence(waiting.popleft()))
            running.append(admitted[-1])
        if admitted:
            prompts = [one.asked.prompt for one in admitted]
            sizes = {"batch": len(prompts), "prompt_rows": sum(prompts), "accepted_rows": sum(prompts)}
            sizes["prompt_kv"] = sum(sum(range(1, p + 1)) for p in prompts)
            run_ops(line, "prefill", PREFILL, costs, sizes, executors)
            line.handed, line.handed_to = {}, []
            for one in admitted:
                one.emitted = 1
        else:
            decode(line, work, costs, placement, executors, running, controller)
        running = [one for one in running if one.emitted < one.asked.total]
        line.host += price(costs.gap, {})
    return line


def decode(line, work, costs, placement, executors, running, controller):
    n, lag = work.drafts, placement.lag_steps
    blocks = [work.outcomes[one.asked.name, one.anchor] for one in running]
    if lag is None:
        seen = [None] * len(running)
    elif lag == 0:
        seen = [confidence for confidence, _ in blocks]
    else:
        seen = [one.confidences[-lag] if len(one.confidences) >= lag else None for one in running]
    anchors = [one.anchor for one in running]
    prefixes = [n] * len(running) if lag is None else decide(seen, anchors, n, controller)
    if "decide_budget" in map(str, placement.order) and any(p < n for p in prefixes):
        # the likeliest drafts of this step, as many as that would have offered
        chances = sorted(
            (-math.prod(confidence[: k + 1]), k, i) for i, (confidence, _) in enumerate(blocks) for k in range(n)
        )
        winners = [i for _, _, i in chances[: sum(prefixes)]]
        prefixes = [winners.count(i) for i in range(len(running))]
    accepted = [min(p, run) for p, (_, run) in zip(prefixes, blocks, strict=True)]
    emitted = [min(a + 1, one.asked.total - one.emitted) for a, one in zip(accepted, running, strict=True)]
    keys = [(kv, r) for kv, p in zip(anchors, prefixes, strict=True) for r in range(p + 1)]
    candidates = n * len(running)
    sizes = {
        "batch": len(running),
        "block_rows": n * len(running),
        "draft_rows": n * len(running),
        "draft_kv": sum(n * (kv + n) for kv in anchors),
        "draft_tokens": candidates,
        "dense_rows": (n + 1) * len(running),
        "validate_rows": len(keys),
        "target_rows": len(keys),
        "past_graphs": 0,
        "past_graph_rows": 0,
        "validate_kv": sum(kv + r + 1 for kv, r in keys),
        "ragged": int(any(p < n for p in prefixes)),
        "decide_work": candidates * math.log2(max(candidates, 2)),
        "accepted_rows": sum(emitted),
        "rectangle_keys": len(running) * (max(prefixes) + 1) * max(kv + r + 1 for kv, r in keys),
        "draft_rectangle": n * len(running) * (max(anchors) + n),
    }
    pruned = any(p < n for p in prefixes)
    batch = [one.asked.name for one in running]
    # nobody can reach the length limit, whatever is accepted
    sure = all(one.asked.limit - one.emitted > p + 1 for one, p in zip(running, prefixes, strict=True))
    warm, line.handed_to = line.handed_to == batch, batch if sure else []
    if {str(slot)[:5] for slot in placement.order} & {"cold:", "next:"} == {"next:"}:
        warm = sure = True  # a draft stays with its sequence: none is made again
    left_out = {"cold:": warm, "next:": not sure}
    slots = [str(slot) for slot in placement.order if not left_out.get(str(slot)[:5])]
    names = [text for slot in slots if not (text := pick(slot, pruned)).endswith("-")]
    for one, p, a, e, c in zip(running, prefixes, accepted, emitted, seen, strict=True):
        line.rows.append((len(line.steps), one.asked.name, one.anchor, p, a, e, c is not None))
    synced = {picked for text in placement.sync if (picked := pick(text, pruned)) != "-"}
    handed, line.handed = line.handed if warm else {}, {}
    run_ops(line, "decode", names, costs, sizes, executors, synced, handed)
    for one, e, (confidence, _) in zip(running, emitted, blocks, strict=True):
        one.emitted += e
        one.confidences.append(confidence)


def pick(slot: str, pruned: bool) -> str:
    head, _, rest = slot.rpartition(":")
    first, _, second = rest.partition("|")
    return ("next:" if head == "next" else "") + (first if pruned or not second else second)


def doublings(time_ns: int) -> float:
    """Of a tenth of a millisecond, from 0 on."""
    return math.log2((time_ns + 1e5) / 1e5)


def price(line: Line, sizes: dict[str, float]) -> int:
    return round(line.base + sum(slope * sizes[name] for name, slope in line.slopes.items()))


def run_ops(line, kind, names, costs, sizes, executors, synced=frozenset(), handed=None):
    step, begin = len(line.steps), line.host
    own: dict[str, int] = dict(handed or {})  # datum -> when the device work that makes it ends
    for text in names:
        ahead, name = text.startswith("next:"), text.removeprefix("next:")
        op, start = CATALOGUE[name], line.host
        made = line.handed if ahead else own
        priced = f"{name} (syncs)" if name in synced else name
        pre_end = start + price(costs.pre[kind, priced], {**sizes, "host_lull": doublings(line.waited)})
        needed = [made[need] for need in op.needs if need in made]
        needed += [own[need] for need in op.prior if ahead and need in own]
        inputs = max(needed, default=0)
        kernels = [work for work in op.works if work.lane.value == "compute"]
        others = [work for work in op.works if work not in kernels]
        before, after = (others, kernels) if name in synced else (op.works, [])

        def run(works, begin, end, inputs, kind=kind, priced=priced):
            for work in works:
                executor = executors[work.lane]
                launched = max(begin, end + price(costs.launch.get((kind, priced, work.name), Line()), {}))
                began, ended = line.last.get(executor, (None, None))
                past = {"device_lull": 0.0 if began is None else doublings(ended - began)}
                behind = max(line.free[executor], inputs) + price(costs.queue.get((kind, work.name), Line()), past)
                work_start = max(launched, behind)
                past = {**sizes, "device_lull": 0.0 if began is None else doublings(work_start - began)}
                inputs = line.free[executor] = work_start + price(costs.duration[kind, work.name], past)
                line.last[executor] = work_start, inputs
                line.events.append((step, work.name, work.lane.value, work_start, inputs, None, None))
            return inputs

        inputs = run(before, start, pre_end, inputs)
        line.host, wait_start, wait_end = pre_end, None, None
        if op.blocks or name in synced:
            wait_start = pre_end
            wait_end = max(wait_start, inputs + price(costs.wake.get((kind, priced), Line()), {}))
            line.waited = wait_end - wait_start
            line.host = wait_end + price(costs.post.get((kind, priced), Line()), sizes)
            inputs = run(after, wait_end, line.host, inputs)
        if op.works:
            made.update(dict.fromkeys(op.gives, inputs))
        line.events.append((step, name, "host", start, line.host, wait_start, wait_end))
    line.steps.append((kind, begin, line.host))
