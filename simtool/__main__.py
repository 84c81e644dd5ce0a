"""`python -m simtool`, the same as `simtool`."""

from simtool.cli.main import main

main()
