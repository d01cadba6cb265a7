"""Convolution gradients of the networks, layer by layer, beside the measured peak and PyTorch.

    python bench/training/conv_gradients.py [ROW…] [--what data,weight] [--turns 7] [--out FILE]

A ROW is one of steps.py. Every distinct convolution of its network is timed alone, on one thread:
its gradient for the data and that for the weights. Maps have their channels last, as networks are
compiled; weights are [out, in / groups, height, width]. In each turn come the peak, a loop of
independent multiply-adds (peers/machine/fma.h), before and after our kernels, which have whatever
copies they need; and PyTorch with channels first and channels last, of which the quicker counts.
`of peak` is the median over turns of our rate over the peak's; above 1 a convolution needs fewer
products than its definition (Winograd). All is processor time of the thread, as other work on a
shared machine weighs less on it. `share` is the row's part of all gradients of its network.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

HEAD = """| convolution | count | us | GF/s | of peak | x PyTorch | share |
|---|---|---|---|---|---|---|"""
LOOP = """
#include <time.h>
#include "fma.h"
double peak(long iterations) {
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    volatile double work = fma_flops(iterations);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return work / ((b.tv_sec - a.tv_sec) + 1e-9 * (b.tv_nsec - a.tv_nsec));
}
"""


@dataclass(frozen=True)
class Layer:
    """A convolution: its data [batch, channels, size, size], its square kernel, and how it goes."""

    batch: int
    channels: int
    filters: int
    size: int
    kernel: int
    stride: int
    pad: int
    groups: int
    dilation: int

    @property
    def out(self) -> int:
        """The height and width of the result."""
        return (self.size + 2 * self.pad - (self.kernel - 1) * self.dilation - 1) // self.stride + 1

    @property
    def work(self) -> int:
        """Floating-point operations by the definition, alike for the result and each gradient."""
        each = self.channels // self.groups * self.kernel**2
        return 2 * self.batch * self.out**2 * self.filters * each

    @property
    def name(self) -> str:
        """What a row is called."""
        said = f"{self.kernel}x{self.kernel} {self.channels} to {self.filters}, {self.size}"
        said += f", {self.stride} apart" if self.stride > 1 else ""
        said += f", {self.groups} groups" if self.groups > 1 else ""
        said += f", dilated by {self.dilation}" if self.dilation > 1 else ""
        return said + f", batch {self.batch}"


EXTRA = (  # no network here has these
    Layer(8, 128, 128, 28, 3, 1, 1, 32, 1),
    Layer(8, 128, 128, 28, 3, 2, 1, 32, 1),
    Layer(8, 64, 64, 28, 3, 1, 2, 1, 2),
)


def layers(row: str) -> Counter[Layer]:
    """The distinct convolutions of a row's network, each with how often it is there."""
    from step_rows import ROWS

    from xlac.spec.load import load_training
    from xlac.training.program import graphs_of

    if row == "extra":
        return Counter(EXTRA)
    asked = ROWS[row]
    file = Path(__file__).parent / "models" / f"{asked.network}.yaml"
    layers: Counter[Layer] = Counter()
    for node in graphs_of(*load_training(file, params=asked.params)).run.graph.nodes():
        op: Any = node.op
        if type(op).__name__ == "Conv2d":
            (batch, channels, size, _), (filters, _, kernel, _) = (
                tuple(map(int, one.shape)) for one in node.inputs[:2]
            )
            how = (op.stride, op.pad, op.groups, op.dilation)
            layers[Layer(batch, channels, filters, size, kernel, *how)] += 1
    return layers


