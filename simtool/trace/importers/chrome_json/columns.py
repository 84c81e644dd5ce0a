"""The events of a trace file as tables: spans, arrows between them, and the names of processes and threads.

B and E events are paired to spans. Ids are texts, whatever they were in the file. Times are ns from the file's own
zero. What has no use is counted by kind and never held, so that memory grows with what is kept.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import polars as pl

from simtool.trace.importers.chrome_json.event import Args, ChromeEvent
from simtool.trace.importers.chrome_json.pairs import Pairs
from simtool.trace.importers.chrome_json.times import times_ns
from simtool.trace.importers.ledger import Ledger
from simtool.trace.importers.written import whole

_WORD = pl.Categorical()
SPANS = {
    "cat": _WORD,
    "name": _WORD,
    "pid": _WORD,
    "tid": _WORD,
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "correlation": pl.Int64(),
    "connection": pl.String(),
    "device": _WORD,
    "stream": _WORD,
    "bytes": pl.Int64(),
    "task_type": _WORD,
    "waits_stream": _WORD,
    "waits_record": pl.Int64(),
}
ARROWS = {"ph": _WORD, "cat": _WORD, "id": pl.String(), "pid": _WORD, "tid": _WORD, "start_ns": pl.Int64()}
#: Host spans of a language or a library: many, and of no use to a timeline of launches and work.
_UNUSED = frozenset({"python_function", "cpu_instant_event", "fwdbwd", "overhead", "gpu_user_annotation"})
#: Ops of a library, and among them, in torch_npu's files, what an engine annotates: names without the ops' "::".
_OPS = frozenset({"cpu_op"})
_ARROW_CATEGORIES = frozenset({"hosttodevice"})
NO_PHASE = "event has no phase, or one that is no letter"
_MAX_BYTES = 1 << 62
_MAX_INT64 = (1 << 63) - 1
_MAX_INT = 10**40
_FAR_NS = 3_600_000_000_000
_NO_ARGS = Args()


@dataclass
class Columns:
    """spans, arrows: tables of the schemas above. processes, labels: pid -> text. threads: (pid, tid) -> name."""

    spans: pl.DataFrame
    arrows: pl.DataFrame
    processes: dict[str, str]
    threads: dict[tuple[str, str], str]
    labels: dict[str, str]
    events: int


def gather(lists: Iterable[Sequence[ChromeEvent]], ledger: Ledger) -> Columns:
    """Gather the columns of all events; what has no use, or no sound time or id, is counted in the ledger."""
    gathering = _Gathering(ledger)
    with _no_collecting():
        for events in lists:
            gathering.take(events)
    return gathering.finish()


@contextmanager
def _no_collecting() -> Iterator[None]:
    """Leave out the search for cycles: millions of events hold none, and looking through them takes a third of all."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass
