"""One trace event, with the few keys that an import needs; everything else in the file is skipped unread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Args(msgspec.Struct, gc=False):
    """The keys of `args` that importers read, under the names that Kineto and msprof write."""

    name: Any = None
    labels: Any = None
    correlation: Any = None
    device: Any = None
    stream: Any = None
    bytes: Any = None
    wait_on_stream: Any = None
    wait_on_cuda_event_record_corr_id: Any = None
    connection_id: Any = None
    task_type: Any = msgspec.field(default=None, name="Task Type")
    device_id: Any = msgspec.field(default=None, name="Device Id")
    stream_id: Any = msgspec.field(default=None, name="Physic Stream Id")


class ChromeEvent(msgspec.Struct, gc=False):
    """A trace event. Numbers with a fraction or an exponent are texts: a double cannot hold us since 1970 to the ns."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None
    args: Args | None = None


_FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(ChromeEvent) if field.name != "args"}
_ARGS = {field.encode_name: field.name for field in msgspec.structs.fields(Args)}
DECODER = msgspec.json.Decoder(list[ChromeEvent], float_hook=str)


def make_event(table: Mapping[str, Any]) -> ChromeEvent:
    """Make an event from a parsed JSON table; args that are no table count as absent."""
    args = table.get("args")
    given = {own: args[name] for name, own in _ARGS.items() if name in args} if isinstance(args, dict) else {}
    fields = {own: table[name] for name, own in _FIELDS.items() if name in table}
    return ChromeEvent(**fields, args=Args(**given) if given else None)
