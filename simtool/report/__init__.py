"""Figures, the page and the terminal tables: the only room that imports plotly."""
