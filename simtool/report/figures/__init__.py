"""Figures: one file each, the info computed apart from the drawing."""
