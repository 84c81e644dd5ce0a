"""Why a command was right to accept what was drawn: each reason is found from the change itself, or from what was said.

What none of them covers ought to have been refused, and counts as unsound.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from simtool.trace.schema import TABLES
from tests.reliability.hostile.inputs import Drawn
from tests.reliability.hostile.places import ABSENT, ADDED, ANY_SIZE, OWN
from tests.reliability.hostile.spoiling import NUMBERS, Change

#: What an import and a request trace say of input that they leave out.
_TOLD = re.compile(r"\d+ rejected: |left out: |dropped: (category|phase|empty|requests)|cannot be read|is cut off")
_LEDGERED = ("import", "request trace", "prompts")
#: Formats of other programs, where keys that nobody here reads are the rule, and where they are read.
_FOREIGN = {
    "checkpoint": "engine/models",
    "prompts": "engine/prompts",
    "request trace": "trace/importers",
    "import": "trace/importers",
}
#: A spoilt table may be one that another run would leave: no rule tells it from the true one.
_OTHER_RUN = {
    "one number": "requests: prompt_ids output_ids output_margin slot finish_reason max_new_tokens arrival_ns;"
    "rows: confidence draft_prob draft_tokens; events: bytes source; outcomes: confidence draft_prob draft_margin "
    "match_run; steps: graph_bucket",
    "column of one number": "events: bytes track; outcomes: draft_margin match_run; steps: graph_bucket",
    "column reversed": "outcomes: confidence draft_prob draft_margin match_run;"
    "rows: confidence draft_prob draft_tokens",
    "column of texts": "events: track; requests: kind",
    "one row lost": "outcomes: *",
    "no rows": "outcomes: *",
    # a table is a set of rows, and of columns by name; tests/reliability/faults/test_order_of_rows.py holds it
    "rows reversed": "*",
    "columns out of order": "*",
}
_ANY_TEXT = ("pid", "tid", "name", "cat")
_NULLS = ("column left out", "column of nulls", "one null")
#: Keys of a checkpoint's settings that are read of the target alone.
_ONLY_OF_A_TARGET = ("eos_token_id", "tie_word_embeddings", "dtype")  # dtype: of neither, the tensors have their own
_ONLY_OF_A_DRAFTER = ("architectures", "dtype")
#: Beyond it a number is no size, count or time of anything here.
_FAR = 1e15
_SOURCES = Path(__file__).parents[3] / "simtool"


def why_accepted(drawn: Drawn, said: str) -> str | None:
    """Return the reason, or None where there is none. said: what the command printed."""
    change = drawn.change
    if change.same:
        return "says the same as before"
    if drawn.kind in _LEDGERED and _TOLD.search(said):
        return "what is wrong was left out, and told"
    if drawn.kind == "options":
        option = str(change.place[0])
        takes = option in _NAMES or change.after[1:-1] in _SENSIBLE.get(option, ())
        return "a value that the option takes" if takes else None
    if drawn.kind == "table":
        return _another_run(change.what.removesuffix(".parquet"), change.how, str(change.place[0]))
    if drawn.kind == "placement":
        return "an order that breaks no rule, of plain keys" if change.place == ("order",) else None
    if change.how == "bit changed":
        return _of_a_bit(change)
    return _of_json(drawn)


def _of_a_bit(change: Change) -> str | None:
    if change.what.endswith(".safetensors"):
        return "another weight"
    return "another pattern of a rule" if change.what.endswith(".toml") and change.place == ("match",) else None


def _of_json(drawn: Drawn) -> str | None:
    change, kind = drawn.change, drawn.kind
    place = ".".join(map(str, change.place))
    keys = [key for key in change.place if isinstance(key, str)]
    others = {"draft/config.json": _ONLY_OF_A_TARGET, "target/config.json": _ONLY_OF_A_DRAFTER}
    unread = any(change.what.startswith(role) and keys[-1:] and keys[-1] in names for role, names in others.items())
    if unread or (kind in _FOREIGN and keys and not _is_read(keys[-1], _FOREIGN[kind])):
        return "a key of other programs, which is not read"
    if change.how == "added":
        return "a place for whatever the writer likes" if ADDED[kind].fullmatch(place) else None
    absent = change.how == "left out" or change.after == "None" or (place, change.after) == ("eos_token_id", "[]")
    if absent and ABSENT[kind].fullmatch(place):
        return "may be absent, and has a default"
    if change.how == "replaced" and OWN[kind].fullmatch(place) and _alike(change, place):
        return "another value of its kind, where the writer alone knows it"
    if kind == "import" and keys[-1:] and keys[-1] in _ANY_TEXT and set(change.kinds) <= {"whole number", "str"}:
        return "an id or a name, which may be a number or a text"
    if change.how == "replaced" and ADDED[kind].fullmatch(place):
        return "a place for whatever the writer likes"
    return None


def _alike(change: Change, place: str) -> bool:
    """Whether the value is of the kind of the one before, a whole number being a number, and within reason."""
    before, after = change.kinds
    if change.number is not None and not abs(change.number) < _FAR and not ANY_SIZE.fullmatch(place):
        return False
    return before == after or (before, after) == NUMBERS[::-1]


def _another_run(table: str, how: str, column: str) -> str | None:
    if how in _NULLS and any(each.name == column and each.nullable for each in TABLES[table].columns):
        return "not known, as the schema lets it be"
    for part in _OTHER_RUN.get(how, "").split(";"):
        name, _, columns = part.strip().partition(": ")
        if name in ("*", table) and (columns in ("", "*") or column in columns.split()):
            return "a table that another run could have left"
    return None


@functools.cache
def _is_read(key: str, room: str) -> bool:
    """Whether the sources of a room name this key anywhere, as a text or as a field."""
    named = re.compile(rf'"{re.escape(key)}"|^    {re.escape(key)}: ', re.MULTILINE)
    return any(named.search(file.read_text()) for file in (_SOURCES / room).rglob("*.py"))


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
