"""Why a command was right to accept what was drawn: each reason is found from the change itself, or from what was said.

What none of them covers ought to have been refused, and counts as unsound.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from simtool.trace.schema import TABLES
from tests.reliability.hostile.inputs import Drawn

_TOLD = re.compile(r"\brejected\b|left out|skipped|cannot be read|dropped: category|dropped: phase")
#: Formats of other programs, where keys that nobody here reads are the rule.
_FOREIGN = ("checkpoint", "request trace", "import", "prompts")
#: Keys of simtool's own files that may be absent, as their readers say.
_OPTIONAL = re.compile(
    r"prompt_seed|tables|details\..+|controller\..+|sampling\..+|models(\..+)?|warnings\..+|refits|.*\.refits|graphs"
    r"|pinned|provenance\..+|.*\.(residuals_ns|ranges|per_feature_ns|host|device|launches|quality)\..+"
)
#: Where a manifest or a profile keeps whatever its writer likes.
_FREE = re.compile(r"(details|models|provenance)(\..+)?|.*\.(ranges|per_feature_ns|launches|host|device)\.no such key")
#: A spoilt table may be one that another run would leave: no rule tells it from the true one.
_OTHER_RUN = {
    "one number": "requests: prompt_ids output_ids output_margin slot finish_reason max_new_tokens arrival_ns;"
    "rows: confidence draft_prob draft_tokens; events: bytes source; outcomes: confidence draft_prob draft_margin "
    "match_run; steps: graph_bucket",
    "column of one number": "events: bytes; outcomes: draft_margin match_run; steps: graph_bucket",
    "column reversed": "outcomes: confidence draft_prob draft_margin match_run;"
    "rows: confidence draft_prob draft_tokens",
    "one row lost": "outcomes: *",
    "no rows": "outcomes: *",
    "rows reversed": "*",
    "columns out of order": "*",
    "bit changed": "*",
}
_ANY_TEXT = ("pid", "tid", "name", "cat", "id")
_NULLS = ("column left out", "column of nulls", "one null")
#: Keys of a checkpoint's settings that are read of the target alone.
_ONLY_OF_A_TARGET = ("eos_token_id", "tie_word_embeddings")
_SOURCES = Path(__file__).parents[3] / "simtool"


def why_accepted(drawn: Drawn, said: str) -> str | None:
    """Return the reason, or None where there is none. said: what the command printed."""
    change = drawn.change
    if change.same:
        return "says the same as before"
    if _TOLD.search(said):
        return "what is wrong was left out, and told"
    if drawn.kind == "options":
        option = str(change.place[0])
        takes = option in _NAMES or change.after[1:-1] in _SENSIBLE.get(option, ())
        return "a value that the option takes" if takes else None
    if drawn.kind == "table":
        return _another_run(change.what.removesuffix(".parquet"), change.how, str(change.place[0]))
    if change.how == "bit changed":
        return "another value that means something" if change.what.endswith((".safetensors", ".toml")) else None
    return _of_json(drawn)


def _of_json(drawn: Drawn) -> str | None:
    change, foreign = drawn.change, drawn.kind in _FOREIGN
    place = ".".join(map(str, change.place))
    keys = [key for key in change.place if isinstance(key, str)]
    of_target = change.what.startswith("draft/") and keys and keys[-1] in _ONLY_OF_A_TARGET
    if of_target or (foreign and keys and not _is_read(keys[-1])):
        return "a key of other programs, which is not read"
    if change.how == "added":
        return "a place for whatever the writer likes" if _FREE.fullmatch(place) else None
    absent = change.how == "left out" or change.after == "None"
    if absent and (foreign or _OPTIONAL.fullmatch(place)):
        return "may be absent, and has a default"
    if drawn.kind == "import" and change.place[-1] in _ANY_TEXT and set(change.kinds) <= {"number", "str"}:
        return "an id or a name, which may be a number or a text"
    if change.kinds[0] == change.kinds[1]:
        return "another value of its kind, within its range"
    if _FREE.fullmatch(place):
        return "a place for whatever the writer likes"
    return None


def _another_run(table: str, how: str, column: str) -> str | None:
    if how in _NULLS and any(each.name == column and each.nullable for each in TABLES[table].columns):
        return "not known, as the schema lets it be"
    for part in _OTHER_RUN.get(how, "").split(";"):
        name, _, columns = part.strip().partition(": ")
        if name in ("*", table) and (columns in ("", "*") or column in columns.split()):
            return "a table that another run could have left"
    return None


@functools.cache
def _is_read(key: str) -> bool:
    """Whether the sources name this key anywhere."""
    quoted = f'"{key}"'
    return any(quoted in file.read_text() for file in _SOURCES.rglob("*.py"))


#: What takes a name, of a file that is not there yet too.
_NAMES = ("--figure", "--out")
_SMALL = ("0", "1", "2", "0.5")
_NUMBERS = (
    "--seed --seeds --lag --concurrency --num-requests --waves --draft-ms --min-gain --top-p --top-k --temperature "
    "--graph-rows --decision-us --stale-loss --difference --chance --max-expanded-gib --repeats --sl --num-prompts "
    "--max-new-tokens --block-size --kv-blocks"
)
_SENSIBLE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_NUMBERS.split(), _SMALL),
    "--policy": ("lag", "all"),
    "--baseline": ("lag",),
    "--predictor": ("none",),
    "--set": ("target=0", "device.target=x0"),
}
