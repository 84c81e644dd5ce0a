"""xLLM pull request 2280: gains, noise, load, and what its overlap could have hidden."""
