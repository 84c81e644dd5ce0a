"""Questions that take many replays: grids, searches, what-if tables. Everything here is modeled, never measured."""
