"""The pull request's arms as its code runs them, with its syncs: where a step loses time, and what would mend it."""
