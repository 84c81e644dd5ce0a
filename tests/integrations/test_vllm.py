"""The vLLM plugin on vLLM's own scheduler where vLLM is installed, and on classes of its recorded signatures anywhere.

The real part needs no GPU: the scheduler is plain Python, and its tests' model runner here is a table of tokens.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simtool.trace.checks.check import Severity, check_trace
from simtool.trace.importers.step_log.importing import import_step_log

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "integrations" / "vllm"), str(ROOT / "integrations" / "python")]
import simtool_vllm  # noqa: E402  # a file that vLLM loads, not a package

SL = 3
#: Parameters after self of what the plugin wraps, and what it reads, as of vLLM 0.33.0.
SIGNATURES = {
    "add_request": ["request"],
    "schedule": ["throttle_prefills"],
    "update_draft_token_ids": ["draft_token_ids"],
    "update_from_output": ["scheduler_output", "model_runner_output"],
}
RUNNER_SIGNATURES = {
    "execute_model": ["scheduler_output", "intermediate_tensors"],
    "sample_tokens": ["grammar_output"],
}
#: Tokens of each request in order of time: how many drafts are right in each decode step.
RIGHT = {"a": [0, 3, 1, 2], "b": [2, 0, 3, 1]}
PROMPTS = {"a": 20, "b": 90}
MAX_TOKENS = 9


def _lines(path: Path, kind: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, path.read_text().splitlines()) if line["line"] == kind]


def _check(path: Path) -> None:
    """What both parts must have logged: rows whose anchors follow from each other, requests that are whole."""
    (header,) = _lines(path, "header")
    assert (header["engine"], header["sl"], header["version"]) == ("vLLM", SL, 1)
    anchors, emitted = dict(PROMPTS), dict.fromkeys(PROMPTS, 1)
    for step in _lines(path, "step"):
        assert step["start_ns"] <= step["end_ns"]
        for i, name in enumerate(step["request"] if "anchor" in step else ()):
            assert step["anchor"][i] == anchors[name]
            assert step["accepted"][i] <= step["prefix_len"][i] <= SL
            anchors[name] += step["emitted"][i]
            emitted[name] += step["emitted"][i]
    finished = {line["request"]: line for line in _lines(path, "request") if "finish_reason" in line}
    assert set(finished) == set(PROMPTS)
    for name, line in finished.items():
        assert (line["finish_reason"], line["output_tokens"], len(line["output_ids"])) == (
            "length",
            MAX_TOKENS,
            MAX_TOKENS,
        )
        assert emitted[name] == MAX_TOKENS


def imported(folder: Path) -> None:
    trace = import_step_log(folder / "v.jsonl").write(folder / "trace")
    assert not [finding for finding in check_trace(trace) if finding.severity is Severity.ERROR]
    assert trace.table("requests")["finished_ns"].null_count() == 0
    assert trace.table("outcomes")["match_run"].null_count() <= 2  # the end of an output cuts its last block


@dataclass
class _Request:
    """The facts of vLLM's Request that the plugin reads."""

    request_id: str
    num_prompt_tokens: int
    max_tokens: int
    output_token_ids: list[int] = field(default_factory=list)

    @property
    def num_output_tokens(self) -> int:
        return len(self.output_token_ids)

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + self.num_output_tokens

    def is_finished(self) -> bool:
        return self.num_output_tokens >= self.max_tokens

    def get_finished_reason(self) -> str | None:
        return "length" if self.is_finished() else None


