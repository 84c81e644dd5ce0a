"""Outcomes drawn from a stated process, for questions that no recording answers; labelled synthetic everywhere."""