class _Gathering:
    ledger: Ledger
    spans: list[pl.DataFrame] = field(default_factory=list)
    arrows: list[pl.DataFrame] = field(default_factory=list)
    processes: dict[str, str] = field(default_factory=dict)
    threads: dict[tuple[str, str], str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    pairs: Pairs = field(default_factory=Pairs)
    drops: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    bare: int = 0
    events: int = 0

    def take(self, events: Sequence[ChromeEvent]) -> None:
        self.events += len(events)
        kinds: list[Any] = [event.cat if event.ph == "X" else (event.ph, event.cat) for event in events]
        try:
            found = Counter(kinds)
        except TypeError:  # some phase or category is a list or a table
            kinds = [(_text(event.ph), _text(event.cat)) for event in events]
            found = Counter(kinds)
        phases = {kind: kind if isinstance(kind, tuple) else ("X", kind) for kind in found}
        uses = {kind: _use(*map(_text, phase)) for kind, phase in phases.items()}
        for kind, count in found.items():
            if uses[kind] is None:
                self.drops[_text(phases[kind][0]) or "", _text(phases[kind][1])] += count
        by_use = {use: _chosen(events, kinds, {kind for kind in found if uses[kind] == use}) for use in _USES}
        unphased = [event for event in by_use["bare"] if event != _EMPTY]
        self.bare += len(by_use["bare"]) - len(unphased)
        if unphased:
            self.ledger.reject(NO_PHASE, f"name {_text(unphased[0].name)}, cat {_text(unphased[0].cat)}", len(unphased))
        named = [event for event in by_use["op"] if "::" not in event.name.__str__()]
        self.drops["X", "cpu_op"] += len(by_use["op"]) - len(named)
        self._name(by_use["name"])
        self.pairs.take(by_use["edge"])
        self._add_spans(by_use["span"] + named)
        self._add_arrows(by_use["arrow"])

    def finish(self) -> Columns:
        self._add_spans(self.pairs.finish(self.ledger))
        self.ledger.drop("empty events", self.bare)
        for (ph, cat), count in self.drops.items():
            self.ledger.drop(f"category {cat}" if ph == "X" else f"phase {ph}", count)
        spans = pl.concat([_empty(SPANS), *self.spans])
        return Columns(
            spans=_without_lost_zeros(spans, self.ledger),
            arrows=pl.concat([_empty(ARROWS), *self.arrows]),
            processes=self.processes,
            threads=self.threads,
            labels=self.labels,
            events=self.events,
        )

    def _name(self, events: Sequence[ChromeEvent]) -> None:
        for event in events:
            args = event.args or _NO_ARGS
            pid, tid, name, label = _id(event.pid), _id(event.tid), _text(args.name), _text(args.labels)
            if event.name == "process_labels" and label is not None:
                self.labels[pid] = label
            elif event.name == "process_name" and name is not None:
                self.processes[pid] = name
            elif event.name == "thread_name" and name is not None:
                self.threads[pid, tid] = name

    def _add_spans(self, events: list[ChromeEvent]) -> None:
        events = self._with_ids(events)
        if not events:
            return
        own = dict(zip(_OWN, zip(*map(attrgetter(*_OWN), events), strict=True), strict=True))
        start_ns, end_ns = times_ns(_series(own.pop("ts")), _series(own.pop("dur")))
        lost = start_ns.is_null().arg_true()
        if not lost.is_empty():
            first = events[lost[0]]
            example = f"name {_text(first.name)}, ts {_text(first.ts)}, dur {_text(first.dur)}"
            self.ledger.reject("ts and dur are no span of time", example, len(lost))
        of_args = zip(*map(attrgetter(*_OF_ARGS), [event.args or _NO_ARGS for event in events]), strict=True)
        args = dict(zip(_OF_ARGS.values(), of_args, strict=True))
        series = {name: _column(name, values) for name, values in (own | args).items()}
        for name, values in (own | args).items():
            self._tell_lost(name, values, series[name])
        series["device"] = series["device"].fill_null(series.pop("device_id"))
        frame = pl.DataFrame({**series, "start_ns": start_ns, "end_ns": end_ns}).select(list(SPANS))
        self.spans.append(frame.filter(pl.col("start_ns").is_not_null()) if len(lost) else frame)

    def _tell_lost(self, name: str, values: Sequence[object], read: pl.Series) -> None:
        """Count values that were given and could not be read: the events stay, without them."""
        lost = read.null_count() - values.count(None)
        if lost:
            nulls = read.is_null().to_list()
            first = next(value for value, null in zip(values, nulls, strict=True) if null and value is not None)
            self.ledger.reject(f"{name} is nothing that it could be; read as not said", first, lost)

    def _add_arrows(self, events: list[ChromeEvent]) -> None:
        events = self._with_ids(events)
        if not events:
            return
        start_ns, _ = times_ns(_series([event.ts for event in events]), pl.Series(["0"]).new_from_index(0, len(events)))
        lost = start_ns.null_count()
        self.ledger.reject("ts of a flow event is no time", _text(events[0].ts), lost)
        columns = {key: _column(key, [getattr(e, key) for e in events], ARROWS) for key in ARROWS if key[0] != "s"}
        self.arrows.append(pl.DataFrame({**columns, "start_ns": start_ns}).filter(pl.col("start_ns").is_not_null()))

    def _with_ids(self, events: list[ChromeEvent]) -> list[ChromeEvent]:
        """The events whose pid and tid can be ids."""
        if {type(event.pid) for event in events} | {type(event.tid) for event in events} <= _ID:
            return events
        sound = [event for event in events if type(event.pid) in _ID and type(event.tid) in _ID]
        first = next(event for event in events if not (type(event.pid) in _ID and type(event.tid) in _ID))
        self.ledger.reject("pid or tid is no id", f"name {_text(first.name)}", len(events) - len(sound))
        return sound


_ID = {str, int, type(None)}
_OWN = ("cat", "name", "pid", "tid", "ts", "dur")
#: Key of an event's args -> column.
_OF_ARGS = {
    "correlation": "correlation",
    "connection_id": "connection",
    "device": "device",
    "device_id": "device_id",
    "stream": "stream",
    "bytes": "bytes",
    "task_type": "task_type",
    "wait_on_stream": "waits_stream",
    "wait_on_cuda_event_record_corr_id": "waits_record",
}
_EMPTY = ChromeEvent()
_IDS = frozenset({"pid", "tid", "id", "connection", "device", "device_id", "stream", "waits_stream"})
_WHOLE_FRACTION = r"^(-?[0-9]+)\.0+$"


_USES = ("span", "arrow", "name", "edge", "bare", "op")


def _chosen(events: Sequence[ChromeEvent], kinds: Sequence[object], wanted: set[Any]) -> list[ChromeEvent]:
    return [event for event, kind in zip(events, kinds, strict=True) if kind in wanted] if wanted else []


def _use(ph: str | None, cat: str | None) -> str | None:
    """What events of a phase and category serve; None: nothing."""
    category = (cat or "").lower()
    if ph == "X":
        return "op" if category in _OPS else None if category in _UNUSED else "span"
    if ph in ("B", "E"):
        return None if category in _UNUSED or category in _OPS else "edge"
    if ph in ("s", "f", "t"):
        return "arrow" if category in _ARROW_CATEGORIES else None
    if ph is None or len(ph) != 1:
        return "bare"
    return "name" if ph == "M" else None


def _without_lost_zeros(spans: pl.DataFrame, ledger: Ledger) -> pl.DataFrame:
    """Reject spans at time 0 where everything else is far from it: their stamp was never written."""
    at_zero = pl.col("start_ns") == 0
    others = spans.lazy().filter(~at_zero).select(pl.col("start_ns").abs().min()).collect().item()
    lost = spans.filter(at_zero)
    if lost.is_empty() or others is None or others < _FAR_NS:
        return spans
    ledger.reject("ts is 0, hours before all others: a stamp that was never written", lost["name"][0], lost.height)
    return spans.filter(~at_zero)


def _empty(schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(schema=schema)


def _series(values: Sequence[object]) -> pl.Series:
    """Texts of texts, whole numbers and nulls; anything else is null."""
    if values.count(None) == len(values):
        return pl.Series([None], dtype=pl.String).new_from_index(0, len(values))
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int}:
        try:
            return pl.Series(values, dtype=pl.Int64).cast(pl.String)
        except (OverflowError, TypeError):  # beyond 64 bits
            pass
    return pl.Series(values if kinds <= {str} else [_text(v) for v in values], dtype=pl.String)


def _text(value: object) -> str | None:
    if value.__class__ is int:
        return str(value) if -_MAX_INT < value < _MAX_INT else None
    return value if isinstance(value, str) else None


def _column(name: str, values: Sequence[object], schema: Mapping[str, Any] = SPANS) -> pl.Series:
    """The column's series, null for what it cannot hold: ids as whole numbers' texts, sizes within reason."""
    dtype, texts = schema.get(name, _WORD), _series(values)
    if dtype == pl.Int64:
        numbers = _whole_numbers(texts)
        fits = numbers.is_between(0, _MAX_BYTES, closed="left") if name == "bytes" else numbers.is_not_null()
        return pl.select(pl.when(fits).then(numbers)).to_series()
    return (_ids(texts) if name in _IDS else texts).cast(dtype, strict=False)


def _ids(texts: pl.Series) -> pl.Series:
    """7.0 is 7: a program that passes a trace through tables of numbers writes it so."""
    return texts.str.replace(_WHOLE_FRACTION, "${1}")


def _id(value: object) -> str:
    return re.sub(_WHOLE_FRACTION, r"\1", _text(value) or "")


def _whole_numbers(texts: pl.Series) -> pl.Series:
    """Whole numbers, also in texts (a ROCm host call's). The few in an unusual form are read one by one."""
    numbers = texts.cast(pl.Int64, strict=False)
    odd = (numbers.is_null() & texts.is_not_null()).arg_true()
    if odd.is_empty():
        return numbers
    mended = [whole(text) for text in texts.gather(odd).to_list()]
    kept = [each if each is not None and abs(each) <= _MAX_INT64 else None for each in mended]
    return numbers.scatter(odd, pl.Series(kept, dtype=pl.Int64))
