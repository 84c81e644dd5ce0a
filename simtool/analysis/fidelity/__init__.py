"""How good a replay is, and where it first diverges from the live run."""
