"""config.json of a model folder -> TargetConfig or DraftConfig. No tensors here.

Every public drafter format ends in one DraftConfig; what the engine does not run is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from simtool.engine.models.draft import DraftConfig
from simtool.engine.models.experts import ExpertSizes
from simtool.engine.models.heads import MARKOV_TYPES
from simtool.engine.models.target import TargetConfig
from simtool.errors import CheckpointError

Json = Mapping[str, Any]

#: Far beyond any model, and small enough that the product of two still counts elements in 64 bits.
_MOST = 1 << 31


@dataclass(frozen=True)
class Fields:
    """Typed reads of a config; what is absent or odd raises CheckpointError, which names the file and the key."""

    source: str
    data: Json

    def integer(self, key: str, default: int | None = None) -> int:
        """A whole number, not negative."""
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _MOST:
            raise CheckpointError(
                f"{self.source}: {key} is {value!r:.80}, expected a whole number from 0 to {_MOST - 1}: add or mend "
                "the key"
            )
        return value

    def size(self, key: str, default: int | None = None) -> int:
        """A whole number above 0."""
        value = self.integer(key, default)
        if value < 1:
            raise CheckpointError(f"{self.source}: {key} is {value}, expected 1 or more: mend the key")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, bool):
            raise CheckpointError(f"{self.source}: {key} is {value!r}, expected true or false: mend the key")
        return value

    def number(self, key: str, default: float) -> float:
        """A number above 0, as a float."""
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < _MOST:
            raise CheckpointError(f"{self.source}: {key} is {value!r:.80}, expected a number above 0: mend the key")
        return float(value)

    def integers(self, key: str) -> tuple[int, ...] | None:
        """A list of whole numbers (a single one counts as a list of one), or None when absent."""
        value = self.data.get(key)
        if value is None:
            return None
        items = [value] if isinstance(value, int) else value
        if not isinstance(items, list) or not all(type(item) is int and abs(item) < _MOST for item in items):
            raise CheckpointError(
                f"{self.source}: {key} is {value!r:.80}, expected a list of whole numbers: mend the key"
            )
        return tuple(items)

    def text(self, key: str, default: str) -> str:
        """A text."""
        value = self.data.get(key)
        value = default if value is None else value
        if not isinstance(value, str):
            raise CheckpointError(f"{self.source}: {key} is {value!r:.80}, expected a text: mend the key")
        return value

    def nested(self, key: str) -> Fields | None:
        """An object inside the config, or None when absent."""
        value = self.data.get(key)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise CheckpointError(f"{self.source}: {key} is {value!r:.80}, expected an object: mend the key")
        return Fields(f"{self.source} {key}", value)


def target_config(fields: Fields) -> TargetConfig:
    """A Qwen3 or Qwen3-MoE config as a TargetConfig. Raises CheckpointError for another architecture or option."""
    kind = fields.data.get("model_type")
    if kind not in ("qwen3", "qwen3_moe"):
        raise CheckpointError(
            f"{fields.source}: model_type is {kind!r}, expected 'qwen3' or 'qwen3_moe': only Qwen3 targets run here"
        )
    sizes = _decoder_sizes(fields)
    return TargetConfig(
        tied_embeddings=fields.flag("tie_word_embeddings", False),
        eos_token_ids=fields.integers("eos_token_id") or (),
        experts=_experts(fields, sizes["layers"]) if kind == "qwen3_moe" else None,
        **sizes,
    )


def _experts(fields: Fields, layers: int) -> ExpertSizes | None:
    """The experts of a Qwen3-MoE config, and which layers have none; None where no layer has any."""
    named = "num_experts" if fields.data.get("num_experts") is not None else "num_local_experts"  # newer folders' name
    count, per_token = fields.integer(named, 128), fields.size("num_experts_per_tok", 8)
    every, dense = fields.size("decoder_sparse_step", 1), set(fields.integers("mlp_only_layers") or ())
    dense |= {layer for layer in range(layers) if (layer + 1) % every}
    if count == 0 or dense >= set(range(layers)):
        return None
    if per_token > count:
        raise CheckpointError(
            f"{fields.source}: num_experts_per_tok is {per_token} of {count} experts, expected at most that many"
        )
    return ExpertSizes(
        experts=count,
        per_token=per_token,
        intermediate=fields.size("moe_intermediate_size", 768),
        normed=fields.flag("norm_topk_prob", False),
        dense_layers=frozenset(dense),
    )


def draft_config(fields: Fields, target: TargetConfig, tensors: Collection[str]) -> DraftConfig:
    """A drafter's config in any of the public formats.

    ``tensors``: the names in the folder; they say whether a bias, an embedding or a head is present where the
    config does not. Raises CheckpointError for what the engine does not run or what does not fit the target.
    """
    if fields.data.get("speculators_model_type") is not None:
        config = _speculators(fields, target, tensors)
    elif fields.nested("dflash_config") is not None or _is_dflash(fields):
        config = _zlab(fields, target)
    elif fields.integers("target_layer_ids") is not None:
        config = _deepspec(fields, tensors)
    else:
        raise CheckpointError(
            f"{fields.source}: no target_layer_ids, dflash_config or speculators_model_type, expected a DSpark or "
            "DFlash drafter: is this the drafter's folder?"
        )
    _check_fit(fields, config, target)
    return config


def _is_dflash(fields: Fields) -> bool:
    names = fields.data.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise CheckpointError(f"{fields.source}: architectures is {names!r:.80}, expected a list of names")
    return "DFlashDraftModel" in (names or ())


def _decoder_sizes(fields: Fields) -> dict[str, Any]:
    """What target and drafter configs have in common."""
    if fields.text("hidden_act", "silu") != "silu":
        raise CheckpointError(f"{fields.source}: hidden_act is {fields.data['hidden_act']!r:.80}, expected 'silu'")
    if fields.flag("use_sliding_window", False):
        raise CheckpointError(f"{fields.source}: use_sliding_window is true, expected full attention in every layer")
    _check_layer_types(fields)
    heads = fields.integer("num_attention_heads")
    kv_heads = fields.integer("num_key_value_heads", heads)
    if heads == 0 or kv_heads == 0 or heads % kv_heads:
        raise CheckpointError(
            f"{fields.source}: {heads} attention heads over {kv_heads} kv heads, expected a whole multiple"
        )
    return {
        "vocab_size": fields.size("vocab_size"),
        "hidden_size": fields.size("hidden_size"),
        "intermediate_size": fields.size("intermediate_size"),
        "layers": fields.size("num_hidden_layers"),
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": _head_dim(fields),
        "rope_theta": _rope_theta(fields),
        "eps": _epsilon(fields),
        "max_positions": fields.size("max_position_embeddings", 32_768),
        "attention_bias": fields.flag("attention_bias", False),
    }


def _check_layer_types(fields: Fields) -> None:
    kinds, layers = fields.data.get("layer_types"), fields.size("num_hidden_layers")
    full = isinstance(kinds, list) and all(kind == "full_attention" for kind in kinds)
    if kinds is not None and not (full and len(kinds) == layers):
        raise CheckpointError(
            f"{fields.source}: layer_types is {kinds!r:.80}, expected 'full_attention' for each of {layers} layers: no "
            "other runs"
        )


def _head_dim(fields: Fields) -> int:
    size = fields.size("head_dim", 128)  # Qwen3's own default
    if size % 2:
        raise CheckpointError(f"{fields.source}: head_dim is {size}, expected an even number: it is rotated by halves")
    return size


def _epsilon(fields: Fields) -> float:
    value = fields.number("rms_norm_eps", 1e-6)
    if value >= 1:
        raise CheckpointError(f"{fields.source}: rms_norm_eps is {value:g}, expected above 0 and below 1: mend the key")
    return value


def _rope_theta(fields: Fields) -> float:
    """The rotary base, from rope_parameters or the older rope_theta; scaled rotary embeddings are refused."""
    for key in ("rope_parameters", "rope_scaling"):
        rope = fields.nested(key)
        kind = rope and rope.text("rope_type", rope.text("type", "default"))
        if kind not in (None, "default"):
            raise CheckpointError(f"{fields.source}: {key} asks for {kind!r}, expected the default rotary embedding")
        if rope is not None and rope.data.get("rope_theta") is not None:
            return rope.number("rope_theta", 10_000.0)
    return fields.number("rope_theta", 10_000.0)


def _heads(fields: Fields, tensors: Collection[str]) -> dict[str, Any]:
    """Markov and confidence fields of the DeepSpec and speculators formats."""
    rank = fields.integer("markov_rank", 0)
    kind = fields.text("markov_head_type", "vanilla") or "vanilla"
    if kind not in MARKOV_TYPES:
        raise CheckpointError(
            f"{fields.source}: markov_head_type is {kind!r}, expected one of {', '.join(MARKOV_TYPES)}"
        )
    confidence = fields.flag("enable_confidence_head", False)
    with_markov = confidence and fields.flag("confidence_head_with_markov", False)
    if with_markov and rank == 0:
        raise CheckpointError(f"{fields.source}: confidence_head_with_markov needs markov_rank above 0, got 0")
    return {
        "algorithm": "dspark" if rank or confidence else "dflash",
        "markov_type": kind if rank else None,
        "markov_rank": rank,
        "confidence_head": confidence,
        "confidence_with_markov": with_markov,
        "confidence_bias": "confidence_head.proj.bias" in tensors,
    }


def _deepspec(fields: Fields, tensors: Collection[str]) -> DraftConfig:
    return DraftConfig(
        trained_drafts=fields.integer("block_size"),
        samples_anchor_row=True,
        mask_token_id=fields.integer("mask_token_id"),
        tap_ids=fields.integers("target_layer_ids") or (),
        **_heads(fields, tensors),
        **_decoder_sizes(fields),
    )


def _zlab(fields: Fields, target: TargetConfig) -> DraftConfig:
    nested = fields.nested("dflash_config") or fields
    sizes = _decoder_sizes(fields)
    taps = nested.integers("target_layer_ids")
    return DraftConfig(
        algorithm="dflash",
        trained_drafts=fields.integer("block_size") - 1,
        samples_anchor_row=False,
        mask_token_id=nested.integer("mask_token_id"),
        tap_ids=taps or default_tap_ids(sizes["layers"], fields.integer("num_target_layers", target.layers)),
        own_embedding=False,
        own_head=False,
        **sizes,
    )


def _speculators(fields: Fields, target: TargetConfig, tensors: Collection[str]) -> DraftConfig:
    kind = fields.data["speculators_model_type"]
    layers = fields.nested("transformer_layer_config")
    if kind not in ("dspark", "dflash") or layers is None:
        raise CheckpointError(
            f"{fields.source}: speculators_model_type is {kind!r}, expected 'dspark' or 'dflash' with a "
            "transformer_layer_config"
        )
    drafted = fields.integer("draft_vocab_size", target.vocab_size)
    if drafted != target.vocab_size:
        raise CheckpointError(
            f"{fields.source}: draft_vocab_size is {drafted}, expected the target's {target.vocab_size}: reduced "
            "draft vocabularies are not supported, use a drafter with the full vocabulary"
        )
    from_anchor = fields.flag("sample_from_anchor", kind == "dspark")
    sizes = _decoder_sizes(layers) | {"vocab_size": drafted}
    return DraftConfig(
        trained_drafts=fields.integer("block_size") - (0 if from_anchor else 1),
        samples_anchor_row=from_anchor,
        mask_token_id=fields.integer("mask_token_id"),
        tap_ids=tuple(tap - 1 for tap in fields.integers("aux_hidden_state_layer_ids") or ()),
        own_embedding="embed_tokens.weight" in tensors,
        own_head="lm_head.weight" in tensors,
        **(_heads(fields, tensors) | {"algorithm": kind}),
        **sizes,
    )


def default_tap_ids(draft_layers: int, target_layers: int) -> tuple[int, ...]:
    """The z-lab rule where ids are absent: the middle layer for one, else evenly from 1 to L-3, rounded."""
    if draft_layers == 1:
        return (target_layers // 2,)
    span = (target_layers - 3 - 1) / (draft_layers - 1)
    return tuple(round(1 + i * span) for i in range(draft_layers))


def _check_fit(fields: Fields, config: DraftConfig, target: TargetConfig) -> None:
    last = target.layers - 1
    wrong = [tap for tap in config.tap_ids if not 0 <= tap < last]
    if wrong or not config.tap_ids:
        raise CheckpointError(
            f"{fields.source}: target layer ids {list(config.tap_ids)}, expected one or more of 0..{last - 1} "
            f"(layer {last} is the last, and never a tap): is this drafter made for this target?"
        )
    expected_layers = fields.data.get("num_target_layers")
    if expected_layers is not None and expected_layers != target.layers:
        raise CheckpointError(
            f"{fields.source}: num_target_layers is {expected_layers}, the target has {target.layers}: use its "
            "own target"
        )
    for key, ours, theirs in (
        ("hidden_size", config.hidden_size, target.hidden_size),
        ("vocab_size", config.vocab_size, target.vocab_size),
    ):
        if ours != theirs:
            raise CheckpointError(f"{fields.source}: {key} is {ours}, the target's is {theirs}: use its own target")
    if config.mask_token_id >= config.vocab_size:
        raise CheckpointError(
            f"{fields.source}: mask_token_id is {config.mask_token_id}, expected less than {config.vocab_size}"
        )
    if config.trained_drafts < 1:
        raise CheckpointError(f"{fields.source}: block_size leaves no draft token, expected at least one: mend it")
