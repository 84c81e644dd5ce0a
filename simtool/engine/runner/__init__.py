"""Forwards over cached keys and values, sampling, and captured graphs."""
