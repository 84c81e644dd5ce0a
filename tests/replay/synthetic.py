"""Made-up requests, outcomes and costs, as the trace and the profile that a replay takes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from simtool.profile.cost import FREE, Cost
from simtool.profile.profile import HostCost, Profile, Provenance, StepCosts, WorkCost
from simtool.replay.replay import Replay
from simtool.step.ops import CATALOGUE, priced_name
from simtool.step.placement import BUILT_IN
from simtool.trace.frames import make_frame
from simtool.trace.manifest import Manifest
from simtool.trace.schema import TABLES
from simtool.trace.trace import Trace, write_trace

ONE_DEVICE = {"prepare": "device", "compute": "device", "copy": "device"}
STREAMS = {"prepare": "prepare", "compute": "compute", "copy": "copy"}


@dataclass(frozen=True)
class Line:
    """A cost: base ns and ns per unit of each feature, all whole."""

    base: int = 0
    slopes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Costs:
    """Lines by what they price: pre/post/wake by (kind, op), duration/queue by (kind, work), launch by all three."""

    pre: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    post: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    wake: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    duration: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    queue: Mapping[tuple[str, str], Line] = field(default_factory=dict)
    launch: Mapping[tuple[str, str, str], Line] = field(default_factory=dict)
    gap: Line = field(default_factory=Line)


def constant_costs(pre: int = 0, duration: int = 0, **named: int) -> Costs:
    """Every op and work at one price, except those named (`host_decide=7`, `device_target=100`)."""
    ops = {(kind, op): Line(named.get(f"host_{op}", pre)) for kind in ("prefill", "decode") for op in CATALOGUE}
    works = {
        (kind, work.name): Line(named.get(f"device_{work.name}", duration))
        for kind in ("prefill", "decode")
        for op in CATALOGUE.values()
        for work in op.works
    }
    return Costs(pre=ops, duration=works)


def random_costs(seed: int, scale: int = 100) -> Costs:
    """Random lines for everything, many of them zero, so that ties and idle lanes happen."""
    draw = random.Random(seed)

    def number() -> int:
        return draw.choice((0, draw.randrange(scale), draw.randrange(10 * scale)))

    def line(features: tuple[str, ...]) -> Line:
        return Line(number(), {name: draw.randrange(scale // 10 + 1) for name in features})

    costs = Costs({}, {}, {}, {}, {}, {}, Line(number()))
    for kind in ("prefill", "decode"):
        known = {"batch", "prompt_rows", "prompt_kv", "accepted_rows"} if kind == "prefill" else None
        for op in CATALOGUE.values():
            if known is not None and not known.issuperset({*op.features, *(f for w in op.works for f in w.features)}):
                continue
            costs.pre[kind, op.name] = line(op.features)
            if op.blocks:
                costs.post[kind, op.name], costs.wake[kind, op.name] = line(op.features), Line(number())
            for work in op.works:
                costs.duration[kind, work.name] = line(work.features)
                costs.queue[kind, work.name] = Line(number() // 5)
                costs.launch[kind, op.name, work.name] = Line(draw.randrange(-scale, scale))
    draw = random.Random(f"{seed} syncs")
    for op in CATALOGUE.values():
        if op.works and not op.blocks and ("decode", op.name) in costs.pre:
            key = ("decode", f"{op.name} (syncs)")
            costs.pre[key], costs.post[key], costs.wake[key] = line(op.features), line(op.features), Line(number())
            for work in op.works:
                costs.launch[*key, work.name] = Line(draw.randrange(-scale, scale))
    return costs


def with_history(costs: Costs, seed: int) -> Costs:
    """The costs, many of which now also grow with what ran just before: by about what they are (1 us is 0.014)."""
    draw = random.Random(seed)

    def grown(lines: Mapping[tuple[str, str], Line], feature: str) -> Mapping[tuple[str, str], Line]:
        return {
            key: Line(line.base, {**line.slopes, feature: draw.choice((0, 5_000, 20_000))})
            for key, line in lines.items()
        }

    return replace(
        costs,
        pre=grown(costs.pre, "host_lull"),
        duration=grown(costs.duration, "device_lull"),
        queue=grown(costs.queue, "device_lull"),
    )


def profile_of(costs: Costs, executors: Mapping[str, str] = ONE_DEVICE) -> Profile:
    """The costs as a profile."""
    return Profile(
        "synthetic",
        "cpu" if len(set(executors.values())) == 1 else "cuda",
        "made up",
        executors,
        _steps(costs, "prefill"),
        _steps(costs, "decode"),
        _cost(costs.gap),
        None,
        Provenance("test", "2026-01-01", "0"),
    )


def _cost(line: Line) -> Cost:
    return Cost(float(line.base), {name: float(slope) for name, slope in line.slopes.items()})


def _steps(costs: Costs, kind: str) -> StepCosts:
    host = {}
    for (of_kind, op), pre in costs.pre.items():
        if of_kind != kind:
            continue
        works = CATALOGUE[priced_name(op)].works
        launches = {work.name: _cost(costs.launch.get((kind, op, work.name), Line())) for work in works}
        post, wake = costs.post.get((kind, op)), costs.wake.get((kind, op))
        host[op] = HostCost(_cost(pre), _cost(post) if post else None, _cost(wake) if wake else None, launches)
    device = {
        work: WorkCost(_cost(line), _cost(costs.queue.get((kind, work), Line())) if costs.queue else FREE)
        for (of_kind, work), line in costs.duration.items()
        if of_kind == kind
    }
    return StepCosts(host, device)


@dataclass(frozen=True)
class Asked:
    """A request: what it asks for and the tokens it will emit. stop: it ends by a stop token."""

    name: str
    prompt: int
    total: int
    limit: int
    arrival_ns: int = 0


@dataclass(frozen=True)
class Work:
    """Requests and the drafter's outcome (confidence [N], match run) at every anchor of each."""

    drafts: int
    requests: tuple[Asked, ...]
    outcomes: Mapping[tuple[str, int], tuple[list[float], int]]


