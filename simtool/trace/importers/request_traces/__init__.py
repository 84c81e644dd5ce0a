"""The formats of public request traces, and the rows that they hold."""
