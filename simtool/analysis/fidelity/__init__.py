"""How good a replay is, and where it first parts from the live run."""
