"""The Runner: target, drafter and their caches, one method per compute-lane work of the op catalogue.

A device puts the host's lists in as named inputs, calls `run("draft")` and so on, and takes named outputs out.
B sequences, N drafts a block, R draft rows, W validate rows, T prompt rows, A rows whose tokens were accepted.

Inputs (int64):
    build_query         query_ids [R], query_positions [R], query_slots [B], context_lens [B], sample_keys [B]
    build_dense/varlen  validate_{ids,positions,slot_mapping,kv_lens} [W], validate_block_tables [W, M],
                        validate_cu_rows [B + 1]
    fill_varlen_index   fill_source, fill_destination [W - B]
    build_budget        budget_anchors, budget_positions [B], budget_block_tables [B, M], budget_drafts [1]
    write_context       context_rows, context_slots, context_positions [A]
    build_prefill       prefill_{ids,positions,slot_mapping} [T], prefill_cu_rows [B + 1], sample_keys [B]
Outputs: draft_tokens, confidence, draft_prob [B, N]; confidence_logits [B, N] (with a confidence head);
    tokens [B, N + 1] (prefill: [B, 1]); accepted [B]; sound [B], false where NaN or Inf took part;
    prefix_lens [B]: of a split on the device;
    verify_margin, as tokens: the logits gap of each (greedy only).
    verified_draft_tokens and so on: of the block before, once advance_query has made the next one's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from simtool.engine.models.checkpoint import load_draft, load_target
from simtool.engine.models.draft import DraftModel
from simtool.engine.models.heads import DraftedBlock, probability_of
from simtool.engine.models.target import TargetModel
from simtool.engine.runner import budget
from simtool.engine.runner import fused_cpu_layers as cpu_layers
from simtool.engine.runner.attention import Kernels, PlainKernels, PromptAttention
from simtool.engine.runner.first_unsound import FirstUnsound
from simtool.engine.runner.forwards import DraftForward, TargetForward
from simtool.engine.runner.graphs import Capture, DeviceCapture
from simtool.engine.runner.matched import perturbed
from simtool.engine.runner.npu import attention as npu_attention
from simtool.engine.runner.npu import layers as npu_layers
from simtool.engine.runner.npu import ops as npu_ops
from simtool.engine.runner.rows import BatchRows
from simtool.engine.runner.sampling import (
    Dice,
    DraftPicker,
    Verified,
    first_tokens,
    likeliest_is_finite,
    verify_greedy,
    verify_sampled,
)
from simtool.engine.runner.spec import VERIFIED, RunnerInfo, RunnerSpec, attention_on
from simtool.errors import CapacityError, DeviceError, UsageError
from simtool.step.graph_buckets import GraphBuckets, make_buckets

#: The works that `Runner.run` knows: the compute lane of the op catalogue.
WORKS = (
    "draft",
    "sample",
    "sample_tokens",
    "advance_query",
    "split_budget",
    "compact_rows",
    "fill_dense",
    "fill_varlen",
    "target",
    "verify",
    "context_kv",
    "context_all",
    "prefill",
)

#: What only `sample` gives.
_CONFIDENCES = ("confidence", "confidence_logits", "draft_prob")


class Runner:
    """Runs device work by name. Inputs and outputs are replaced by the work that gives them anew."""

    def __init__(
        self,
        target: TargetModel,
        draft: DraftModel,
        spec: RunnerSpec,
        kernels: Kernels | None = None,
        capture: Capture | None = None,
    ) -> None:
        """Models of one dtype on one device; caches are made beside them. Raises CapacityError.

        kernels: what decode forwards attend with; None: plain torch. capture: makes graphs; None: all runs eagerly.
        """
        self._target, self._draft, self._sampling = target, draft, spec.sampling
        self.info = _info(target, draft, spec, capture)
        self.device = draft.fc.weight.device
        kernels = PlainKernels() if kernels is None else kernels
        self._target_forward = TargetForward(target, draft.config.tap_ids, kernels, spec, self.info)
        self._draft_forward = DraftForward(draft, kernels, spec, self.info)
        self._inputs: dict[str, Tensor] = {}
        self._host: dict[str, Tensor] = {}
        self._outputs: dict[str, Tensor] = {}
        self._unreckoned: dict[str, Callable[[], Tensor]] = {}
        self._kept: dict[str, Tensor] = {}
        self._again: Callable[[], None] = self.prefill
        if capture is not None:
            with torch.inference_mode():
                self._draft_forward.capture(capture, self.info.graphs.draft)
                self._target_forward.capture(capture, self.info.graphs.target)

    def put(self, inputs: Mapping[str, Tensor], host: Mapping[str, Tensor]) -> None:
        """Hand over named inputs on the device, and the same in host memory (for lengths: reading never syncs)."""
        self._inputs.update(inputs)
        self._host.update(host)

    @torch.inference_mode()
    def run(self, work: str) -> None:
        """Run one work. Raises DeviceError for a name that no method bears."""
        if work not in WORKS:
            raise DeviceError(f"unknown device work {work!r}; expected one of {', '.join(WORKS)}")
        getattr(self, work)()

    def output(self, name: str) -> Tensor:
        """Return a named output of the latest work that gave it. Raises DeviceError when none has.

        Outputs that no token depends on are reckoned when they are first asked for, outside the work that gives them.
        """
        if name in self._unreckoned:
            with torch.inference_mode():
                self._outputs[name] = self._unreckoned.pop(name)()
        return _named(self._outputs, name, "output")

    @torch.inference_mode()
    def rebind(self, work: str) -> None:
        """Bind the lengths of the rows handed over last to the graph that will run `work` (draft or target).

        Raises DeviceError where no graph takes lengths from the host.
        """
        if not self.info.graphs.rebinds:
            raise DeviceError(
                f"no graph of {work!r} takes lengths from the host here; take a placement without rebinds"
            )
        if work == "draft":
            self._draft_forward.rebind((self._host_in("context_lens") + self.info.block_width).tolist())
        else:
            self._target_forward.rebind(self._host_in("validate_kv_lens").tolist())

    @torch.inference_mode()
    def find_unsound(self) -> None:
        """Run the latest verdict's forwards again; raises DeviceError naming the first layer that gives NaN or Inf."""
        models: dict[str, nn.Module] = {"drafter": self._draft, "target": self._target}
        with FirstUnsound(models) as first:
            self._again()
        raise DeviceError(
            f"{first.name or 'the logits, though no layer when run again'}: gives NaN or Inf, so its tokens would mean "
            "nothing; mend the weights, or take a wider --dtype"
        )

    def draft(self) -> None:
        """One non-causal forward over the block rows; keeps the rows that make drafts."""
        hidden = self._draft_forward(self._block_rows())
        self._kept["hidden"] = self._draft.predicting(hidden, self.info.drafts)
        self._kept["anchors"] = self._in("query_ids").view(-1, self.info.block_width)[:, 0]

    def sample(self) -> None:
        """The drafter's tokens, one after another where it has a Markov head, then its confidence in all of them."""
        block = self._draft_block()
        logits = self._draft.confidence_logits(self._kept_one("hidden"), block)
        if logits is None:
            chances = probability_of(block.tokens, block.logits)
            self._put_out(draft_tokens=block.tokens, draft_prob=chances, confidence=chances)
        else:
            self._put_out(draft_tokens=block.tokens, confidence_logits=logits, confidence=self._wide(logits).sigmoid())
            self._put_off("draft_prob", lambda: probability_of(block.tokens, block.logits))
        self._kept["sound"] &= self.output("confidence").isfinite().all(1)

    def sample_tokens(self) -> None:
        """The drafter's tokens alone; there is no confidence in them to read."""
        for name in _CONFIDENCES:
            self._outputs.pop(name, None)
            self._unreckoned.pop(name, None)
        self._put_out(draft_tokens=self._draft_block().tokens)

    def advance_query(self) -> None:
        """The rows of the next block, from the verdict: a sequence's anchor is its own token, right behind what stood.

        Host lengths are at most what they were and a whole block: exact where the host's memory is the device's.
        """
        accepted, width = self.output("accepted"), self.info.block_width
        anchors = self.output("tokens").gather(1, accepted[:, None])
        lengths = self._in("context_lens") + accepted + 1
        ids = self._in("query_ids").view(-1, width).clone()
        ids[:, 0] = anchors[:, 0]
        positions = lengths[:, None] + torch.arange(width, device=lengths.device)
        self._inputs.update(query_ids=ids.flatten(), query_positions=positions.flatten(), context_lens=lengths)
        most = lengths if lengths.device.type == "cpu" else self._host_in("context_lens") + self.info.drafts + 1
        self._host.update(context_lens=most)
        for name in ("draft_tokens", *_CONFIDENCES):
            self._leave_behind(name)

    def split_budget(self) -> None:
        """The budget to the likeliest drafts: a prefix length to each sequence."""
        self._put_out(prefix_lens=budget.split(self.output("confidence"), int(self._host_in("budget_drafts"))))

    def compact_rows(self) -> None:
        """Validate rows of that split. Raises DeviceError where attention takes lengths from the host."""
        if self.device.type != "cpu":
            raise DeviceError(f"attention on {self.device.type} takes lengths from the host, and only it has them here")
        made = budget.rows_of(
            self.output("prefix_lens"),
            self.output("draft_tokens"),
            self._in("budget_anchors"),
            self._in("budget_positions"),
            self._in("budget_block_tables"),
            budget=int(self._host_in("budget_drafts")),
            page=self._target_forward.cache.block_size,
        )
        self.put(made, made)

    def fill_dense(self) -> None:
        """Drafted tokens into the rows behind each anchor; every sequence has N + 1 rows."""
        self._in("validate_ids").view(-1, self.info.drafts + 1)[:, 1:] = self.output("draft_tokens")

    def fill_varlen(self) -> None:
        """Drafted tokens gathered from fill_source into the rows fill_destination."""
        tokens = self.output("draft_tokens").flatten().index_select(0, self._in("fill_source"))
        self._in("validate_ids").index_copy_(0, self._in("fill_destination"), tokens)

    def target(self) -> None:
        """The target forward over W q=1 rows; keeps their logits and taps."""
        self._kept["logits"], self._kept["taps"] = self._target_forward(self._validate_rows())

    def verify(self) -> None:
        """Which drafts stand, and the target's own next token."""
        logits, cu_rows, drafts = self._kept_one("logits"), self._in("validate_cu_rows"), self.output("draft_tokens")
        if self._sampling.settled:
            verdict = verify_greedy(self._scores(logits, self._in("validate_positions"), cu_rows), cu_rows, drafts)
        else:
            dice = self._dice(self._in("context_lens"))
            verdict = verify_sampled(logits, cu_rows, drafts, self._kept_one("proposal"), self._sampling, dice)
        self._give(verdict._replace(sound=verdict.sound & self._kept_one("sound")), self._again_decode)

    def prefill(self) -> None:
        """The target forward over whole prompts and the token after each; keeps the taps of all T rows."""
        cu_rows = self._host_in("prefill_cu_rows").tolist()
        attend = PromptAttention(self._target_forward.cache, self._in("prefill_slot_mapping"), cu_rows)
        ids, positions = self._in("prefill_ids"), self._in("prefill_positions")
        hidden, self._kept["taps"] = self._target(ids, positions, attend, self._draft.config.tap_ids)
        last = self._in("prefill_cu_rows")[1:] - 1
        logits, sampling, behind = self._target.logits(hidden[last]), self._sampling, positions[last]
        if sampling.settled:
            # a row a request
            rows = torch.arange(len(last) + 1, device=last.device)
            self._give(first_tokens(self._scores(logits, behind, rows), sampling, None), self.prefill)
        else:
            self._give(first_tokens(logits, sampling, self._dice(behind)), self.prefill)

    def context_kv(self) -> None:
        """Taps of accepted rows into the drafter's context, at their positions in their slots."""
        positions = self._in("context_positions")
        features = self._kept_one("taps").index_select(0, self._in("context_rows"))
        mapping = self._draft_forward.places(self._in("context_slots"), positions)
        for layer, (keys, values) in enumerate(self._draft.project_context(features, positions)):
            self._draft_forward.context.write(layer, mapping, keys, values)

    def context_all(self) -> None:
        """Taps of every validate row into the drafter's context, those of drafts that did not stand as well.

        No block reads past its own context, and the rows that come to stand at those places are written over these.
        """
        positions, cu_rows = self._in("validate_positions"), self._in("validate_cu_rows")
        slots = self._in("query_slots")[_sequence_of(cu_rows, len(positions))]
        mapping = self._draft_forward.places(slots, positions)
        for layer, (keys, values) in enumerate(self._draft.project_context(self._kept_one("taps"), positions)):
            self._draft_forward.context.write(layer, mapping, keys, values)

    def _again_decode(self) -> None:
        hidden = self._draft_forward.eagerly(self._block_rows())
        self._kept["hidden"] = self._draft.predicting(hidden, self.info.drafts)
        self.sample()
        self._target_forward.eagerly(self._validate_rows())

    def _draft_block(self) -> DraftedBlock:
        hidden, anchors = self._kept_one("hidden"), self._kept_one("anchors")
        if self._sampling.settled:
            block = self._draft.draft(hidden, anchors)
            self._kept["sound"] = likeliest_is_finite(block.logits, block.tokens).all(1)
            return block
        picker = DraftPicker(self._sampling, self._dice(self._in("context_lens")), self.info.drafts)
        block = self._draft.draft(hidden, anchors, picker)
        self._kept["proposal"] = picker.proposal
        self._kept["sound"] = probability_of(block.tokens, block.logits).isfinite().all(1)
        return block

    def _scores(self, logits: Tensor, positions: Tensor, cu_rows: Tensor) -> Tensor:
        """What the target's tokens are the likeliest of: logits [W, V], with noise where it samples.

        positions [W]: of the rows. cu_rows [B + 1]: where each sequence's rows begin.
        """
        if self._sampling.greedy:
            return logits
        keys = self._in("sample_keys")[_sequence_of(cu_rows, len(positions))]
        return perturbed(logits, self._sampling, keys, positions)

    def _block_rows(self) -> BatchRows:
        forward, width = self._draft_forward, self.info.block_width
        slots, positions = self._in("query_slots"), self._in("query_positions")
        return BatchRows(
            ids=self._in("query_ids"),
            positions=positions,
            mapping=forward.places(slots.repeat_interleave(width), positions),
            tables=forward.tables(slots),
            lengths=self._in("context_lens") + width,
            host_tables=forward.tables(self._host_in("query_slots")),
            host_lengths=self._host_in("context_lens") + width,
        )

    def _validate_rows(self) -> BatchRows:
        return BatchRows(
            ids=self._in("validate_ids"),
            positions=self._in("validate_positions"),
            mapping=self._in("validate_slot_mapping"),
            tables=self._in("validate_block_tables"),
            lengths=self._in("validate_kv_lens"),
            host_tables=self._host_in("validate_block_tables"),
            host_lengths=self._host_in("validate_kv_lens"),
        )

    def _in(self, name: str) -> Tensor:
        return _named(self._inputs, name, "input")

    def _host_in(self, name: str) -> Tensor:
        return _named(self._host, name, "input")

    def _kept_one(self, name: str) -> Tensor:
        return _named(self._kept, name, "intermediate")

    def _dice(self, anchors: Tensor) -> Dice:
        return Dice(self._sampling.seed, self._in("sample_keys"), anchors)

    def _give(self, verdict: Verified, again: Callable[[], None]) -> None:
        self._again = again
        self._put_out(tokens=verdict.tokens, accepted=verdict.accepted, sound=verdict.sound)
        if verdict.margin is not None:
            self._put_off("verify_margin", verdict.margin)

    def _put_out(self, **outputs: Tensor) -> None:
        for name in outputs:
            self._unreckoned.pop(name, None)
        self._outputs.update(outputs)

    def _put_off(self, name: str, reckon: Callable[[], Tensor]) -> None:
        """Let an output be reckoned when it is asked for."""
        self._outputs.pop(name, None)
        self._unreckoned[name] = reckon

    def _leave_behind(self, name: str) -> None:
        """Let an output of the block that was verified go by another name."""
        was = VERIFIED.format(name)
        for kept in (self._outputs, self._unreckoned):
            kept.pop(was, None)
        if name in self._outputs:
            self._outputs[was] = self._outputs.pop(name)
        elif name in self._unreckoned:
            self._unreckoned[was] = self._unreckoned.pop(name)

    @staticmethod
    def _wide(x: Tensor) -> Tensor:
        return x if x.dtype == torch.float64 else x.float()


