"""The live engine: the only room that imports torch."""
