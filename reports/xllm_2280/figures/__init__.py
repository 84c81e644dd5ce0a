"""Figures of the study: one file each."""
