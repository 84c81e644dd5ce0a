"""The published error table: validate many settings, then write a page from what they left.

python benchmarks/fidelity.py run [PAGE]     # needs a quiet machine; what is there already is kept
python benchmarks/fidelity.py page [PAGE]    # docs/fidelity.md, or PAGE, from traces/local/fidelity/*/validation.json
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORK = ROOT / "traces" / "local" / "fidelity"
PAGE = ROOT / "docs" / "fidelity.md"

Document = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One validation: a drafter, a block length, a concurrency, and how it is judged."""

    algorithm: str
    sl: int
    concurrency: int
    timed: bool

    @property
    def name(self) -> str:
        return f"{'time' if self.timed else 'tokens'}-{self.algorithm}-sl{self.sl}-c{self.concurrency}"

    @property
    def arguments(self) -> list[str]:
        shared = ["--algorithm", self.algorithm, "--sl", str(self.sl), "--concurrency", str(self.concurrency)]
        if self.timed:
            arms = [argument for arm in ARMS for argument in ("--policy", arm)]
            return [*shared, *arms, "--num-prompts", "32", "--repeats", "5"]
        return [*shared, "--num-prompts", "208", "--max-new-tokens", "24", "--tokens-only"]


ARMS = ("static", "this-step", "lag", "lag-overlap", "lag-overlap-late", "lag-overlap-index")
TIMED = [
    *(Setting("dspark", sl, 8, True) for sl in (7, 16)),
    Setting("dflash", 7, 8, True),
]
EXACT = [
    Setting(algorithm, sl, concurrency, False)
    for algorithm in ("dspark", "dflash")
    for sl in (7, 16)
    for concurrency in (1, 4, 8, 16)
]


def main(what: str, page: Path = PAGE) -> None:
    if what == "run":
        for setting in (*TIMED, *EXACT):
            _run(setting)
    elif what != "page":
        raise SystemExit(f"unknown step {what!r}; expected run or page")
    page.write_text("\n".join(_page(list(_documents()))) + "\n")
    print(f"wrote {page}")


def _run(setting: Setting) -> None:
    out = WORK / setting.name
    if (out / "validation.json").exists():
        return
    command = ["-m", "simtool", "validate", *setting.arguments, "--out", str(out.relative_to(ROOT)), "--force"]
    print("simtool", *command[2:], flush=True)
    status = subprocess.run([sys.executable, *command], cwd=ROOT, check=False, stdout=subprocess.DEVNULL).returncode
    if status not in (0, 1):  # 1 is a finding: the page prints it
        raise SystemExit(f"{setting.name}: validate ended with status {status}")


def _documents() -> Iterator[tuple[Setting, Document]]:
    for setting in (*TIMED, *EXACT):
        path = WORK / setting.name / "validation.json"
        if path.exists():
            yield setting, json.loads(path.read_text())


def _page(found: list[tuple[Setting, Document]]) -> Iterator[str]:
    timed = [(setting, document) for setting, document in found if setting.timed]
    yield "# Fidelity: what the replay predicted, and what the live engine then measured"
    yield ""
    yield "Made by `benchmarks/fidelity.py run` and the name of this page (docs/fidelity.md: `make fidelity`), on a"
    yield "quiet two-core machine. Costs are fitted on one set of prompts and judged on another; live repetitions"
    yield "are interleaved, their order rotates. Live intervals are Student's t over repetitions; the replay's cover"
    yield "its noise and the error of its fit (20 draws)."
    yield "Nothing is left out: an error that lies outside the live interval says so."
    yield ""
    yield from _summary(found)
    for setting, document in timed:
        yield from _timed(setting, document)
    missing = [setting.name for setting in TIMED if setting not in dict(timed)]
    if missing:
        yield f"Not run yet: {', '.join(missing)}."
        yield ""
    yield from _exact([each for each in found if not each[0].timed])


def _summary(found: list[tuple[Setting, Document]]) -> Iterator[str]:
    timed = [(setting, document) for setting, document in found if setting.timed]
    errors = [
        (abs(each["error"]), each["inside"], setting.name, each["arm"])
        for setting, document in timed
        for each in document["judged"]
        if each["measure"] == "steady tok/s"
    ]
    if not errors:
        return
    worst = max(errors)
    mean = sum(error for error, *_ in errors) / len(errors)
    pairs = [pair for _, document in timed for pair in document["pairs"]]
    yield "## In short"
    yield f"- Throughput of an arm: mean error {mean:.1%}, worst {worst[0]:.1%} ({worst[3]} in {worst[2]}); "
    yield f"  {sum(inside for _, inside, *_ in errors)} of {len(errors)} inside the live run's own 95 % interval."
    inside = sum(pair["inside"] for pair in pairs)
    foreseen = sum(pair["foreseen"] for pair in pairs)
    agree = sum(_agree(pair) for pair in pairs)
    off = sorted(abs(pair["predicted"] / pair["measured"] - 1) for pair in pairs)
    yield f"- Difference between two placements: {foreseen} of {len(pairs)} measured ratios lie inside the replay's own"
    yield f"  95 % interval, {inside} of {len(pairs)} predicted ones inside the live interval,"
    yield f"  {agree} of {len(pairs)} agree within both intervals together;"
    yield f"  off by {off[len(off) // 2]:.1%} in the median, {off[-1]:.1%} at worst."
    rows = sum(document["rows"] for _, document in found)
    apart = sum(document["mismatches"] for _, document in found)
    yield f"- Tokens: {apart} of {rows} live rows differ from the replay, over all settings below."
    yield ""