def load_runner(spec: RunnerSpec, device: str = "cpu") -> Runner:
    """Load both models onto a torch device, make their caches, capture their graphs.

    Raises CheckpointError, CapacityError, and UsageError for what this device does not run.
    """
    kind = torch.device(device).type
    if kind == "cpu" and spec.graph_rows:
        raise UsageError(f"graph_rows is {spec.graph_rows}, and a cpu has no graphs; leave it out or take cuda or npu")
    if kind != "npu" and spec.npu_layout != "BSH":
        raise UsageError(f"npu_layout is {spec.npu_layout}, and this is a {kind}; leave it out or take an npu")
    if kind == "npu":
        npu_ops.load_ops()
        npu_attention.check_spec(spec)
    dtype: torch.dtype = getattr(torch, spec.dtype)
    target = load_target(spec.target, dtype, device)
    check_graphs(spec, target)
    draft = load_draft(spec.draft, target, dtype, device)
    kernels = _kernels(spec, kind)
    if kind == "cpu":
        for model in (target, draft):
            cpu_layers.fuse(model, spec.context_tokens)
    if kind == "npu":
        for model in (target, draft):
            npu_attention.check_head_dim(model.config.head_dim)
            npu_layers.fuse(model)
    return Runner(target, draft, spec, kernels, DeviceCapture(torch.device(device)) if spec.graph_rows else None)


