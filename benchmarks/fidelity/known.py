"""simtool/profile/judged_live.json: what docs/fidelity.md and its like say, where verdicts can read it.

python -m benchmarks.fidelity.known     # after `make fidelity`, or where a page changed
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import simtool.profile.judged_live as known
from benchmarks.fidelity.settings import ROOT
from simtool.engine.models.identity import identity
from simtool.engine.models.shipped import choose_models

FILE = ROOT / "simtool" / "profile" / "judged_live.json"
_REPETITIONS = 5
_ARM = re.compile(r"([-+\d.]+) \(([-+\d.]+) ± ([\d.]+)\)")
_MACHINE = re.compile(r"timed on (.+) \(\d{4}-")
_STRETCH = re.compile(
    r"\| concurrency (\d+) \| fitted at concurrency (\d+) \| [^|]*\| [^|]*\| ([\d.]+)% \| [-+]([\d.]+)% "
)


def main() -> None:
    """Write the file from the pages."""
    FILE.write_text(json.dumps(told(), indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {FILE}")


def told() -> dict[str, Any]:
    """Return what the pages say, as plain JSON values; figures in percent become shares."""
    pages = {page: (ROOT / page).read_text() for page in known.PAGES}
    return {
        "settings": [setting for page, text in pages.items() for setting in _settings(page, text)],
        "stretches": [stretch for page, text in pages.items() for stretch in _stretches(page, text)],
    }


def _settings(page: str, text: str) -> Iterator[dict[str, Any]]:
    lines, machine = text.splitlines(), _MACHINE.search(text)
    assert machine is not None, page
    start = next(i for i, line in enumerate(lines) if line.startswith("## What each arm gives over static"))
    head, _, *rows = [line for line in _section(lines, start) if line.startswith("|")]
    names = _cells(head)[3:]
    for row in rows:
        algorithm, sl, concurrency, *figures = _cells(row)
        models = choose_models(None, None, algorithm, int(sl))
        yield {
            "page": page,
            "algorithm": algorithm,
            "sl": int(sl),
            "concurrency": int(concurrency),
            "models": {"target": identity(models.target)["sha256"], "draft": identity(models.draft)["sha256"]},
            "device_name": machine[1],
            "repetitions": _REPETITIONS,
            "arms": [_arm(name, figure) for name, figure in zip(names, figures, strict=True)],
        }


def _arm(name: str, figure: str) -> dict[str, Any]:
    found = _ARM.match(figure)
    assert found is not None, figure
    replayed, live, half = (_share(number) for number in found.groups())
    return {"placement": name, "replayed": replayed, "live": live, "half": half}


def _stretches(page: str, text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        if found := _STRETCH.match(line):
            judged, fitted, mean, worst = found.groups()
            yield {
                "page": page,
                "fitted": int(fitted),
                "judged": int(judged),
                "mean": _share(mean),
                "worst": _share(worst),
            }


def _section(lines: list[str], start: int) -> list[str]:
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    return lines[start:end]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _share(percent: str) -> float:
    return round(float(percent) / 100, 6)


if __name__ == "__main__":
    main()
