"""Rules that decide verify lengths, of xLLM, of other systems and of our own: one a file, over plain arrays."""
