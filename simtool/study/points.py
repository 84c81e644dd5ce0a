"""Points of a sweep kept on disk as they are done, so that one that was killed goes on where it stopped.

A point's name is a hash of all that it depends on: what a changed input would make is never taken for what is there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

from simtool.files.writing import write_bytes
from simtool.profile.profile import Profile
from simtool.replay.caveats import Caveats
from simtool.step.beyond import Beyond
from simtool.step.placement import Placement
from simtool.study.runner import Setting, simulator_of
from simtool.trace.trace import Trace
from simtool.version import __version__

_SERVED = ("requests", "rows", "outcomes")  # what a replay reads of its source


@dataclass(frozen=True)
class SweptPoint:
    """One job of a sweep, done. rows: of its table, one a seed. caveats: of each of its replays."""

    rows: tuple[Mapping[str, object], ...]
    caveats: tuple[Caveats, ...]

    def encoded(self) -> bytes:
        """Return the point as JSON, whose floats come back to the last bit."""
        caveats = [{**vars(each), "beyond": [vars(beyond) for beyond in each.beyond]} for each in self.caveats]
        return json.dumps({"rows": self.rows, "caveats": caveats}).encode()

    @classmethod
    def decoded(cls, data: bytes) -> SweptPoint:
        """Return what `encoded` wrote; raises ValueError, KeyError or TypeError for anything else."""
        table = json.loads(data)
        caveats = [
            Caveats(
                sentences=tuple(each["sentences"]),
                beyond=tuple(Beyond(**beyond) for beyond in each["beyond"]),
                changes=tuple(each["changes"]),
                proxies=tuple(each["proxies"]),
            )
            for each in table["caveats"]
        ]
        return cls(tuple(table["rows"]), tuple(caveats))


@dataclass
class PointStore:
    """Points in a folder, a file each, which appears whole."""

    folder: Path
    _hashes: dict[int, tuple[Trace | Profile, str]] = field(default_factory=dict)

    def get(self, setting: Setting, placement: Placement) -> SweptPoint | None:
        """Return a job's point if it is there and sound."""
        try:
            return SweptPoint.decoded(self._path(setting, placement).read_bytes())
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, setting: Setting, placement: Placement, point: SweptPoint) -> None:
        """Keep a job's point; raises OutputError when it cannot be written."""
        write_bytes(self._path(setting, placement), point.encoded())

    def remove(self) -> None:
        """Remove all of them, once their table is written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, setting: Setting, placement: Placement) -> Path:
        inputs = {
            "version": __version__,
            "source": self._hash(setting.source),
            "profile": self._hash(setting.profile),
            "concurrency": setting.concurrency,
            "seeds": setting.seeds,
            "fit_error": setting.fit_error,
            "stale_loss": setting.stale_loss,
            "controller": asdict(setting.controller),
            "simulator": simulator_of(setting, placement),
            "placement": placement.to_dict(),
        }
        name = blake2b(json.dumps(inputs, sort_keys=True).encode(), digest_size=16).hexdigest()
        return self.folder / f"{name}.json"

    def _hash(self, value: Trace | Profile) -> str:
        """A hash of a trace or a profile, made once; beside the value, which keeps its identity."""
        if id(value) not in self._hashes:
            made = _hash_trace(value) if isinstance(value, Trace) else _hash_profile(value)
            self._hashes[id(value)] = value, made
        return self._hashes[id(value)][1]


def _hash_trace(trace: Trace) -> str:
    digest = blake2b(json.dumps([str(trace.path), trace.manifest.to_dict()], sort_keys=True).encode(), digest_size=16)
    for name in _SERVED:
        for part in trace.stretches(name):
            part.rechunk().write_ipc(encoded := BytesIO())
            digest.update(encoded.getbuffer())
    return digest.hexdigest()


def _hash_profile(profile: Profile) -> str:
    return blake2b(json.dumps(profile.to_dict(), sort_keys=True).encode(), digest_size=16).hexdigest()
