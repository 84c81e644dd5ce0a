"""The SimPy world: a trace, a profile and a scenario become another trace."""
