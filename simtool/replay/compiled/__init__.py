"""Many replays at once: the simulator's rules as kernels over arrays, equal to it to the ns."""
