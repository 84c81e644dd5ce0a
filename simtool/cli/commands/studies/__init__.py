"""Commands that take many replays."""
