"""Which arm is faster: runs gathered into arms, compared, and the verdict in words."""
