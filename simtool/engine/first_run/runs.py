"""Short runs of the engine on the device: its tokens against a CPU's, and what each op took."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from simtool.engine.devices.open import open_device
from simtool.engine.first_run.check import DeviceCheck
from simtool.engine.models.shipped import choose_models
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.prompts.source import PromptSource
from simtool.engine.runner.spec import Dtype, NpuLayout, RunnerSpec
from simtool.engine.serving.session import RunPlan, Session
from simtool.step.controller import ControllerSettings, LinearPredictor
from simtool.step.placement import resolve_placement
from simtool.trace.trace import Trace, open_trace
from simtool.units import ns_to_ms

_SL, _PAGE, _PROMPTS, _TOKENS = 7, 128, 2, 24
#: Rows are dear enough that some steps are pruned.
_CONTROLLER = ControllerSettings(predictor=LinearPredictor(1.0, 0.2, 0.0))


class ShortRuns:
    """Runs of the shipped pair on the same prompts, each held against a first one on the CPU in float32."""

    def __init__(self) -> None:
        self._models = choose_models(sl=_SL)
        self._prompts = PromptSource(_PROMPTS, _TOKENS).load(self._models.target)
        self._expected = self._tokens("cpu", self._spec("float32", 0, "BSH"), "this-step")

    def check(self, device: str, dtype: Dtype, placement: str, layout: NpuLayout, graph_rows: int = 0) -> DeviceCheck:
        """Record a placement on the device: how many tokens are the CPU's, and mean times of ops and device works."""
        spec = self._spec(dtype, graph_rows, layout)
        with tempfile.TemporaryDirectory() as folder, Session(open_device(device, spec), spec) as session:
            plan = self._plan(placement)
            session.warm_up(plan)
            result = session.record(Path(folder) / "trace", plan)
            trace = open_trace(Path(folder) / "trace")
            times, clock = mean_times(trace), trace.manifest.details["clock"]
        found = {name: facts.output_ids for name, facts in result.requests.items()}
        same = sum(map(_shared_prefix, self._expected.values(), (found[name] for name in self._expected)))
        count = sum(len(tokens) for tokens in self._expected.values())
        # in half precision a near-tie may go the other way, and then the rest differs
        good = same == count if dtype == "float32" else same > 0
        said = f"{same} of {count} tokens are those of the CPU in float32, before the first that differs"
        facts = {"mean_ms": times, "clock": clock, "steps": result.steps}
        return DeviceCheck(f"run, {placement}", "ok" if good else "wrong", said, facts)

    def _spec(self, dtype: Dtype, graph_rows: int, layout: NpuLayout) -> RunnerSpec:
        context = max(len(prompt.prompt_ids) for prompt in self._prompts) + _TOKENS + _SL + 1
        blocks = _PROMPTS * -(-context // _PAGE)
        models = self._models
        return RunnerSpec(
            models.target,
            models.draft,
            slots=_PROMPTS,
            kv_blocks=blocks,
            block_size=_PAGE,
            drafts=_SL,
            context_tokens=context,
            dtype=dtype,
            graph_rows=graph_rows,
            npu_layout=layout,
        )

    def _plan(self, placement: str) -> RunPlan:
        prompts: list[Prompt] = self._prompts
        return RunPlan(prompts, resolve_placement(placement), _CONTROLLER)

    def _tokens(self, device: str, spec: RunnerSpec, placement: str) -> Mapping[str, list[int]]:
        with Session(open_device(device, spec), spec) as session:
            result = session.run(self._plan(placement))
        return {name: facts.output_ids for name, facts in result.requests.items()}


def mean_times(trace: Trace) -> dict[str, dict[str, float]]:
    """Mean ms of each op and device work, by lane."""
    events = trace.table("events").with_columns(took=pl.col("end_ns") - pl.col("start_ns"))
    means = events.group_by("lane", "op").agg(pl.col("took").mean()).sort("lane", "op")
    found: dict[str, dict[str, float]] = {}
    for lane, op, took in means.select("lane", "op", "took").iter_rows():
        found.setdefault(lane, {})[op] = ns_to_ms(took)
    return found


def _shared_prefix(one: list[int], other: list[int]) -> int:
    differing = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))
