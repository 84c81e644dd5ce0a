"""The table that commands print about bundles: one line each, its origin first, so that nobody mixes them up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from simtool.cli import console
from simtool.units import format_ns

if TYPE_CHECKING:
    from simtool.analysis.metrics import Summary
    from simtool.trace.bundle import Bundle

_COLUMNS: tuple[tuple[str, Callable[[Summary], float | None], str], ...] = (
    ("output tok/s", lambda s: s.tokens_per_s, ".0f"),
    ("steady tok/s", lambda s: s.steady_tokens_per_s, ".0f"),
    ("TPOT mean", lambda s: s.tpot.mean_ns, "ns"),
    ("p50", lambda s: s.tpot.p50_ns if s.tpot.count else None, "ns"),
    ("p99", lambda s: s.tpot.p99_ns if s.tpot.count else None, "ns"),
    ("accept rate", lambda s: s.acceptance_rate, ".3f"),
    ("accept length", lambda s: s.acceptance_length, ".2f"),
    ("step", lambda s: s.step.mean_ns, "ns"),
    ("device idle/step", lambda s: s.device_idle_per_step_ns, "ns"),
    ("host exposed/step", lambda s: s.exposed_per_step_ns, "ns"),
)


def print_summaries(bundles: Sequence[Bundle], *, json: bool) -> None:
    """Print throughput, TPOT, acceptance, step time, device idle and exposed host work of each bundle."""
    from simtool.analysis.metrics import summarise_bundle
    from simtool.report.terminal import table

    summaries = [summarise_bundle(bundle) for bundle in bundles]
    if json:
        console.emit_json([_as_json(*pair) for pair in zip(bundles, summaries, strict=True)])
        return
    rows = [
        (bundle.manifest.origin, _policy(bundle), *(_text(get(summary), kind) for _, get, kind in _COLUMNS))
        for bundle, summary in zip(bundles, summaries, strict=True)
    ]
    console.stdout().print(table("", ("origin", "placement", *(name for name, *_ in _COLUMNS)), rows, numbers_from=2))


def _policy(bundle: Bundle) -> str:
    return bundle.placement.name if bundle.manifest.placement is not None else "-"


def _as_json(bundle: Bundle, summary: Summary) -> dict[str, object]:
    values = {name.replace(" ", "_").replace("/", "_per_"): get(summary) for name, get, _ in _COLUMNS}
    manifest = bundle.manifest
    named = {"bundle": str(bundle.path), "origin": manifest.origin, "placement": _policy(bundle)}
    return {**named, **values, "warnings": manifest.warnings}


def _text(value: float | None, kind: str) -> str:
    if value is None:
        return "-"
    return format_ns(value) if kind == "ns" else format(value, kind)
