"""What a launch costs on opencl beyond the driver's call: lstm_3x60, whose launches are many and
short.

    python bench/opencl/launches.py

The SDK's share is that of its loop over the plan, with calls that do nothing; the driver's that of
the same calls in a bare loop.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl

import xlac
from xlac_opencl.device import OpenCLDevice
from xlac_sdk.host import plan

ROOT = Path(__file__).parents[2]
ROUNDS = 200


def seconds(call: Any) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    """Prints the calls of the plan, and microseconds of each."""
    devices, plans = list[OpenCLDevice](), list[Any]()
    made, planned = OpenCLDevice.__init__, plan.LaunchPlanner.program

    def noted(self: OpenCLDevice, *given: Any) -> None:
        made(self, *given)
        devices.append(self)

    def kept(self: plan.LaunchPlanner, *given: Any) -> plan.LaunchPlan:
        plans.append(planned(self, *given))
        return plans[-1]

    OpenCLDevice.__init__, plan.LaunchPlanner.program = noted, kept  # type: ignore[method-assign]
    model = xlac.compile(str(ROOT / "specs" / "lstm_3x60.yaml"), "opencl", arch="cpu")
    given = np.random.default_rng(0).random((1, 32, 60), np.float32)
    model(given)
    (device,), calls = devices[-1:], [*plans[-1].before, *plans[-1].after]
    launches = sum(call.func is pyopencl.enqueue_nd_range_kernel for call in calls)

    def bare() -> None:
        for call in calls:
            call()
        device.queue.finish()

    def ours() -> None:
        plan.run(calls)
        device.queue.finish()

    nothing = [lambda: None] * 10_000
    times = {
        "the model's call": [seconds(lambda: model(given)) for _ in range(ROUNDS)],
        "the plan": [seconds(ours) for _ in range(ROUNDS)],
        "the same driver calls in a bare loop": [seconds(bare) for _ in range(ROUNDS)],
    }
    print(f"{launches} launches, {len(calls) - launches} copies")
    for name, each in times.items():
        print(
            f"{name}: {min(each) * 1e6:.0f} µs at least, {statistics.median(each) * 1e6:.0f} usual"
        )
    share = [seconds(lambda: plan.run(nothing)) / len(nothing) for _ in range(9)]
    print(f"the SDK's share of a launch: {statistics.median(share) * 1e6:.2f} µs")


if __name__ == "__main__":
    main()
