"""A foreign timeline -> the tables of a trace, with every choice told."""
