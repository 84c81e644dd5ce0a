"""What every command prints under --json: one typed, versioned record a command, and the page that tells of them."""