class _Scheduler:
    """vLLM's scheduler in as few lines as its recorded signatures allow: it serves all requests in every step."""

    num_spec_tokens = SL

    def __init__(self, config: Any) -> None:
        self.vllm_config, self.requests, self.drafts = config, dict[str, _Request](), dict[str, list[int]]()

    def add_request(self, request: _Request) -> None:
        self.requests[request.request_id] = request

    def schedule(self, throttle_prefills: bool = False) -> Any:
        drafts = {name: self.drafts.pop(name) for name in list(self.drafts) if name in self.requests}
        counts = {
            name: 1 + len(drafts.get(name, ())) if request.num_output_tokens else request.num_prompt_tokens
            for name, request in self.requests.items()
        }
        return SimpleNamespace(num_scheduled_tokens=counts, scheduled_spec_decode_tokens=drafts)

    def update_draft_token_ids(self, draft_token_ids: Any) -> None:
        self.drafts = dict(zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=True))

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        for name, request in list(self.requests.items()):
            tokens = model_runner_output.sampled_token_ids[model_runner_output.req_id_to_index[name]]
            request.output_token_ids += tokens[: request.max_tokens - request.num_output_tokens]
            if request.is_finished():
                del self.requests[name]
        return {}


class _Runner:
    """A model runner that answers from the table."""

    def __init__(self) -> None:
        self.turns: dict[str, int] = {}

    def execute_model(self, scheduler_output: Any, intermediate_tensors: Any = None) -> None:
        self.scheduled = scheduler_output

    def sample_tokens(self, grammar_output: Any) -> Any:
        return _answer(self.scheduled, self.turns)


def _answer(scheduled: Any, turns: dict[str, int], prompt_done: Any = lambda _: True) -> Any:
    sampled = []
    for name in scheduled.num_scheduled_tokens:
        drafts = list(scheduled.scheduled_spec_decode_tokens.get(name) or ())
        if name not in turns:
            sampled.append([1] if prompt_done(name) else [])
            turns |= {name: 0} if prompt_done(name) else {}
            continue
        right = min(RIGHT[name][turns[name] % 4], len(drafts))
        turns[name] += 1
        sampled.append([*drafts[:right], 7])
    names = list(scheduled.num_scheduled_tokens)
    return SimpleNamespace(sampled_token_ids=sampled, req_id_to_index={name: i for i, name in enumerate(names)})


def _config() -> Any:
    return SimpleNamespace(
        speculative_config=SimpleNamespace(method="eagle3", draft_model_config=SimpleNamespace(model="draft")),
        model_config=SimpleNamespace(model="target"),
        scheduler_config=SimpleNamespace(max_num_seqs=4, async_scheduling=False),
        cache_config=SimpleNamespace(block_size=16),
        device_config=SimpleNamespace(device_type="cuda"),
    )


def test_recorded_signatures_are_logged_and_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="0.33.0"))
    scheduler_class = type("Scheduler", (_Scheduler,), {name: getattr(_Scheduler, name) for name in SIGNATURES})
    runner_class = type("GPUModelRunner", (_Runner,), {name: getattr(_Runner, name) for name in RUNNER_SIGNATURES})
    for owner, signatures in ((scheduler_class, SIGNATURES), (runner_class, RUNNER_SIGNATURES)):
        for name, parameters in signatures.items():
            assert list(inspect.signature(getattr(owner, name)).parameters)[1:] == parameters
    taps = simtool_vllm.Taps(str(tmp_path / "v.jsonl"))
    taps.tap_scheduler(scheduler_class)
    taps.tap_runner(runner_class)
    scheduler, runner = scheduler_class(_config()), runner_class()
    for name, prompt in PROMPTS.items():
        scheduler.add_request(_Request(name, prompt, MAX_TOKENS))
    while scheduler.requests:
        scheduled = scheduler.schedule()
        runner.execute_model(scheduled)
        scheduler.update_from_output(scheduled, runner.sample_tokens(None))
        names = list(scheduler.requests)
        scheduler.update_draft_token_ids(SimpleNamespace(req_ids=names, draft_token_ids=[[11, 12, 13]] * len(names)))
    taps.close()
    _check(tmp_path / "v.jsonl")
    steps = _lines(tmp_path / "v.jsonl", "step")
    assert steps[0]["kind"] == "prefill"
    assert [op[0] for op in steps[1]["ops"]] == ["schedule", "launch_target", "launch_verify", "finish"]
    imported(tmp_path)


