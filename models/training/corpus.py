"""The training text: the running Python's standard library, without what is held out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from simtool.engine.prompts.stdlib import DOMAINS, Document, standard_library

END_OF_TEXT = "<|endoftext|>"
MASK = "<|mask|>"
REPEATS = {"code": 1, "prose": 2, "tables": 1}  # prose is a tenth of the characters: show it twice


def documents(held_out: bool) -> list[Document]:
    """Every document of one side, training or held-out."""
    return list(standard_library(held_out))


def corpus_hash(docs: list[Document]) -> str:
    """One hash of names, domains and texts: equal hashes mean equal corpora."""
    digest = hashlib.sha256()
    for doc in docs:
        digest.update(f"{doc.name}\0{doc.domain}\0{doc.text}\0".encode())
    return digest.hexdigest()


def encode(tokenizer: Tokenizer, docs: list[Document], end_id: int) -> np.ndarray:
    """All documents in order, an end-of-text id after each: int32 [tokens]."""
    pieces: list[int] = []
    for encoded in tokenizer.encode_batch([doc.text for doc in docs]):
        pieces.extend(encoded.ids)
        pieces.append(end_id)
    return np.asarray(pieces, dtype=np.int32)


def training_tokens(tokenizer: Tokenizer, end_id: int) -> np.ndarray:
    """The training stream, each domain as often as REPEATS says."""
    docs = documents(held_out=False)
    streams = [encode(tokenizer, [d for d in docs if d.domain == name], end_id) for name in DOMAINS]
    return np.concatenate([s for name, s in zip(DOMAINS, streams, strict=True) for _ in range(REPEATS[name])])


def heldout_tokens(tokenizer: Tokenizer, end_id: int) -> dict[str, np.ndarray]:
    """The held-out stream of each domain."""
    docs = documents(held_out=True)
    return {name: encode(tokenizer, [d for d in docs if d.domain == name], end_id) for name in DOMAINS}


def token_id(tokenizer: Tokenizer, token: str) -> int:
    """The id of a special token. Raises ValueError where the tokenizer lacks it."""
    found = tokenizer.token_to_id(token)
    if found is None:
        raise ValueError(f"the tokenizer has no {token}: train it with models.training.tokenizer")
    return int(found)


def broken_ids(tokenizer: Tokenizer) -> Tensor:
    """bool [V]: ids that are no text by themselves, a byte of a longer character."""
    size = tokenizer.get_vocab_size()
    return torch.tensor(["\ufffd" in tokenizer.decode([i], skip_special_tokens=False) for i in range(size)])


def encoder(path: Path) -> tuple[Tokenizer, Callable[[str], list[int]]]:
    """A tokenizer from its file, and its text-to-ids function."""
    tokenizer = Tokenizer.from_file(str(path))
    return tokenizer, lambda text: tokenizer.encode(text).ids
