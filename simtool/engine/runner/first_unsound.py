"""Which layer is the first to give NaN or Inf: every module is watched while a forward runs again."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


class FirstUnsound:
    """Watches the modules of named models while it is entered. name: "target layers.3"; None when all were finite.

    A module that lies in another gives its result first, so the name is the innermost one that is called by itself.
    """

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        self.name: str | None = None
        self._models = models
        self._handles: list[RemovableHandle] = []

    def __enter__(self) -> FirstUnsound:
        for role, model in self._models.items():
            for name, module in model.named_modules():
                self._handles.append(module.register_forward_hook(self._watch(f"{role} {name}".rstrip())))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()

    def _watch(self, name: str) -> Any:
        def look(_module: nn.Module, _inputs: object, result: object) -> None:
            parts = result if isinstance(result, tuple) else (result,)
            unsound = any(isinstance(part, Tensor) and not bool(part.isfinite().all()) for part in parts)
            if unsound and self.name is None:
                self.name = name

        return look
