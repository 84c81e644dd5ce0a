"""Where a run's prompts come from, and how many of them are served."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from simtool.engine.models.json_file import read_size
from simtool.engine.prompts.files import read_prompt_ids, read_text_prompts, stdlib_prompts
from simtool.engine.prompts.prompt import Prompt
from simtool.errors import UsageError

_PROMPT_TOKENS = (24, 96)
_DEFAULT_NEW_TOKENS = 96


@dataclass(frozen=True)
class PromptSource:
    """Where prompts come from: a file of ids, a file of text, or (both None) held-out standard library text."""

    count: int | None = None
    max_new_tokens: int | None = None
    seed: int = 0
    ids: Path | None = None
    text: Path | None = None

    @property
    def drawn_with(self) -> int | None:
        """The seed that draws the prompts; None when a file gives them."""
        return self.seed if self.ids is None and self.text is None else None

    def load(self, target: Path) -> list[Prompt]:
        """Return the prompts as the target's token ids; --max-new-tokens caps what a file asks for.

        Raises UsageError when both files are given or a file holds fewer than asked for.
        """
        new_tokens = _DEFAULT_NEW_TOKENS if self.max_new_tokens is None else self.max_new_tokens
        if new_tokens < 1:
            raise UsageError(f"--max-new-tokens is {new_tokens}; expected 1 or more")
        if self.ids is not None and self.text is not None:
            raise UsageError("--prompt-ids and --prompts were both given; keep one")
        if self.count is not None and self.count < 1:
            raise UsageError(f"--num-prompts is {self.count}; expected 1 or more")
        if self.ids is None and self.text is None:
            return stdlib_prompts(target, self.count or 32, self.seed, _PROMPT_TOKENS, new_tokens)
        if self.ids is not None:
            prompts = read_prompt_ids(self.ids, read_size(target, "vocab_size"), new_tokens)
        else:
            assert self.text is not None
            prompts = read_text_prompts(self.text, target, new_tokens)
        if self.count is not None and self.count > len(prompts):
            raise UsageError(f"--num-prompts is {self.count} and the file holds {len(prompts)}; ask for that or less")
        most = self.max_new_tokens or max(prompt.max_new_tokens for prompt in prompts)
        return [replace(prompt, max_new_tokens=min(prompt.max_new_tokens, most)) for prompt in prompts[: self.count]]


def describe_prompts(prompts: Sequence[Prompt]) -> str:
    """Say how many prompts there are and how long."""
    lengths = sorted(len(prompt.prompt_ids) for prompt in prompts)
    new = sorted({prompt.max_new_tokens for prompt in prompts})
    return (
        f"{len(prompts)} prompts of {lengths[0]} to {lengths[-1]} tokens (median {lengths[len(lengths) // 2]}), "
        f"up to {' / '.join(map(str, new[:3]))} new tokens each"
    )
