"""Recording: models, prompts and a placement -> a live run that leaves a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from simtool.engine.prompts.source import PromptSource, describe_prompts
from simtool.engine.serving.losslessness import sampling_bias
from simtool.engine.serving.opening import SessionSettings, open_session
from simtool.engine.serving.predictor import controller_settings
from simtool.engine.serving.rounds import record_rounds
from simtool.engine.serving.session import RunPlan, Session
from simtool.errors import UsageError
from simtool.progress import Say, ShowProgress, unsaid, unshown
from simtool.step.controller import ControllerSettings
from simtool.step.graph_buckets import GraphBuckets
from simtool.step.placement import Placement, resolve_placement
from simtool.step.step_table import StepTable
from simtool.trace.checks.sound import open_sound
from simtool.trace.trace import Trace


class ProfilesSteps(Protocol):
    """Tells what steps take: block is N and the width of a draft, kv_len a sequence's tokens, batch the most."""

    def __call__(  # noqa: D102
        self, placement: Placement, block: tuple[int, int], graphs: GraphBuckets, kv_len: int, batch: int
    ) -> StepTable: ...


@dataclass(frozen=True, kw_only=True)
class RecordSettings(SessionSettings):
    """Everything about a recording but its placement.

    predictor: the controller's validate-time predictor: live (timed now), none, or the path of a profile. draft_ms:
    what the controller takes the draft to cost (0, as in xLLM). min_gain: relative gain that a longer prefix must
    bring. every_anchor: afterwards a teacher-forced pass adds the drafter's outcome at every anchor, so that any
    placement can be replayed token-exactly. step_table: tells policies that profile whole steps what these take; None:
    the predictor and draft_ms do. profile_steps: then run so many steps again under the framework's
    profiler, into `<out>.profile`.
    """

    prompts: PromptSource = field(default_factory=PromptSource)
    predictor: str = "live"
    draft_ms: float = 0.0
    min_gain: float = 0.0
    every_anchor: bool = False
    profile_steps: int = 0
    step_table: ProfilesSteps | None = None

    def __post_init__(self) -> None:
        if self.every_anchor and not self.sampling.settled:
            raise UsageError(
                "--outcomes full needs one outcome an anchor, and rejection sampling has many; drop --temperature, or "
                "take --accept match"
            )


def record(
    out: Path | str,
    placement: Placement | str,
    settings: RecordSettings | None = None,
    *,
    force: bool = False,
    command: str = "simtool.record",
    say: Say = unsaid,
    progress: ShowProgress = unshown,
) -> Trace:
    """Run the models live under one placement, write a trace to the folder `out`, and return it opened.

    placement: one, its name, or a TOML file of it. settings: default: the small pair that ships, on the CPU.
    command: what made the trace, for its manifest. say, progress: hear what goes on.

    Raises UsageError for settings that exclude each other, CheckpointError for models that cannot be read,
    DeviceError for a device that is not there, CapacityError for requests that do not fit.

    >>> trace = record("traces/a", "lag", RecordSettings(concurrency=4, every_anchor=True))  # doctest: +SKIP
    """
    out, asked = Path(out), settings or RecordSettings()
    order = resolve_placement(placement) if isinstance(placement, str) else placement
    served = asked.prompts.load(asked.models.target)
    say(describe_prompts(served))
    with open_session(asked, served, say) as session:
        plan = _plan(session, RunPlan(served, order, prompt_seed=asked.prompts.drawn_with), asked, say)
        takes = session.expected([(plan, session.warm_up(plan))])
        with progress(f"recording {order.name}", sum(prompt.max_new_tokens for prompt in served), takes) as done:
            session.record(out, plan, force=force, progress=done, details={"command": command})
        if asked.profile_steps:
            session.profile(out.with_name(out.name + ".profile"), plan, asked.profile_steps)
    if asked.every_anchor:
        _complete(out, asked, say, progress)
    return open_sound(out)


def record_interleaved(  # noqa: PLR0913
    out: Path | str,
    placements: Sequence[Placement | str],
    settings: RecordSettings | None = None,
    *,
    repeats: int = 5,
    force: bool = False,
    command: str = "simtool.record_interleaved",
    say: Say = unsaid,
    progress: ShowProgress = unshown,
) -> list[Trace]:
    """Run several placements on the same prompts, `repeats` times each, all taking turns step by step on one device.

    Leaves `<out>/<placement>-<repeat>` and returns them opened, placement by placement. Only runs that took turns
    compare to a percent: a machine drifts by more between runs. With `every_anchor` the first trace gets the outcomes
    at every anchor; all serve the same prompts, so it stands for the others in a replay. Raises as `record` does.
    """
    out, asked = Path(out), settings or RecordSettings()
    orders = [resolve_placement(each) if isinstance(each, str) else each for each in placements]
    served = asked.prompts.load(asked.models.target)
    say(describe_prompts(served))
    blocks = None if asked.kv_blocks is None else asked.kv_blocks * len(orders)
    room = replace(asked, concurrency=asked.concurrency * len(orders), kv_blocks=blocks)
    with open_session(room, served, say) as session:
        plans: dict[Path, RunPlan] = {}
        for order in orders:
            plan = RunPlan(served, order, prompt_seed=asked.prompts.drawn_with)
            known = next((each.controller for each in plans.values() if each.placement.decides), None)
            plans[out / order.file_stem] = _plan(session, plan, asked, say, timed=known)
        runs = record_rounds(session, plans, repeats, command=command, force=force, progress=progress)
    found = [path for paths in runs.values() for path in paths]
    if asked.every_anchor:
        _complete(found[0], asked, say, progress)
    return [open_sound(path) for path in found]


def _complete(path: Path, asked: RecordSettings, say: Say, progress: ShowProgress) -> None:
    from simtool.engine.outcomes.complete import complete_outcomes  # noqa: PLC0415  torch only where it runs

    complete_outcomes(path, asked.models.target, asked.models.draft, say=say, progress=progress)


def _plan(
    session: Session, plan: RunPlan, asked: RecordSettings, say: Say, timed: ControllerSettings | None = None
) -> RunPlan:
    """The plan with its controller; refused before the predictor is timed where it cannot run. timed: was before."""
    session.check(plan)
    predictor = asked.predictor if plan.placement.decides and timed is None else "none"
    controller = controller_settings(session, predictor, asked.draft_ms, asked.min_gain, say)
    if plan.placement.decides and timed is not None:
        controller = replace(controller, predictor=timed.predictor, temperatures=timed.temperatures)
    if asked.step_table is not None and "table" in plan.placement.rule.reads:
        kv_len = round(sum(len(each.prompt_ids) + each.max_new_tokens / 2 for each in plan.prompts) / len(plan.prompts))
        block = (session.info.drafts, session.info.block_width)
        table = asked.step_table(plan.placement, block, session.info.graphs, kv_len, session.spec.slots)
        controller = replace(controller, table=table)
    if bias := sampling_bias(plan.placement, controller, asked.sampling, session.info):
        session.warnings.append(bias)
        say(f"warning: {bias}")
    return RunPlan(plan.prompts, plan.placement, controller, plan.prompt_seed)
