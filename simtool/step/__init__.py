"""What a decode step is: ops, placements, the controller, the batch. Plain Python and arrays; no torch, no frames."""
