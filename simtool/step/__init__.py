"""What a decode step is: ops, placements, the controller, the batch. Plain Python; no torch, no frames."""
