"""The chain of work that bounds each step's end, and the slack of everything else."""