def random_work(seed: int, drafts: int, requests: int, tokens: int = 12) -> Work:
    """Requests of random sizes with confidences (multiples of 1/16, exact in f32) that foretell their match runs."""
    draw = random.Random(seed)
    asked, outcomes = [], {}
    for index in range(requests):
        total = draw.randrange(1, tokens + 1)
        limit = total + draw.choice((0, 0, 3))
        one = Asked(f"r{index}", draw.randrange(1, 9), total, limit)
        asked.append(one)
        for anchor in range(one.prompt, one.prompt + total):
            skill = draw.random()
            confidence = [min(16, max(0, round(16 * skill + draw.randrange(-3, 4)))) / 16 for _ in range(drafts)]
            run = 0
            while run < drafts and draw.random() < confidence[run]:
                run += 1
            outcomes[one.name, anchor] = (confidence, run)
    return Work(drafts, tuple(asked), outcomes)


def save_as_live(replayed: Replay, path: Path) -> Trace:
    """Write a replay as if it had been recorded: a run at known costs, for what takes only recordings."""
    return replace(replayed, manifest=replace(replayed.manifest, origin="live")).save(path)


def source_trace(path: Path, work: Work, concurrency: int = 2, **details: object) -> Trace:
    """Write what a replay reads of a source: requests and outcomes, no times."""
    manifest = Manifest(
        origin="live",
        engine="test",
        engine_version="0",
        device="cpu",
        device_name="made up",
        algorithm="dspark",
        sl=work.drafts,
        block_width=work.drafts,
        concurrency=concurrency,
        placement=BUILT_IN["static"].to_dict(),
        seed=0,
        clock="none",
        controller={"predictor": None, "draft_ms": 0.0, "min_gain": 0.0},
        sampling={"temperature": 0.0},
        details={"kv_blocks": 1000, "block_size": 16, **details},
    )
    order = range(len(work.requests))
    requests: dict[str, Sequence[object]] = {
        "request_id": [asked.name for asked in work.requests],
        "arrival_ns": [asked.arrival_ns for asked in work.requests],
        "admitted_ns": list(order),
        "first_token_ns": list(order),
        "finished_ns": list(order),
        "prompt_tokens": [asked.prompt for asked in work.requests],
        "output_tokens": [asked.total for asked in work.requests],
        "max_new_tokens": [asked.limit for asked in work.requests],
        "finish_reason": ["length" if asked.total == asked.limit else "stop" for asked in work.requests],
    }
    outcomes: dict[str, Sequence[object]] = {
        "request_id": [name for name, _ in work.outcomes],
        "anchor_position": [anchor for _, anchor in work.outcomes],
        "confidence": [confidence for confidence, _ in work.outcomes.values()],
        "match_run": [run for _, run in work.outcomes.values()],
        "source": ["filled"] * len(work.outcomes),
    }
    frames = {
        "requests": make_frame(TABLES["requests"], requests),
        "outcomes": make_frame(TABLES["outcomes"], outcomes),
    }
    return write_trace(path, manifest, frames)
