"""Prompts from the running Python's own standard library: nothing is shipped, nothing is downloaded.

A module (or a help topic) is *held out* when a stable hash of its name says so; the models in ``models/`` were
trained on the others only. Text comes in three domains, so that a drafter meets easy and hard stretches:
``code`` (source), ``prose`` (docstrings, help topics, the licence) and ``tables`` (encodings, entities).
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import random
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from simtool.errors import SimtoolError

Domain = Literal["code", "prose", "tables"]
DOMAINS: tuple[Domain, ...] = ("code", "prose", "tables")
HELD_OUT_ONE_IN = 20
TABLE_CHARACTERS = 8_000  # tables repeat: the start of a file carries all there is to learn
TABLE_MODULES = frozenset(
    {"html.entities", "_compat_pickle", "mimetypes", "locale", "opcode", "token", "stat", "sre_constants",
     "stringprep", "msilib.schema", "msilib.sequence", "msilib.text", "__phello__", "tkinter.constants",
     "ctypes.wintypes", "xml.sax.handler", "curses.has_key", "keyword", "symbol", "socket"}
)  # fmt: skip
SKIPPED_FOLDERS = frozenset(
    {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "pydoc_data"}
)


@dataclass(frozen=True)
class Document:
    """One text of one domain; ``name`` is the module or topic that the held-out rule hashes."""

    name: str
    domain: Domain
    text: str


@dataclass(frozen=True)
class HeldOutPrompt:
    """A prompt as token ids, and the domain of the text that it starts."""

    prompt_ids: tuple[int, ...]
    domain: Domain


class Encoder(Protocol):
    """The one thing needed of a tokenizer: text to token ids."""

    def __call__(self, text: str, /) -> list[int]:
        """Token ids of a text."""
        ...


def is_held_out(name: str) -> bool:
    """True for about one name in twenty, the same names on every machine."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") % HELD_OUT_ONE_IN == 0


def standard_library(held_out: bool) -> Iterator[Document]:
    """Every document on the asked side of the held-out rule, in a stable order. Unreadable files are skipped."""
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts)
        if SKIPPED_FOLDERS.isdisjoint(parts[:-1]) and is_held_out(name) == held_out:
            yield from _module_documents(name, path)
    topics: dict[str, str] = importlib.import_module("pydoc_data.topics").topics
    for topic in sorted(topics):
        if is_held_out(f"topic:{topic}") == held_out:
            yield Document(f"topic:{topic}", "prose", topics[topic].strip())
    licence = root / "LICENSE.txt"
    if not held_out and licence.is_file():
        yield Document("licence", "prose", licence.read_text(encoding="utf-8", errors="replace"))


def heldout_prompts(encode: Encoder, count: int, seed: int, min_tokens: int, max_tokens: int) -> list[HeldOutPrompt]:
    """``count`` prompts of min_tokens..max_tokens tokens from held-out text, domains taken in turn.

    ``encode`` turns text into token ids. The same arguments and the same Python version give the same prompts.
    Each prompt starts at a line of its document. Raises SimtoolError when the lengths make no sense or no
    document is long enough.
    """
    if not (count >= 0 and 1 <= min_tokens <= max_tokens):
        raise SimtoolError(
            f"prompts: got count {count}, min_tokens {min_tokens}, max_tokens {max_tokens}; expected "
            "count >= 0 and 1 <= min_tokens <= max_tokens: choose other lengths"
        )
    rng = random.Random(seed)
    pools: dict[Domain, list[str]] = {domain: [] for domain in DOMAINS}
    for document in standard_library(held_out=True):
        pools[document.domain].append(document.text)
    prompts: list[HeldOutPrompt] = []
    for attempt in range(100 * count):
        if len(prompts) == count:
            return prompts
        domain = DOMAINS[(len(prompts) + attempt // 50) % len(DOMAINS)]
        ids = _cut(rng, encode, pools[domain], rng.randint(min_tokens, max_tokens))
        if len(ids) >= min_tokens:
            prompts.append(HeldOutPrompt(tuple(ids), domain))
    if len(prompts) == count:
        return prompts
    raise SimtoolError(
        f"prompts: found {len(prompts)} of {count} held-out texts of {min_tokens} tokens: lower min_tokens"
    )


def _cut(rng: random.Random, encode: Encoder, texts: list[str], tokens: int) -> list[int]:
    """``tokens`` token ids from a random line of a random text (fewer where the text ends first)."""
    if not texts:
        return []
    lines = rng.choice(texts).splitlines(keepends=True)
    start = rng.randrange(max(len(lines), 1))
    # no token holds more than a few characters on average: 12 a token is enough and keeps encoding cheap
    return encode("".join(lines[start:])[: 12 * tokens])[:tokens]


def _module_documents(name: str, path: Path) -> Iterator[Document]:
    try:
        source = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError):
        return
    if name.startswith("encodings.") or name in TABLE_MODULES:
        yield Document(name, "tables", source[:TABLE_CHARACTERS])
        return
    yield Document(name, "code", source)
    prose = "\n\n".join(_docstrings(source))
    if len(prose) > 200:
        yield Document(name, "prose", prose)


def _docstrings(source: str) -> Iterator[str]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and len(text) > 60:
                yield text
