"""How close replays come to live runs: the settings, their runs, costs across settings, the pages."""
