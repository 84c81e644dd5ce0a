"""The drafter's outcome at every anchor, and the reference that the paged engine is held against."""
