"""The placements that the answers compare: the built-ins, and one made up to take lag-overlap's gain apart."""

from __future__ import annotations

from simtool import PLACEMENTS, Placement
from simtool.step.placement import parse_placement

#: lag without the dense batch that a prune throws away: built where lag decides, not in the overlap window.
LAG_IN_PLACE = parse_placement(
    "lag-in-place",
    "schedule read_states build_query launch_draft launch_sample decide build_varlen|build_dense "
    "fill_varlen|fill_dense launch_target launch_verify read_tokens store_confidence write_context finish",
    1,
)

ARMS: tuple[Placement, ...] = (*PLACEMENTS.values(), LAG_IN_PLACE)
