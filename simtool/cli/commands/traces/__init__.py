"""Commands that make, fill, read and export traces."""
