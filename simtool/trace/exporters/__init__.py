"""Writers of foreign formats."""
