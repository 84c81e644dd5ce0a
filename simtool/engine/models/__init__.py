"""Target and drafter: their formats, layers and heads, and how a folder becomes a model."""
