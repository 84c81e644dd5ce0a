"""simtool/profile/judged_live.json: what was judged live, where verdicts can read it.

`benchmarks.fidelity.pages` and `benchmarks.fidelity.told` write it with their pages, from the same runs; what other
pages say stays.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.fidelity.settings import ARMS, ROOT, Setting
from simtool.profile.judged_live import PAGE

FILE = ROOT / "simtool" / "profile" / "judged_live.json"
Document = dict[str, Any]


def updated(known: Document, page: str, fresh: Mapping[str, Sequence[Document]]) -> Document:
    """Return all that is known, with what one page says put in the place of what it said; shares."""
    return {key: [*fresh.get(key, ()), *(each for each in known[key] if each["page"] != page)] for key in known}


def write(page: str, **fresh: Sequence[Document]) -> None:
    """Write the file. fresh: settings, stretches."""
    told = updated(json.loads(FILE.read_text()), page, fresh)
    FILE.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {FILE}")


def half(pair: Document) -> float:
    """Half of a live interval, a share."""
    return float(pair["high"] - pair["low"]) / 2


def off(row: Document) -> float:
    """How far an arm's difference to static was off, a share."""
    return float(row["over_static"] - row["live_over_static"])


def cell(replayed: float, live: float, half: float) -> str:
    """What a page says of one placement over static, in percent; all given as shares."""
    return f"{replayed * 100:+.1f} ({live * 100:+.1f} ± {half * 100:.1f})"


def settings(found: Iterable[tuple[Setting, Document]]) -> Iterator[Document]:
    """What live runs of the page of record showed, from their validations."""
    for setting, document in found:
        if not setting.timed:
            continue
        about = document["setting"]
        over = {pair["other"]: pair for pair in document["pairs"] if pair["baseline"] == "static"}
        yield {
            "page": PAGE,
            "algorithm": setting.algorithm,
            "sl": setting.sl,
            "concurrency": setting.concurrency,
            "models": {role: model["sha256"] for role, model in about["models"].items()},
            "device_name": about["device_name"],
            "repetitions": document["repetitions"],
            "arms": [_arm(arm, over[arm]) for arm in ARMS if arm in over],
        }


def _arm(placement: str, pair: Document) -> Document:
    shares = {"replayed": pair["predicted"] - 1, "live": pair["measured"] - 1, "half": half(pair)}
    return {"placement": placement, **{name: round(share, 6) for name, share in shares.items()}}


def stretches(across: Iterable[Document]) -> Iterator[Document]:
    """The errors of costs fitted at one concurrency and judged at another, of all arms but static."""
    sizes: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row in across:
        if row["arm"] != "static" and row["fitted"] is not None:
            sizes[row["fitted"], int(row["judged"].rpartition("-c")[2])].append(abs(off(row)))
    for (fitted, judged), errors in sizes.items():
        mean, worst = round(sum(errors) / len(errors), 6), round(max(errors), 6)
        yield {"page": PAGE, "fitted": fitted, "judged": judged, "mean": mean, "worst": worst}
