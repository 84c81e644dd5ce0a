"""One captured graph: attention is captured with some lengths, bound to others, and replayed with those."""

from __future__ import annotations

import torch

from simtool.engine.first_run.attention import HEADS, TOLERANCE, Problem
from simtool.engine.first_run.check import DeviceCheck
from simtool.engine.runner.attention import Kernels, PlainKernels
from simtool.engine.runner.graphs import DeviceCapture

_CAPTURED, _BOUND = (300, 129, 200), (40, 128, 263)


def check_graph(kernels: Kernels, name: str, device: torch.device, dtype: torch.dtype) -> DeviceCheck:
    """Replay with the lengths of the capture, then with others; where graphs rebind, one update before each replay."""
    captured, bound = (Problem(HEADS[0], 1, lengths) for lengths in (_CAPTURED, _BOUND))
    cache, rows, (q, k, v) = captured.on(device, dtype)
    capture = DeviceCapture(device)
    with torch.inference_mode():
        graph, (out,) = capture(lambda: (kernels.sequences(cache, rows, max(_CAPTURED))(0, q, k, v),))
        differences = {}
        for label, problem in (("as captured", captured), ("rebound", bound)):
            other, fresh, (new_q, new_k, new_v) = problem.on(device, dtype)
            for old, new in zip((*cache.pages(0), q, k, v), (*other.pages(0), new_q, new_k, new_v), strict=True):
                old[: len(new)].copy_(new)
            for old, new in ((rows.mapping, fresh.mapping), (rows.lengths, fresh.lengths)):
                old.copy_(new)
            rows.tables.copy_(fresh.tables)
            torch.accelerator.synchronize()
            if capture.rebinds:
                graph.rebind(list(problem.lengths))
            graph.replay()
            torch.accelerator.synchronize()
            expected = problem.solve(PlainKernels(), torch.device("cpu"), torch.float64)
            differences[label] = float((out.to("cpu").double() - expected).abs().max())
    good = all(difference <= TOLERANCE for difference in differences.values())
    said = ", ".join(f"{label}: off by {difference:.2g}" for label, difference in differences.items())
    return DeviceCheck(f"graph, {name}", "ok" if good else "wrong", said, {"largest_difference": differences})
