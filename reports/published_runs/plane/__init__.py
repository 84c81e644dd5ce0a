"""Where a decision on old confidence wins: by theory, by replay, and where known pairs lie."""
