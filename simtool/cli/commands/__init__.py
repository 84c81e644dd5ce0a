"""One command a file, in rooms of what they are about."""
