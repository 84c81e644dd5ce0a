"""Readers of foreign traces: profiler output and request logs."""
