"""Scripts that train the small pair in models/checkpoints; models/README.md holds the commands."""