def test_a_later_vllm_goes_on_without_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler_class = type("Scheduler", (_Scheduler,), {name: getattr(_Scheduler, name) for name in SIGNATURES})
    taps = simtool_vllm.Taps(str(tmp_path / "v.jsonl"))
    taps.tap_scheduler(scheduler_class)
    scheduler = scheduler_class(SimpleNamespace())  # a configuration that has none of the names
    scheduler.add_request(_Request("a", 4, 1))
    scheduled = scheduler.schedule()
    scheduler.update_from_output(scheduled, _answer(scheduled, {}))
    assert not scheduler.requests
    assert capsys.readouterr().err.count("simtool step log: off") == 1


needs_vllm = pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")


@needs_vllm
def test_the_signatures_are_vllms() -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    for name, parameters in SIGNATURES.items():
        assert list(inspect.signature(getattr(Scheduler, name)).parameters)[1:] == parameters
    for module in simtool_vllm.RUNNERS[:2]:
        runner = importlib.import_module(module).GPUModelRunner
        for name, parameters in RUNNER_SIGNATURES.items():
            assert list(inspect.signature(getattr(runner, name)).parameters)[1:][: len(parameters)] == parameters


@needs_vllm
def test_vllms_own_scheduler_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from vllm import SamplingParams
    from vllm.config import (
        CacheConfig,
        DeviceConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
        SpeculativeConfig,
        VllmConfig,
    )
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
    from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
    from vllm.v1.request import Request
    from vllm.v1.structured_output import StructuredOutputManager

    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "torch_dtype": "float32", "hidden_act": "silu",
    }  # fmt: skip
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    folder = str(tmp_path / "model")
    model = ModelConfig(model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=256)
    speculative = SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=SL,
        prompt_lookup_max=2,
        target_model_config=model,
        target_parallel_config=ParallelConfig(),
    )
    # the longer prompt does not fit one step's tokens: it is prefilled in chunks, beside the other's decode steps
    scheduling = SchedulerConfig(
        max_num_seqs=4,
        max_num_batched_tokens=64,
        max_model_len=256,
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
        async_scheduling=False,
    )
    cache = CacheConfig(block_size=16)
    whole = VllmConfig(
        model_config=model,
        cache_config=cache,
        scheduler_config=scheduling,
        speculative_config=speculative,
        device_config=DeviceConfig(device="cpu"),
    )
    cache.num_gpu_blocks = 100
    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float32)
    blocks = KVCacheConfig(num_blocks=100, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    for name in SIGNATURES:  # put back after the test
        monkeypatch.setattr(Scheduler, name, getattr(Scheduler, name))
    taps = simtool_vllm.Taps(str(tmp_path / "v.jsonl"))
    taps.tap_scheduler(Scheduler)
    scheduler = Scheduler(whole, blocks, StructuredOutputManager(whole), block_size=16)
    for name, prompt in PROMPTS.items():
        sampling = SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True, temperature=0.0)
        scheduler.add_request(Request(name, list(range(2, 2 + prompt)), sampling, None))
    turns: dict[str, int] = {}
    for _ in range(40):
        if not scheduler.requests:
            break
        scheduled = scheduler.schedule()
        done = {name: scheduler.requests[name].num_computed_tokens >= PROMPTS[name] for name in scheduler.requests}
        answer = _answer(scheduled, turns, done.__getitem__)
        names = list(scheduled.num_scheduled_tokens)
        output = ModelRunnerOutput(
            req_ids=names, req_id_to_index=answer.req_id_to_index, sampled_token_ids=answer.sampled_token_ids
        )
        scheduler.update_from_output(scheduled, output)
        left = [name for name in names if name in scheduler.requests and name in turns]
        scheduler.update_draft_token_ids(DraftTokenIds(left, [[11, 12, 13]] * len(left)))
    taps.close()
    _check(tmp_path / "v.jsonl")
    steps = _lines(tmp_path / "v.jsonl", "step")
    assert any(step.get("prefilled") == ["b"] for step in steps)
    assert any(3 in step.get("prefix_len", ()) for step in steps)
    imported(tmp_path)