def row_of(layer: Layer, wrt: str) -> Any:
    """The layer over maps with their channels last, as a row of kernels.py."""
    from row import Row

    from xlac.ir.graph import Node
    from xlac.ops import build

    def ours(x: Node, w: Node) -> Node:
        result = build.apply(
            "conv",
            build.transpose(x, (0, 3, 1, 2)),
            w,
            strides=(layer.stride,) * 2,
            low=(layer.pad,) * 2,
            high=(layer.pad,) * 2,
            lhs_dilation=(1, 1),
            rhs_dilation=(layer.dilation,) * 2,
            feature_groups=layer.groups,
        )
        return build.transpose(result, (0, 2, 3, 1))

    shapes = {
        "x": (layer.batch, layer.size, layer.size, layer.channels),
        "w": (layer.filters, layer.channels // layer.groups, layer.kernel, layer.kernel),
    }
    return Row(layer.name, "conv", shapes, (wrt,), ours, ours, ours, layer.work)


def torch_calls(
    layer: Layer, wrt: str, arrays: dict[str, Any], ct: Any
) -> Iterator[Callable[[], Any]]:
    """PyTorch's gradient, with channels first and with channels last."""
    import torch

    mask = [wrt == "x", wrt == "w", False]
    for form in (torch.contiguous_format, torch.channels_last):
        x, w, d = (
            torch.from_numpy(one.copy()).contiguous(memory_format=form)
            for one in (arrays["x"].transpose(0, 3, 1, 2), arrays["w"], ct.transpose(0, 3, 1, 2))
        )

        def call(d: Any = d, x: Any = x, w: Any = w) -> Any:
            how = ([layer.stride] * 2, [layer.pad] * 2, [layer.dilation] * 2, False, [0, 0])
            gradients = torch.ops.aten.convolution_backward(d, x, w, None, *how, layer.groups, mask)
            return gradients[mask.index(True)]

        yield call


def peak_loop(folder: str) -> Callable[[], float]:
    """The peak of f32 arithmetic at this moment, in operations a second; the best of three."""
    source, library = Path(folder, "peak.c"), Path(folder, "peak.so")
    source.write_text(LOOP)
    beside = Path(__file__).parents[1] / "peers" / "machine"
    flags = ["-O2", "-march=native", "-shared", "-fPIC", f"-I{beside}"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library)], check=True)
    call = ctypes.CDLL(str(library)).peak
    call.restype, call.argtypes = ctypes.c_double, (ctypes.c_long,)
    return lambda: max(float(call(20_000)) for _ in range(3))


def quickest(call: Callable[[], Any], seconds: float) -> float:
    """Processor seconds of the quickest call of a burst of at least three."""
    best, stop, count = float("inf"), time.perf_counter() + seconds, 0
    while count < 3 or time.perf_counter() < stop:
        begin = time.thread_time()
        call()
        best = min(best, time.thread_time() - begin)
        count += 1
    return best


def timed(layer: Layer, wrt: str, turns: int, peak: Callable[[], float]) -> dict[str, Any]:
    """The figures of a gradient, after its result was compared."""
    import numpy as np
    from kernels import compared

    import xlac

    row = row_of(layer, wrt)
    arrays = row.arrays()
    shape = (layer.batch, layer.out, layer.out, layer.filters)
    ct = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    program = xlac.compile(row.backward(), threads=1)
    given = [(arrays | {"ct": ct})[name] for name in program.inputs]
    theirs = list(torch_calls(layer, wrt, arrays, ct))
    wanted = theirs[0]().numpy()
    wanted = wanted.transpose(0, 2, 3, 1) if wrt == "x" else wanted
    compared(layer.name, [np.asarray(program(*given))], [wanted])
    samples = []
    for _ in range(turns):
        before = peak()
        ours = quickest(lambda: program(*given), 0.015)
        best = (before + peak()) / 2
        samples.append((best, ours, min(quickest(call, 0.015) for call in theirs)))
    return {
        "seconds": min(ours for _, ours, _ in samples),
        "of_peak": median(layer.work / ours / best for best, ours, _ in samples),
        "torch": median(ours / other for _, ours, other in samples),
    }


def main() -> None:
    """Prints a row for each gradient of a convolution: share of the peak, PyTorch's time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    networks = ["resnet50", "resnet18_cifar", "mobilenet_v2", "unet", "extra"]
    parser.add_argument("rows", nargs="*", default=networks, metavar="ROW")
    parser.add_argument("--what", type=lambda text: text.split(","), default=["data", "weight"])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import torch

    torch.set_num_threads(1)
    records = []
    with tempfile.TemporaryDirectory() as folder:
        peak = peak_loop(folder)
        for network in asked.rows:
            first = len(records)
            for layer, count in layers(network).items():
                for what in asked.what:
                    timing = timed(layer, {"data": "x", "weight": "w"}[what], asked.turns, peak)
                    name = f"{layer.name}: {what}"
                    records.append({"network": network, "name": name, "count": count, **timing})
                    records[-1]["work"] = layer.work
            tell(network, records[first:])
    if asked.out:
        asked.out.write_text(json.dumps(records, indent=1))


def tell(network: str, records: list[dict[str, Any]]) -> None:
    """Prints the table of a network, the greatest shares first."""
    whole = sum(one["seconds"] * one["count"] for one in records)
    print(f"\n{network}: {whole * 1e3:.1f} ms\n\n{HEAD}")
    for one in sorted(records, key=lambda one: -one["seconds"] * one["count"]):
        cells = [one["name"], one["count"], f"{one['seconds'] * 1e6:.0f}"]
        cells += [f"{one['work'] / one['seconds'] / 1e9:.0f}", f"{one['of_peak']:.2f}"]
        cells += [f"{one['torch']:.2f}", f"{one['seconds'] * one['count'] / whole:.1%}"]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
