"""Pure functions on trace frames."""
