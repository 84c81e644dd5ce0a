"""The first run on a new host: what its device does with what the engine asks of it, in one report to send back."""
