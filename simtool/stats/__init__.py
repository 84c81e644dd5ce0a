"""How sure a figure is: intervals, autocorrelation, repetitions needed. The only room that makes an interval."""
