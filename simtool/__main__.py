"""`python -m simtool`, and where the console command enters: Ctrl-C has its line even before anything is imported."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT


def main() -> None:
    """Run the command line. Until it is there, which takes a moment, Ctrl-C just ends the process."""
    signal.signal(signal.SIGINT, _end)
    _open_closed_streams()
    from simtool.cli.main import main as run  # noqa: PLC0415  heavy, and to be interrupted without a traceback

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:  # before the command had begun, or again while it told of the first
        _tell()
        raise SystemExit(_INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done and told; Python's own end is no place for it


def _open_closed_streams() -> None:
    """What the caller closed leads nowhere: Python has nothing to print to there, and the next file would take it."""
    streams = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
    for number, (name, mode) in enumerate(streams):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _end(_number: int, _frame: FrameType | None) -> None:
    _tell()
    os._exit(_INTERRUPTED)


def _tell() -> None:
    os.write(2, b"simtool: stopped by Ctrl-C\n")


if __name__ == "__main__":
    main()
