"""What a change could be worth at most, where nothing tells what it would be worth."""
