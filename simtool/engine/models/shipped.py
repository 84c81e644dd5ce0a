"""Which models to run: checkpoint folders that the caller names, or the small pair that ships."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from simtool.errors import UsageError

#: The pair that ships, in a checkout: models/checkpoints beside the package.
SHIPPED = Path(__file__).parents[3] / "models" / "checkpoints"
_SHIPPED_DRAFTS = {"dspark": {7: "dspark_sl7", 16: "dspark_sl16"}, "dflash": {7: "dflash_sl7"}}


@dataclass(frozen=True)
class Models:
    """Checkpoint folders, and the draft tokens per block (None: what the drafter was trained for)."""

    target: Path
    draft: Path
    drafts: int | None


def choose_models(
    target: Path | None = None, draft: Path | None = None, algorithm: str | None = None, sl: int | None = None
) -> Models:
    """Return the folders: those given, or the shipped pair whose drafter fits the algorithm and SL best.

    algorithm: dspark or dflash; sl: draft tokens a block; None: dspark, what the drafter was trained for. Raises
    UsageError for one folder without the other, one that is not there, or a choice that has no effect.
    """
    if sl is not None and sl < 1:
        raise UsageError(f"--sl is {sl}; expected 1 or more draft tokens per block")
    if algorithm is not None and algorithm not in _SHIPPED_DRAFTS:
        raise UsageError(f"--algorithm is {algorithm!r}; expected one of {', '.join(_SHIPPED_DRAFTS)}")
    if (target is None) != (draft is None):
        missing = "--draft" if draft is None else "--target"
        raise UsageError(f"a target and a drafter belong together: {missing} is missing; give both or neither")
    if target is not None and draft is not None:
        if algorithm is not None:
            raise UsageError("--algorithm picks a shipped drafter, and --draft names one already; keep one of them")
        for folder in (target, draft):
            if not folder.is_dir():
                raise UsageError(f"{folder}: no such folder; give the folder of a downloaded checkpoint")
        return Models(target, draft, sl)
    if not SHIPPED.is_dir():
        raise UsageError(f"no models at {SHIPPED} (they ship with a checkout); give --target and --draft")
    drafters = _SHIPPED_DRAFTS[algorithm or "dspark"]
    trained = min(drafters, key=lambda n: abs(n - (sl or 7)))
    return Models(SHIPPED / "target", SHIPPED / drafters[trained], sl or trained)
