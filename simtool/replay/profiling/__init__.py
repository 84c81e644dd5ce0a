"""What other systems find out by dummy steps at their start, found out by replaying such steps."""
