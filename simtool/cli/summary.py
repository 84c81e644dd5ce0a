"""The table that commands print about bundles: one line each, its origin first, so that nobody mixes them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from simtool.cli import console

if TYPE_CHECKING:
    from simtool.trace.bundle import Bundle


def print_summaries(bundles: Sequence[Bundle], *, json: bool) -> None:
    """Print throughput, TPOT, acceptance, step time, device idle and exposed host work of each bundle."""
    from simtool.analysis.metrics import summarise_bundle
    from simtool.report.numbers import NUMBERS
    from simtool.report.terminal import table

    summaries = [summarise_bundle(bundle) for bundle in bundles]
    pairs = list(zip(bundles, summaries, strict=True))
    if json:
        console.emit_json([{**_facts(bundle), **{n.key: n.get(summary) for n in NUMBERS}} for bundle, summary in pairs])
        return
    rows = [(*_facts(bundle).values(), *(number.text(summary) for number in NUMBERS)) for bundle, summary in pairs]
    heads = ("bundle", "origin", "placement", *(number.name for number in NUMBERS))
    console.stdout().print(table("", heads, rows, numbers_from=3))


def _facts(bundle: Bundle) -> dict[str, str]:
    policy = bundle.placement.name if bundle.manifest.placement is not None else "-"
    return {"bundle": bundle.path.name, "origin": bundle.manifest.origin, "placement": policy}