def _agree(pair: Document) -> bool:
    """Whether prediction and measurement differ by no more than their two intervals, added as independent errors."""
    live = math.log(pair["high"] / pair["low"]) / 2
    replayed = math.log(pair["predicted_high"] / pair["predicted_low"]) / 2
    return abs(math.log(pair["predicted"] / pair["measured"])) <= math.hypot(live, replayed)


def _divergences(document: Document) -> Iterator[str]:
    """Where live runs first diverge from their replay, and why; repetitions that diverge alike are told once."""
    told: dict[str, list[str]] = {}
    for each in document["divergences"]:
        told.setdefault(f"in step {each['step']}: {each['found']}", []).append(each["run"])
    for rest, runs in told.items():
        yield f"- {', '.join(runs)}: diverges from its replay {rest}."


def _timed(setting: Setting, document: Document) -> Iterator[str]:
    about = document["setting"]
    yield f"## {setting.algorithm}, SL {setting.sl}, concurrency {setting.concurrency}"
    yield f"`{about['command']}`  "
    share = about["others_share"]
    busy = (
        f"; other work took {share['mean']:.1%} of the cores on average, {share['worst']:.1%} at worst" if share else ""
    )
    yield f"{about['date']}, {about['device']} ({about['device_name']}), {about['requests']} requests, "
    yield f"{document['repetitions']} repetitions per arm{busy}."
    yield ""
    yield "| placement | measure | replayed | live | live 95 % interval | error | |"
    yield "|---|---|---:|---:|---:|---:|---|"
    for each in document["judged"]:
        values = [_value(each[key], each["unit"]) for key in ("predicted", "measured", "low", "high")]
        error = "-" if each["error"] is None else f"{each['error']:+.1%}"
        side = "inside" if each["inside"] else "outside"
        cells = (each["arm"], each["measure"], values[0], values[1], f"{values[2]} to {values[3]}", error, side)
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        "| throughput of | over | replayed | its 95 % interval | live | its 95 % interval "
        "| replay in live's | live in replay's |"
    )
    yield "|---|---|---:|---:|---:|---:|---|---|"
    for each in document["pairs"]:
        replayed, live = (
            f"{_change(each[point])} | {_change(each[low])} to {_change(each[high])}"
            for point, low, high in (("predicted", "predicted_low", "predicted_high"), ("measured", "low", "high"))
        )
        inside, foreseen = ("yes" if each[key] else "no" for key in ("inside", "foreseen"))
        yield f"| {' | '.join((each['other'], each['baseline'], replayed, live, inside, foreseen))} |"
    yield ""
    yield f"{document['mismatches']} of {document['rows']} live rows differ from the replay."
    yield from _divergences(document)
    yield ""


def _exact(found: list[tuple[Setting, Document]]) -> Iterator[str]:
    yield "## Tokens: live rows that differ from the replay"
    yield "A row is one sequence in one step; it must agree in step, request, anchor, prefix length, accepted, emitted."
    yield ""
    yield "| drafter | SL | concurrency | requests | arms | live rows | differing |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    done = dict(found)
    for setting in EXACT:
        place = f"| {setting.algorithm} | {setting.sl} | {setting.concurrency} |"
        document = done.get(setting)
        if document is None:
            yield f"{place} | | | not run yet |"
        else:
            yield f"{place} {document['setting']['requests']} | 4 | {document['rows']} | {document['mismatches']} |"
    yield ""
    for setting, document in found:
        if document["mismatches"]:
            yield f"{setting.algorithm}, SL {setting.sl}, concurrency {setting.concurrency}:"
            yield from _divergences(document)


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def _value(value: float, unit: str) -> str:
    if unit == "ns":
        return f"{value / 1e6:.3g} ms"
    return f"{value:.0f}" if value >= 100 else f"{value:.3f}"


if __name__ == "__main__":
    what, *page = sys.argv[1:] or [""]
    main(what, *map(Path, page))
