"""A study that is stopped ends its workers instead of waiting for what they still have to do."""

from __future__ import annotations

import time
from multiprocessing import active_children

import pytest

from simtool.study.runner import _pool


def _stopped() -> None:
    with _pool(1) as pool:
        pool.submit(time.sleep, 600)
        raise KeyboardInterrupt


def test_workers_do_not_outlive_an_interrupt() -> None:
    before = set(active_children())
    with pytest.raises(KeyboardInterrupt):
        _stopped()
    assert set(active_children()) <= before
