"""What is drafted at each anchor: the outcomes of a trace as arrays, with stand-ins for those that it lacks."""
