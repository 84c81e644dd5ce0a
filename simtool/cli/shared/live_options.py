"""Options of the commands that run models: record and validate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PromptIds = Annotated[Path | None, typer.Option(help='Lines of {"prompt_ids": [...], "max_new_tokens": n}.')]
PromptTexts = Annotated[Path | None, typer.Option(help="Lines of prompt, messages or ShareGPT conversations.")]
KvBlocks = Annotated[
    int | None, typer.Option(help="KV cache blocks of a run; default: room for every slot's longest request.")
]
BlockSize = Annotated[int, typer.Option(help="Tokens per KV block.")]
GraphRows = Annotated[
    int,
    typer.Option(
        help="cuda, npu: capture decode forwards up to so many validate rows; 0: none. On an npu give the placement as "
        "NAME+rebind."
    ),
]
Attention = Annotated[
    str | None,
    typer.Option(
        help="gather: keys are copied together before they are attended to (what a cpu does); pages: they are read "
        "where they lie, each page once for a sequence (what cuda does). Default: what suits the device."
    ),
]
NpuLayout = Annotated[str, typer.Option(help="npu: layout of its attention, BSH or TND.")]
Accept = Annotated[
    str,
    typer.Option(
        help="Above temperature 0. reject: rejection sampling. match: the target draws each token by itself and a "
        "draft stands where it equals it: texts and outcomes do not hang on what is drafted, as in greedy decoding."
    ),
]
