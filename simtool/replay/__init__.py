"""The simulator, on a SimPy clock: a trace, a profile and a scenario become another trace."""
