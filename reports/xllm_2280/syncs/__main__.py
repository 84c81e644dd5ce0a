"""Write the answers with the syncs: `python -m xllm_2280.syncs TRACE --profile mine.json --figures figures.toml`."""

from __future__ import annotations

import argparse
import shlex
import sys
from datetime import date
from pathlib import Path

from simtool.files.writing import write_text
from simtool.profile.profile import Profile
from simtool.profile.proxies import with_proxies
from simtool.profile.published import constructed_profile
from simtool.profile.storage import load_profile
from simtool.study.full_batch import workload
from simtool.study.runner import Setting
from simtool.trace.trace import Trace, open_trace
from xllm_2280.syncs.answers import answer_machine
from xllm_2280.syncs.document import document
from xllm_2280.syncs.draws import answer_draws


def main() -> None:
    """Replay, draw, and write the page."""
    given = _arguments()
    if given.out.exists() and not given.force:
        sys.exit(f"{given.out} is already there, perhaps with a table of live runs; --force replaces it")
    source = open_trace(given.trace)
    measured = with_proxies(load_profile(given.profile))
    constructed = constructed_profile(given.figures, date.today().isoformat())
    answers = [
        answer_machine(_setting(source, profile, concurrency, given.waves), what, processes=given.jobs)
        for profile, what in ((measured, f"measured: {measured.device_name}"), (constructed, constructed.device_name))
        for concurrency in given.concurrency
    ]
    drawn_at = _setting(source, constructed, max(given.concurrency), given.waves)
    drawn = answer_draws(drawn_at, given.figures, power=given.power, processes=given.jobs)
    name = f"{constructed.name}, concurrency {drawn_at.concurrency}"
    live = [open_trace(path) for path in sorted(given.live.iterdir())] if given.live else []
    made_by = shlex.join(["python", "-m", "xllm_2280.syncs", *sys.argv[1:]])
    write_text(given.out, document(answers, drawn, draws_of=name, live=live, made_by=made_by))


def _setting(source: Trace, profile: Profile, concurrency: int, waves: int) -> Setting:
    return Setting(workload(source, concurrency, waves), profile, concurrency)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m xllm_2280.syncs", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, help="whose requests and outcomes are replayed; outcomes at every anchor")
    parser.add_argument("--profile", type=Path, required=True, help="costs measured on this machine")
    parser.add_argument("--figures", type=Path, required=True, help="TOML of figures, published and assumed")
    parser.add_argument("--live", type=Path, help="folder of live recordings of the arms, for intervals")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--waves", type=int, default=2, help="requests that each slot serves")
    parser.add_argument("--power", type=int, default=8, help="draws of the assumed figures, as a power of 2")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--force", action="store_true", help="replace the page, its table of live runs too")
    parser.add_argument("--out", type=Path, default=Path("docs/answers-syncs.md"))
    return parser.parse_args()


if __name__ == "__main__":
    main()
