"""The placements of both models: as the pull request describes the step, and as the code blocks in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simtool.profile.whatif import with_changes
from simtool.step.placement import BUILT_IN, XLLM_ARMS, Placement, parse_placement
from simtool.study.runner import Setting

_FILL, _VERIFY = "unsync=fill_varlen", "unsync=launch_verify"

#: xLLM's lag-overlap with the index lists built and uploaded in the overlap window, from memory that is not pinned.
EARLY_INDEX = parse_placement(
    "xllm-2280/lag-overlap-index",
    "schedule read_states decide build_query launch_draft build_varlen|build_dense build_fill_index|- launch_sample "
    "scatter_fill|fill_dense launch_target launch_verify read_tokens write_context store_confidence finish",
    1,
    ("build_fill_index", "launch_verify|-"),
)


@dataclass(frozen=True)
class Variant:
    """A placement, and the ops that are pinned in it. key: what the questions call it; label: for a reader."""

    key: str
    label: str
    placement: Placement
    changes: tuple[str, ...] = ()

    def under(self, setting: Setting) -> Setting:
        """Return the setting with these ops pinned."""
        return replace(setting, profile=with_changes(setting.profile, self.changes)) if self.changes else setting


def _ours(name: str) -> Variant:
    return Variant(f"plain {name}", f"{name}, without syncs", BUILT_IN[name])


def _theirs(name: str) -> Variant:
    return Variant(name, f"{name}, as the code is", XLLM_ARMS[f"xllm-2280/{name}"])


_OVERLAP, _LAG = XLLM_ARMS["xllm-2280/lag-overlap"], XLLM_ARMS["xllm-2280/lag"]

#: In the order of the table.
VARIANTS: tuple[Variant, ...] = (
    *map(_ours, ("static", "this-step", "lag", "lag-overlap", "lag-overlap-index")),
    *map(_theirs, ("static", "this-step", "lag", "lag-overlap")),
    Variant("lag, fill pinned", "lag, fill's two lists pinned", _LAG, (_FILL,)),
    Variant("fill pinned", "lag-overlap, fill's two lists pinned", _OVERLAP, (_FILL,)),
    Variant("verify pinned", "lag-overlap, verify's indices pinned", _OVERLAP, (_VERIFY,)),
    Variant("both pinned", "lag-overlap, both pinned", _OVERLAP, (_FILL, _VERIFY)),
    Variant("early index", "lag-overlap, lists built early, not pinned", EARLY_INDEX),
    Variant("early index, both pinned", "lag-overlap, lists built early, all pinned", EARLY_INDEX,
            ("unsync=build_fill_index", _VERIFY)),
)  # fmt: skip

BY_KEY = {variant.key: variant for variant in VARIANTS}
