"""Model folders -> models: config.json and safetensors (one file, or shards with an index), nothing else.

Files are memory-mapped and each tensor is cast once. Every missing, extra or misshapen tensor is named; weights in
pickle formats are never opened.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from simtool.engine.models.config import Fields, draft_config, target_config
from simtool.engine.models.draft import DraftModel
from simtool.engine.models.json_file import read_json
from simtool.engine.models.target import TargetModel
from simtool.errors import CheckpointError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
NAMED_AT_MOST = 8
#: Weights in other formats need scales that are not read here.
_FLOATS = ("F64", "F32", "F16", "BF16")


def load_target(path: Path, dtype: torch.dtype, device: str = "cpu") -> TargetModel:
    """A Qwen3 target from its folder, in ``dtype``, ready to run (no gradients). Raises CheckpointError."""
    config = target_config(Fields(str(path / "config.json"), read_json(path / "config.json")))
    config = replace(config, eos_token_ids=_stop_tokens(path) or config.eos_token_ids)
    with TensorFiles(path) as files:
        _check_layers(files, config.layers)
        with torch.device("meta"):
            model = TargetModel(config)
        names = {f"model.{name}" if not name.startswith("lm_head.") else name: name for name, _ in _shapes(model)}
        ignored: set[str] = set()
        if config.tied_embeddings:  # some folders repeat the tied head; the embedding is the one that counts
            names.pop("lm_head.weight", None)
            ignored.add("lm_head.weight")
        _assign(model, files, names, ignored, dtype, device)
    if config.tied_embeddings:
        model.lm_head.weight = model.embed_tokens.weight
    return model.requires_grad_(False).eval()


def load_draft(path: Path, target: TargetModel, dtype: torch.dtype, device: str = "cpu") -> DraftModel:
    """A drafter for ``target`` from its folder, in any of the public formats. Raises CheckpointError."""
    with TensorFiles(path) as files:
        fields = Fields(str(path / "config.json"), read_json(path / "config.json"))
        config = draft_config(fields, target.config, files.names)
        _check_layers(files, config.layers)
        with torch.device("meta"):
            model = DraftModel(config, target)
        # vocabulary maps say nothing where the draft vocabulary is the full one
        _assign(model, files, {name: name for name, _ in _shapes(model)}, {"d2t", "t2d"}, dtype, device)
    return model.requires_grad_(False).eval()


class TensorFiles:
    """The safetensors files of one folder, opened memory-mapped; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self._handles: dict[str, Any] = {}

    def __enter__(self) -> TensorFiles:
        for file in self._files():
            try:
                handle = self._stack.enter_context(safe_open(str(file), framework="pt"))
            except (OSError, SafetensorError) as error:
                self._stack.close()
                raise CheckpointError(f"{file}: not a readable safetensors file ({error}): fetch it again") from error
            self._handles |= dict.fromkeys(handle.keys(), handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def names(self) -> set[str]:
        """Names of all tensors in the folder."""
        return set(self._handles)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return tuple(self._handles[name].get_slice(name).get_shape())

    def dtype(self, name: str) -> str:
        """The dtype of a tensor as the format names it, such as BF16, without reading it."""
        return str(self._handles[name].get_slice(name).get_dtype())

    def tensor(self, name: str) -> Tensor:
        """A tensor as stored, on the CPU."""
        loaded: Tensor = self._handles[name].get_tensor(name)
        return loaded

    def _files(self) -> list[Path]:
        if (self.folder / INDEX).is_file():
            weight_map = read_json(self.folder / INDEX).get("weight_map")
            if not isinstance(weight_map, dict) or not weight_map:
                raise CheckpointError(f"{self.folder / INDEX}: no weight_map, expected tensor names and their files")
            names = sorted({str(name) for name in weight_map.values()})
            if any(Path(name).name != name for name in names):
                raise CheckpointError(f"{self.folder / INDEX}: files outside the folder, expected plain file names")
        else:
            names = [SINGLE]
        missing = [name for name in names if not (self.folder / name).is_file()]
        if missing:
            raise CheckpointError(
                f"{self.folder}: {_listed(missing)} not found, expected {SINGLE} or the shards of {INDEX}: complete "
                "the folder (other weight formats are not read)"
            )
        return [self.folder / name for name in names]


def _check_layers(files: TensorFiles, layers: int) -> None:
    """Every layer has tensors of its own, so more layers than tensors need not be built to be refused."""
    if layers > len(files.names):
        raise CheckpointError(
            f"{files.folder}: num_hidden_layers is {layers}, and there are {len(files.names)} tensors in all: config "
            "and weights must belong together"
        )


def _is_odd(files: TensorFiles, name: str) -> bool:
    return files.dtype(name) not in _FLOATS


def _stop_tokens(folder: Path) -> tuple[int, ...]:
    """End tokens of generation_config.json, which go before config.json's, as in the public library."""
    path = folder / "generation_config.json"
    return (Fields(str(path), read_json(path)).integers("eos_token_id") or ()) if path.is_file() else ()


def _shapes(model: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]


def _assign(
    model: nn.Module,
    files: TensorFiles,
    names: dict[str, str],
    ignored: set[str],
    dtype: torch.dtype,
    device: str,
) -> None:
    """Check every tensor, then load. ``names`` maps names in the files to the model's parameters."""
    shapes = dict(_shapes(model))
    problems: list[str] = []
    if missing := sorted(set(names) - files.names):
        problems.append(f"missing {_listed(missing)}")
    if extra := sorted(files.names - set(names) - ignored):
        problems.append(f"not expected {_listed(extra)}")
    wrong = [
        f"{name} {list(files.shape(name))} instead of {list(shapes[ours])}"
        for name, ours in names.items()
        if name in files.names and files.shape(name) != shapes[ours]
    ]
    if wrong:
        problems.append(f"wrong shapes {_listed(wrong)}")
    if odd := [f"{name} of {files.dtype(name)}" for name in names if name in files.names and _is_odd(files, name)]:
        problems.append(f"weights that are not plain numbers ({', '.join(_FLOATS)}): {_listed(odd)}")
    if problems:
        raise CheckpointError(
            f"{files.folder}: tensors do not fit config.json: {'; '.join(problems)}: config and weights must "
            "belong together"
        )
    loaded = {ours: files.tensor(name).to(device=device, dtype=dtype) for name, ours in names.items()}
    for name, ours in names.items():
        if not bool(loaded[ours].isfinite().all()):
            raise CheckpointError(f"{files.folder}: {name} holds NaN or Inf as {dtype}: fetch the file again")
    model.load_state_dict(loaded, strict=False, assign=True)


def _listed(names: Iterable[str]) -> str:
    shown = list(names)
    more = len(shown) - NAMED_AT_MOST
    return ", ".join(shown[:NAMED_AT_MOST]) + (f" and {more} more" if more > 0 else "")
