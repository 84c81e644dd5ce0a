"""Commands from a trace to an answer: calibrate, replay, validate, compare, report."""
