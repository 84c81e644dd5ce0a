"""How much of the shorter of host and device work does a device hide?

    python benchmarks/overlap_efficiency.py --target FOLDER --draft FOLDER

A pair is two steps: in one the host waits for the target forward and then builds lists, in the other it builds while
the forward runs. gain = serial - overlapped; efficiency = mean gain / mean min(host, device), the latter two
measured in the serial step. Step times drift between modes, so the two steps of a pair follow each other in
alternating order, and the interval is Student's t over pairs. A third busy process takes
every gain away: the share of the machine that others used stands beside each figure.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simtool.engine.devices.open import DEVICE_NAMES, open_device
from simtool.engine.devices.protocol import Device
from simtool.engine.runner.spec import RunnerSpec
from simtool.engine.serving.host_load import MachineMeter
from simtool.stats.student import ratio_interval
from simtool.units import NS_PER_MS

WARM_UP_PAIRS = 10
BLOCKS_FOR_DRAFTS = 8  # of 16 tokens: room for any block that is drafted in practice
Samples = NDArray[np.float64]


@dataclass(frozen=True)
class Pairs:
    """Per pair, in ns: the serial step and its host and device parts, and the overlapped step."""

    host_ns: Samples
    device_ns: Samples
    serial_ns: Samples
    overlapped_ns: Samples


@dataclass(frozen=True)
class Efficiency:
    """One figure with its interval, medians of what it was made of, and the share of the machine others used."""

    batch: int
    host_ms: float
    device_ms: float
    serial_ms: float
    overlapped_ms: float
    efficiency: float
    low: float
    high: float
    others_share: float | None


def measure(device: Device, work: str, host_work: Callable[[], object], pairs: int) -> Pairs:
    """Run pairs of steps of `work`, whose inputs are on the device already, beside `host_work`."""
    rows = [_pair(device, work, host_work, serial_first=i % 2 == 0) for i in range(pairs + WARM_UP_PAIRS)]
    return Pairs(*np.array(rows[WARM_UP_PAIRS:], dtype=np.float64).T)


def efficiency(pairs: Pairs) -> tuple[float, float, float]:
    """Return mean gain / mean min(host, device) and the ends of its 95 % interval."""
    gain = pairs.serial_ns - pairs.overlapped_ns
    shorter = np.minimum(pairs.host_ns, pairs.device_ns)

    found = ratio_interval(gain, shorter)
    low, high = found.bounds or (found.mean, found.mean)
    return found.mean, low, high


def _pair(device: Device, work: str, host_work: Callable[[], object], *, serial_first: bool) -> list[int]:
    if serial_first:
        serial = _serial(device, work, host_work)
        return [*serial, _overlapped(device, work, host_work)]
    overlapped = _overlapped(device, work, host_work)
    return [*_serial(device, work, host_work), overlapped]


def _serial(device: Device, work: str, host_work: Callable[[], object]) -> tuple[int, int, int]:
    start_ns = device.now_ns()
    device.wait(device.launch(work, 0))
    middle_ns = device.now_ns()
    host_work()
    end_ns = device.now_ns()
    return end_ns - middle_ns, middle_ns - start_ns, end_ns - start_ns


def _overlapped(device: Device, work: str, host_work: Callable[[], object]) -> int:
    start_ns = device.now_ns()
    event = device.launch(work, 0)
    host_work()
    device.wait(event)
    return device.now_ns() - start_ns


def validate_lists(batch: int, width: int, context: int, block_size: int) -> dict[str, list[int] | list[list[int]]]:
    """Build the validate batch in plain Python, as a step's host does: `batch` sequences of `context` tokens."""
    blocks = -(-(context + width) // block_size)
    positions = [position for _ in range(batch) for position in range(context, context + width)]
    tables = [list(range(i * blocks, (i + 1) * blocks)) for i in range(batch) for _ in range(width)]
    return {
        "validate_ids": [0] * len(positions),
        "validate_positions": positions,
        "validate_slot_mapping": [
            table[position // block_size] * block_size + position % block_size
            for table, position in zip(tables, positions, strict=True)
        ],
        "validate_kv_lens": [position + 1 for position in positions],
        "validate_block_tables": tables,
        "validate_cu_rows": list(range(0, len(positions) + 1, width)),
    }


def measure_batch(device: Device, spec: RunnerSpec, batch: int, args: argparse.Namespace) -> Efficiency:
    """Upload one validate batch and measure pairs of its forward."""

    def build() -> dict[str, list[int] | list[list[int]]]:
        return validate_lists(batch, device.info.drafts + 1, args.context, spec.block_size)

    def host_work() -> None:
        for _ in range(args.builds):
            build()

    device.wait(device.upload("build_dense", 0, build()))
    meter = MachineMeter(device.pids)
    pairs = measure(device, "target", host_work, args.pairs)
    use = meter.stop()
    device.timings()
    host, work, serial, overlapped = (
        float(np.median(samples)) / NS_PER_MS
        for samples in (pairs.host_ns, pairs.device_ns, pairs.serial_ns, pairs.overlapped_ns)
    )
    value, low, high = efficiency(pairs)
    return Efficiency(
        batch=batch,
        host_ms=host,
        device_ms=work,
        serial_ms=serial,
        overlapped_ms=overlapped,
        efficiency=value,
        low=low,
        high=high,
        others_share=use.others if use else None,
    )


def run(args: argparse.Namespace) -> list[Efficiency]:
    """Measure each batch size on one device."""
    most = max(args.batch)
    blocks_each = args.context // RunnerSpec.block_size + BLOCKS_FOR_DRAFTS
    spec = RunnerSpec(args.target, args.draft, most, most * blocks_each)
    with closing(open_device(args.device, spec)) as device:
        return [measure_batch(device, spec, batch, args) for batch in args.batch]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--device", choices=DEVICE_NAMES, default="cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--context", type=int, default=200, help="tokens before each anchor")
    parser.add_argument("--builds", type=int, default=4, help="list builds per step: scales the host's work")
    parser.add_argument("--json", action="store_true", help="print JSON instead of lines")
    args = parser.parse_args(arguments)
    found = run(args)
    if args.json:
        json.dump([asdict(row) for row in found], sys.stdout, indent=2)
        print()
        return 0
    for row in found:
        others = "unknown" if row.others_share is None else f"{row.others_share:.0%}"
        print(
            f"batch {row.batch:3d}: host {row.host_ms:.2f} ms, device {row.device_ms:.2f} ms, "
            f"serial {row.serial_ms:.2f} ms, overlapped {row.overlapped_ms:.2f} ms: "
            f"efficiency {row.efficiency:.2f} ({row.low:.2f} to {row.high:.2f}); others used {others} of the machine"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
