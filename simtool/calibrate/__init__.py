"""Trace -> Profile: per-op cost models with their residuals and held-out error."""
