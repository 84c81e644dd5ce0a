"""The plane by replay: drawn texts on machines whose rows and decision cost stated shares of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from published_runs.plane.theory import Costs, Point, judge
from published_runs.xllm.machine import CONCURRENCY
from simtool.profile.cost import Cost
from simtool.profile.profile import Profile
from simtool.profile.whatif import with_changes
from simtool.replay.controller_options import ControllerOptions
from simtool.replay.synthetic.lengths import Lengths
from simtool.replay.synthetic.process import AcceptanceProcess, constant_acceptance
from simtool.replay.synthetic.solve import Shape, solve
from simtool.replay.synthetic.trace import SyntheticPlan, draw_trace
from simtool.step.controller import LinearPredictor
from simtool.step.placement import BUILT_IN
from simtool.study.runner import Setting, job_runner
from simtool.trace.trace import Trace
from simtool.units import NS_PER_MS

DRAFTS, SHARPNESS = 7, 0.5
LENGTHS = (2.0, 3.0, 4.0, 5.0)
AUTOCORRELATIONS = (0.0, 0.3, 0.6, 0.8, 0.9, 0.97)
ROWS = (0.2, 0.5, 0.8)
DECISIONS = (0.0, 0.01, 0.03, 0.08)
ARMS = ("static", "this-step", "lag")
#: A lead below this is a tie: two draws of the same text differ by about as much.
TIE = 0.01
_STEP_MS = 40.0
_REQUESTS, _OUTPUT = 128, Lengths(128)


@dataclass(frozen=True)
class Text:
    """accept_length: of full-width steps, bonus token included. autocorrelation: of the confidence."""

    accept_length: float
    autocorrelation: float


@dataclass(frozen=True)
class Cell:
    """One text on one machine. tokens_per_s: by arm, replayed at full batches. theory: of the same."""

    text: Text
    costs: Costs
    tokens_per_s: dict[str, float]
    theory: Point

    @property
    def winner(self) -> str | None:
        """The fastest arm of the replays; None: a tie."""
        first, second = sorted(self.tokens_per_s, key=lambda arm: -self.tokens_per_s[arm])[:2]
        return first if self.tokens_per_s[first] / self.tokens_per_s[second] - 1 >= TIE else None

    @property
    def lag_wins(self) -> bool:
        """Whether a lag is fastest, by more than a tie."""
        return self.winner == "lag"


@cache
def shape_of(text: Text) -> Shape:
    """Return what a text's blocks are drawn from; solved once, for the page asks for a text at many costs."""
    return solve(_process(text))


def machine(base: Profile, costs: Costs) -> Profile:
    """Return a machine whose static step takes 40 ms at a full batch, with these shares of it.

    base: whose draft, host work and latencies it has; its target is what is left of the step.
    """
    rows = CONCURRENCY * (DRAFTS + 1)
    row_ns = costs.rows * _STEP_MS * NS_PER_MS / rows
    target_ns = max(0.0, ((1 - costs.rows) * _STEP_MS - _beside_the_target_ms(base)) * NS_PER_MS)
    device = base.decode.device
    target = replace(device["target"], duration=Cost(target_ns, {"validate_rows": row_ns}))
    predictor = LinearPredictor(target_ns / NS_PER_MS, row_ns / NS_PER_MS, 0.0)
    made = replace(base, decode=replace(base.decode, device={**device, "target": target}), predictor=predictor)
    changes = [f"decide={costs.decision * _STEP_MS:g}ms", "build_varlen=0", "build_dense=0"]
    return with_changes(made, changes)


def replay_plane(base: Profile, progress: Callable[[int, int], None]) -> Iterator[Cell]:
    """Replay every text on every machine, the texts one after the other."""
    run = job_runner()
    texts = [Text(*each) for each in product(LENGTHS, AUTOCORRELATIONS)]
    machines = {costs: machine(base, costs) for costs in (Costs(*each) for each in product(ROWS, DECISIONS))}
    paid = in_line(base, machines)
    for done, text in enumerate(texts, 1):
        shape, source = shape_of(text), _source(text, base)
        for costs, profile in machines.items():
            told = ControllerOptions(draft_ms=_beside_the_target_ms(base))
            setting = Setting(source, profile, CONCURRENCY, controller=told)
            tokens = {arm: run((setting, BUILT_IN[arm]))[0].tokens_per_s for arm in ARMS}
            yield Cell(text, costs, tokens, judge(shape, shape.correlation, paid[costs]))
        progress(done, len(texts))


def in_line(base: Profile, machines: Mapping[Costs, Profile]) -> dict[Costs, Costs]:
    """Return each machine with all that deciding in line adds: the decision, and the wait and launches behind it.

    Measured by replaying a text whose confidence knows the position alone: this-step and lag then decide alike.
    """
    run = job_runner()
    process = AcceptanceProcess(
        acceptance=constant_acceptance(DRAFTS, 3.0), sharpness=0.0, confidence_autocorrelation=0.0
    )
    source = _drawn(process, base)
    told = ControllerOptions(draft_ms=_beside_the_target_ms(base))
    found = {}
    for costs, profile in machines.items():
        setting = Setting(source, profile, CONCURRENCY, controller=told)
        inside, outside = (run((setting, BUILT_IN[arm]))[0].step_ns for arm in ("this-step", "lag"))
        found[costs] = replace(costs, decision=max(0.0, (inside - outside) / (_STEP_MS * NS_PER_MS)))
    return found


#: Of the base machine, besides target and draft: host work and latencies that no device work hides, in ms.
_OTHER_MS = 2.5


def _beside_the_target_ms(base: Profile) -> float:
    """What a step takes besides its target; the controller is told it, for it minds the whole step then."""
    drafting = base.decode.device["draft"].duration.predict({"block_rows": CONCURRENCY * DRAFTS})
    return drafting / NS_PER_MS + _OTHER_MS


def _process(text: Text) -> AcceptanceProcess:
    return AcceptanceProcess(
        acceptance=constant_acceptance(DRAFTS, text.accept_length),
        sharpness=SHARPNESS,
        confidence_autocorrelation=text.autocorrelation,
    )


def _source(text: Text, profile: Profile) -> Trace:
    return _drawn(_process(text), profile)


def _drawn(process: AcceptanceProcess, profile: Profile) -> Trace:
    plan = SyntheticPlan(process=process, requests=_REQUESTS, prompt=Lengths(64), output=_OUTPUT)
    return draw_trace(plan, profile, CONCURRENCY)
