"""simtool: performance analysis of speculative decoding.

record -> Trace -> calibrate -> Profile -> replay(Trace, Profile, Scenario) -> Trace -> analysis -> Report
"""

__version__ = "0.1.0"
