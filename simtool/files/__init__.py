"""Files that outsiders give and outputs that they keep: read with limits, written whole or not at all."""
