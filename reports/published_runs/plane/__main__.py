"""Write docs/where-lag-wins.md and its picture: `python -m published_runs.plane`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from published_runs.plane.grid import replay_plane
from published_runs.plane.page import page
from published_runs.plane.pairs import published, shipped
from published_runs.plane.picture import picture
from published_runs.tables import PUBLISHED
from published_runs.xllm.machine import figures_profile
from simtool.files.writing import write_text

_ROOT = Path(__file__).parents[3]


def main(arguments: list[str] | None = None) -> None:
    """Replay the plane and write both files."""
    parser = argparse.ArgumentParser(prog="python -m published_runs.plane", description=(__doc__ or "").strip())
    parser.add_argument("--out", type=Path, default=Path("docs/where-lag-wins.md"), help="the page")
    out = parser.parse_args(arguments).out
    base = figures_profile(_ROOT / "models" / "profiles")
    cells = list(replay_plane(base, lambda done, of: print(f"text {done} of {of}", file=sys.stderr)))
    pairs = shipped(_ROOT / "traces"), published(PUBLISHED)
    drawing = out.with_suffix(".svg")
    write_text(drawing, picture(cells, *pairs))
    write_text(out, page(cells, *pairs, drawing.name))


if __name__ == "__main__":
    main()
