"""docs/peers.md: what other public simulators say of live runs that ship, beside what simtool says of them.

python -m benchmarks.peers --inference-lab target/release/inference-lab --frontier CHECKOUT --frontier-python PYTHON

Each option names a peer's own build or checkout; a peer that is not named keeps what was found of it before
(traces/local/peers/found.json). Without any, the page is only written anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.peers import frontier, inference_lab, ours
from benchmarks.peers.live import ROOT, SETTINGS, WORK, Said
from benchmarks.peers.page import LIVE, OURS, Answer, page
from simtool.files.writing import write_text

_FOUND = WORK / "found.json"
_PAGE = ROOT / "docs" / "peers.md"


def main() -> None:
    """Ask whom the options name, and write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inference-lab", type=Path, metavar="COMMAND", help="its built command")
    parser.add_argument("--frontier", type=Path, metavar="FOLDER", help="its checkout")
    parser.add_argument("--frontier-python", type=Path, metavar="COMMAND", help="a Python with what Frontier imports")
    parser.add_argument("--seeds", type=int, default=20, help="runs of a peer that draws (default 20)")
    given = parser.parse_args()
    asked = list(_ask(given))
    again = {each.who for each in asked}
    answers = [each for each in _known() if each.who not in again] + asked
    if not answers:
        raise SystemExit("no peer was asked here yet: name one, as --help says; docs/peers.md is left as it is")
    _FOUND.parent.mkdir(parents=True, exist_ok=True)
    write_text(_FOUND, json.dumps([{**asdict(each), "said": asdict(each.said)} for each in answers], indent=1) + "\n")
    write_text(_PAGE, page(answers))
    print(f"wrote {_PAGE}")


def _ask(given: argparse.Namespace) -> Iterator[Answer]:
    if given.frontier and not given.frontier_python:
        raise SystemExit("--frontier needs --frontier-python: a Python that has what Frontier imports")
    if not given.frontier and not given.inference_lab:
        return
    for setting in SETTINGS:
        for arm in setting.arms:
            yield Answer(LIVE, setting.name, arm, setting.live(arm))
            yield Answer(OURS, setting.name, arm, ours.predict(setting, arm))
            folder = WORK / f"{setting.name}-{arm}"
            if given.inference_lab:
                for way in inference_lab.WAYS:
                    where = (folder / way.name.replace(" ", "-")).resolve()
                    said = inference_lab.predict(
                        given.inference_lab.resolve(), setting, arm, way, where, range(1, given.seeds + 1)
                    )
                    yield Answer(way.name, setting.name, arm, said)
            if given.frontier:
                peer = frontier.Peer(given.frontier.resolve(), given.frontier_python.absolute())
                where = (folder / "frontier").resolve()
                yield Answer("Frontier", setting.name, arm, frontier.predict(peer, setting, arm, where))


def _known() -> list[Answer]:
    if not _FOUND.exists():
        return []
    return [Answer(**{**each, "said": Said(**each["said"])}) for each in json.loads(_FOUND.read_text())]


if __name__ == "__main__":
    main()
