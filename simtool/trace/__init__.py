"""The trace: the file in which recordings and replays meet."""
