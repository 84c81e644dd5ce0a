"""Trace-event JSON, read in pieces: bytes, events, columns."""
