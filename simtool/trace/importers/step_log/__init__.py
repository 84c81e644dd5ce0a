"""The step log: what a serving engine tells of its steps, one JSON object a line (docs/step-log.md)."""
