"""Where a run's prompts come from."""
