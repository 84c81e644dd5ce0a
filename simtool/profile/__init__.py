"""What a cost is: cost models, the profile that holds them, and changes to it."""
