"""Chat templates: how a model folder wants a conversation written out.

A template is foreign code, so it runs in a sandbox, with the helpers that public templates call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from simtool.engine.models.json_file import read_json
from simtool.engine.prompts.time_limit import stopped_after
from simtool.errors import CheckpointError, UsageError
from simtool.files.reading import UnreadableError, read_text

_SPECIAL = ("bos_token", "eos_token", "pad_token", "unk_token")


_LONGEST_S = 20.0


class _EndlessError(BaseException):
    """A template did not end."""


@dataclass(frozen=True)
class ChatTemplate:
    """A Jinja template, where it came from, and the special tokens that it may name."""

    source: str
    text: str
    special: Mapping[str, str]

    def render(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Return the conversation as text that asks for the assistant's turn.

        Raises UsageError when the template refuses the conversation, CheckpointError when it is no template.
        """
        from jinja2 import TemplateError, TemplateSyntaxError  # noqa: PLC0415  only conversations need it
        from jinja2.sandbox import ImmutableSandboxedEnvironment  # noqa: PLC0415

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.globals["raise_exception"] = _refuse
        try:
            template = environment.from_string(self.text)
            with stopped_after(_LONGEST_S, _EndlessError):
                return template.render(messages=messages, add_generation_prompt=True, **self.special)
        except TemplateSyntaxError as error:
            raise CheckpointError(f"{self.source}: not a chat template ({error}); fetch the file again") from error
        except TemplateError as error:
            raise UsageError(f"{self.source}: refuses a conversation ({error}); mend its turns") from error
        except _EndlessError as error:
            raise CheckpointError(f"{self.source}: no end after {_LONGEST_S:g} s; fetch the file again") from error
        except Exception as error:  # foreign code: it divides by zero, recurses, calls what is not there
            raise CheckpointError(f"{self.source}: fails ({type(error).__name__}: {error}); fetch it again") from error


def chat_template(folder: Path) -> ChatTemplate | None:
    """Return the template of chat_template.jinja or tokenizer_config.json, or None. Raises CheckpointError."""
    config_path, separate = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    config = read_json(config_path) if config_path.is_file() else {}
    special = {name: text for name in _SPECIAL if (text := _content(config.get(name))) is not None}
    if separate.is_file():
        try:
            return ChatTemplate(str(separate), read_text(separate), special)
        except UnreadableError as error:
            raise CheckpointError(f"{separate}: {error}; fetch the file again") from error
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = (each for each in template if isinstance(each, dict) and each.get("name") == "default")
        template = next((each.get("template") for each in named), None)
    return ChatTemplate(str(config_path), template, special) if isinstance(template, str) else None


def _content(token: Any) -> str | None:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _refuse(message: str) -> NoReturn:
    from jinja2 import TemplateError  # noqa: PLC0415

    raise TemplateError(message)