def _kernels(spec: RunnerSpec, kind: str) -> Kernels:
    if kind == "npu":
        return npu_attention.NpuKernels(spec.npu_layout)
    if attention_on(spec, kind) == "gather":
        return PlainKernels()
    from simtool.engine.runner.paged_attention import PagedKernels  # noqa: PLC0415  # imports the compiler

    return PagedKernels(compiled=kind != "cpu")


def check_graphs(spec: RunnerSpec, target: TargetModel) -> None:
    """Raise UsageError where graphs are asked for of a target that no graph can hold."""
    if spec.graph_rows and target.config.experts is not None:
        raise UsageError(
            f"graph_rows is {spec.graph_rows}, and which experts run is read back in every layer, which no graph can "
            "hold; leave it out for a mixture of experts"
        )


def to_numpy(output: Tensor) -> NDArray[np.generic]:
    """Copy an output to host memory; half precision, which numpy lacks in part, becomes float32."""
    wide = output.float() if output.dtype in (torch.float16, torch.bfloat16) else output
    array: NDArray[np.generic] = wide.cpu().numpy().copy()
    return array


def _info(target: TargetModel, draft: DraftModel, spec: RunnerSpec, capture: Capture | None) -> RunnerInfo:
    t, d = target.config, draft.config
    drafts = d.trained_drafts if spec.drafts is None else spec.drafts
    most = min(t.max_positions, d.max_positions)
    asked = most if spec.context_tokens is None else spec.context_tokens
    if not 1 <= asked <= most:
        raise CapacityError(f"context_tokens is {asked}; these models hold 1 to {most} tokens; ask for that or less")
    return RunnerInfo(
        algorithm=d.algorithm,
        drafts=drafts,
        trained_drafts=d.trained_drafts,
        block_width=d.block_rows(drafts),
        mask_token_id=d.mask_token_id,
        vocab_size=t.vocab_size,
        eos_token_ids=t.eos_token_ids,
        max_tokens=asked,
        confidence_head=d.confidence_head,
        graphs=_graphs(spec, drafts, capture),
        attention=attention_on(spec, draft.fc.weight.device.type),
    )


def _graphs(spec: RunnerSpec, drafts: int, capture: Capture | None) -> GraphBuckets:
    """Every batch size of the draft has a bucket; target rows only up to what was asked for, or can occur."""
    if capture is None:
        return GraphBuckets()
    rows = min(spec.graph_rows, spec.slots * (drafts + 1))
    return GraphBuckets(make_buckets(spec.slots), make_buckets(rows), capture.rebinds)


def _sequence_of(cu_rows: Tensor, rows: int) -> Tensor:
    """Which sequence each row belongs to: [rows]."""
    return torch.searchsorted(cu_rows, torch.arange(rows, device=cu_rows.device), right=True) - 1


def _named(tensors: Mapping[str, Tensor], name: str, what: str) -> Tensor:
    if name not in tensors:
        known = ", ".join(sorted(tensors)) or "none"
        raise DeviceError(
            f"no device {what} {name!r} yet (there are: {known}); upload it or run the work that gives it first"
        )
    return tensors[name]
