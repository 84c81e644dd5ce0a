"""simtool/profile/judged_live.json: what docs/fidelity.md says, where verdicts can read it.

python -m benchmarks.fidelity.known     # after `make fidelity`, or where the page changed
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
_STRETCH = re.compile(
    r"\| concurrency (\d+) \| fitted at concurrency (\d+) \| [^|]*\| [^|]*\| ([\d.]+)% \| [-+]([\d.]+)% "
)


def main() -> None:
    """Write the file from the page."""
    FILE.write_text(json.dumps(told((ROOT / known.PAGE).read_text()), indent=1, ensure_ascii=False) + "\n")
    print(f"wrote {FILE}")


def told(page: str) -> dict[str, Any]:
    """Return what the page says, as plain JSON values; figures in percent become shares."""
    return {"settings": list(_settings(page.splitlines())), "stretches": list(_stretches(page.splitlines()))}


def _settings(lines: list[str]) -> Iterator[dict[str, Any]]:
    start = next(i for i, line in enumerate(lines) if line.startswith("## What each arm gives over static"))
    head, _, *rows = [line for line in _section(lines, start) if line.startswith("|")]
    names = _cells(head)[3:]
    device_name = json.loads((ROOT / "traces" / "sl7-static" / "manifest.json").read_text())["device_name"]
    for row in rows:
        algorithm, sl, concurrency, *figures = _cells(row)
        models = choose_models(None, None, algorithm, int(sl))
        yield {
            "algorithm": algorithm,
            "sl": int(sl),
            "concurrency": int(concurrency),
            "models": {"target": identity(models.target)["sha256"], "draft": identity(models.draft)["sha256"]},
            "device_name": device_name,
            "repetitions": _REPETITIONS,
            "arms": [_arm(name, figure) for name, figure in zip(names, figures, strict=True)],
        }


def _arm(name: str, figure: str) -> dict[str, Any]:
    found = _ARM.match(figure)
    assert found is not None, figure
    replayed, live, half = (_share(number) for number in found.groups())
    return {"placement": name, "replayed": replayed, "live": live, "half": half}


def _stretches(lines: list[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if found := _STRETCH.match(line):
            judged, fitted, mean, worst = found.groups()
            yield {"fitted": int(fitted), "judged": int(judged), "mean": _share(mean), "worst": _share(worst)}


def _section(lines: list[str], start: int) -> list[str]:
    end = next((i for i in range(start + 1, len(lines)) if lines[i].startswith("## ")), len(lines))
    return lines[start:end]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _share(percent: str) -> float:
    return round(float(percent) / 100, 6)


if __name__ == "__main__":
    main()
