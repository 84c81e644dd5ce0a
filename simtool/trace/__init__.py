"""The trace bundle: the file in which recordings and replays meet."""
