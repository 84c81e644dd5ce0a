"""Where a run's prompts come from: token ids in a file, text in a file, or held-out text of the standard library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simtool.engine.prompts.chat import ChatTemplate, chat_template
from simtool.engine.prompts.prompt import Prompt
from simtool.engine.prompts.stdlib import heldout_prompts
from simtool.errors import CheckpointError, UsageError
from simtool.files.reading import UnreadableError, lines_of, parse_json, read_text

_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system"}


@dataclass(frozen=True)
class TextEncoder:
    """A model folder's tokenizer.json, and its chat template where it has one."""

    folder: Path

    def __post_init__(self) -> None:
        from tokenizers import Tokenizer  # noqa: PLC0415  only text prompts need it

        path = self.folder / "tokenizer.json"
        if not path.is_file():
            raise CheckpointError(f"{self.folder}: no tokenizer.json in it; give --prompt-ids instead of text prompts")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain Exception
            raise CheckpointError(f"{path}: not a tokenizer ({error}); fetch the file again") from error
        object.__setattr__(self, "_tokenizer", tokenizer)
        object.__setattr__(self, "_template", chat_template(self.folder))

    def text(self, text: str) -> list[int]:
        """Return the token ids of plain text, without special tokens; raises UsageError for half a surrogate pair."""
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids  # type: ignore[attr-defined]
        except (TypeError, UnicodeEncodeError) as error:  # half of a surrogate pair is no character
            raise UsageError(f"a text holds what is no Unicode character ({error}); mend it") from error
        return ids

    def chat(self, messages: list[dict[str, str]]) -> list[int]:
        """Return the token ids of a conversation that asks for the assistant's turn.

        Without a chat template in the folder the messages' texts are joined by blank lines.
        """
        template: ChatTemplate | None = self._template  # type: ignore[attr-defined]
        if template is None:
            return self.text("\n\n".join(message["content"] for message in messages))
        return self.text(template.render(messages))


def stdlib_prompts(folder: Path, count: int, seed: int, tokens: tuple[int, int], max_new_tokens: int) -> list[Prompt]:
    """Return `count` prompts of tokens[0]..tokens[1] tokens from held-out standard library text."""
    drawn = heldout_prompts(TextEncoder(folder).text, count, seed, *tokens)
    return [Prompt(f"r{i:04d}", p.prompt_ids, max_new_tokens, p.domain, key=i) for i, p in enumerate(drawn)]


def read_prompt_ids(path: Path, vocab_size: int, max_new_tokens: int) -> list[Prompt]:
    """Read lines of {"prompt_ids": [...], "max_new_tokens": n}; the latter may be left out.

    Raises UsageError naming the line for anything else, and for ids outside the vocabulary.
    """
    prompts: list[Prompt] = []
    for number, table in _lines(path):
        where = f"{path} line {number}"
        ids = table.get("prompt_ids")
        new = table.get("max_new_tokens", max_new_tokens)
        if not isinstance(ids, list) or not ids or not all(type(token) is int for token in ids):
            raise UsageError(f'{where}: expected {{"prompt_ids": [whole numbers], "max_new_tokens": n}}')
        if not all(0 <= token < vocab_size for token in ids):
            raise UsageError(f"{where}: token id outside 0..{vocab_size - 1}; encode with this target's tokenizer")
        if type(new) is not int or new < 1:
            raise UsageError(f"{where}: max_new_tokens is {new!r}; expected 1 or more")
        prompts.append(Prompt(f"r{len(prompts):04d}", tuple(ids), new, key=len(prompts)))
    return prompts


def read_text_prompts(path: Path, folder: Path, max_new_tokens: int) -> list[Prompt]:
    """Read lines of {"prompt": text}, {"messages": [...]} or ShareGPT's {"conversations": [...]}, or a JSON list.

    A conversation is cut before its last assistant turn, which is what the model is asked for.
    """
    encoder = TextEncoder(folder)
    prompts: list[Prompt] = []
    for number, table in _lines(path):
        try:
            ids = _encode(encoder, table, f"{path} line {number}")
        except UsageError as error:
            raise error if str(path) in str(error) else UsageError(f"{path} line {number}: {error}") from error
        prompts.append(Prompt(f"r{len(prompts):04d}", tuple(ids), max_new_tokens, key=len(prompts)))
    return prompts


def _encode(encoder: TextEncoder, table: Mapping[str, Any], where: str) -> list[int]:
    if isinstance(table.get("prompt"), str):
        ids = encoder.text(table["prompt"])
    else:
        turns = table.get("messages", table.get("conversations"))
        if not isinstance(turns, list) or not turns:
            raise UsageError(f"{where}: expected a prompt text, messages or conversations; got {sorted(table)}")
        ids = encoder.chat(_messages(turns, where))
    if not ids:
        raise UsageError(f"{where}: no tokens in it; remove the line")
    return ids


def _messages(turns: list[Any], where: str) -> list[dict[str, str]]:
    messages = []
    for turn in turns:
        role = _ROLES.get(str(turn.get("role", turn.get("from")))) if isinstance(turn, dict) else None
        content = turn.get("content", turn.get("value")) if isinstance(turn, dict) else None
        if role is None or not isinstance(content, str):
            raise UsageError(f"{where}: a turn is {turn!r:.80}; expected a role (or from) and a content (or value)")
        messages.append({"role": role, "content": content})
    while messages and messages[-1]["role"] == "assistant":
        messages.pop()
    if not messages:
        raise UsageError(f"{where}: no turn before the assistant's; nothing to ask")
    return messages


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield numbered JSON tables of a .jsonl file, or of a file that is one JSON list."""
    try:
        text = read_text(path)
    except UnreadableError as error:
        raise UsageError(f"{path}: {error}; give a file of prompts, one JSON a line") from error
    found = False
    for number, value in _values(path, text):
        if not isinstance(value, dict):
            raise UsageError(f"{path} line {number}: a {type(value).__name__}; expected a JSON table")
        found = True
        yield number, value
    if not found:
        raise UsageError(f"{path}: no prompts in it; expected one JSON table a line")


def _values(path: Path, text: str) -> Iterator[tuple[int, object]]:
    if text.lstrip().startswith("["):
        try:
            values = parse_json(text)
        except UnreadableError as error:
            raise UsageError(f"{path}: {error}; mend the file") from error
        yield from enumerate(values, start=1)
        return
    for number, line in enumerate(lines_of(text), start=1):
        if line.strip():
            try:
                value = parse_json(line)
            except UnreadableError as error:
                raise UsageError(f"{path} line {number}: {error}; mend the line") from error
            yield number, value
