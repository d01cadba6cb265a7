"""What this machine can do at most, measured by kernels of our own: arithmetic from registers, reading from memory.

`xlac bench` shows a model's rates as shares of these. The kernels go through the same backend and the same number of
threads, beside the model, so that a busy machine slows both.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from xlac_sdk import build
from xlac_sdk.backend import Array, Backend, Executable
from xlac_sdk.build import Builder
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel import Access, Buffer, Const, Kernel, LoopKind, Work
from xlac_sdk.primitives import Primitive
from xlac_sdk.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Target

CHUNKS = 32  # for the threads to claim
ROUNDS = 50_000  # of the arithmetic loop in a chunk: some milliseconds in all
CHAINS = 12  # independent sums: more than the latency of a fused multiply-add times how many start at once
BYTES = 256 << 20  # read from memory: several times the largest cache
RUNS = 5

P = Primitive


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The most that a machine does with some number of threads, for f32."""

    flops_per_second: float
    bytes_per_second: float

    def seconds(self, flops: int, nbytes: int) -> float:
        """The least time for so much work: what bounds it, arithmetic or memory."""
        return max(flops / self.flops_per_second, nbytes / self.bytes_per_second)


def measure(backend: Backend, target: Target) -> Ceilings:
    """The best of a few runs of each kernel. Takes about half a second."""
    arithmetic, reading = _arithmetic(target), _reading(target)
    best = [_best(backend, target, kernel, inputs) for kernel, inputs in
            ((arithmetic, {}), (reading, {"x": np.zeros(BYTES // 4, np.float32)}))]  # fmt: skip
    return Ceilings(arithmetic.work.flops / best[0], reading.work.bytes / best[1])


def _arithmetic(target: Target) -> Kernel:
    """Multiply-adds whose operands stay in registers."""
    lanes = target.lanes(DType.F32)
    y = Buffer("y", DType.F32, CHUNKS * lanes, access=Access.WRITE)
    builder = Builder()
    with builder.loop("p", 0, CHUNKS, kind=LoopKind.PARALLEL) as p:
        factor = build.splat(Const(0.999, DType.F32), lanes)
        sums = [builder.variable("s", build.splat(Const(float(k), DType.F32), lanes)) for k in range(CHAINS)]
        with builder.loop("i", 0, ROUNDS):
            for s in sums:
                builder.assign(s, build.apply(P.FMA, s, factor, factor))
        total = builder.let("t", sums[0])
        for s in sums[1:]:
            total = build.apply(P.ADD, total, s)
        builder.store(y, build.mul(p, lanes), total)
    return Kernel("arithmetic", (y,), builder.body(), work=Work(2 * CHUNKS * ROUNDS * CHAINS * lanes, 0))


def _reading(target: Target) -> Kernel:
    """A sum over more than the caches hold."""
    lanes = target.lanes(DType.F32)
    x = Buffer("x", DType.F32, BYTES // 4)
    y = Buffer("y", DType.F32, CHUNKS * lanes, access=Access.WRITE)
    each, unroll = BYTES // 4 // CHUNKS, 4
    builder = Builder()
    with builder.loop("p", 0, CHUNKS, kind=LoopKind.PARALLEL) as p:
        sums = [builder.variable("s", build.splat(Const(0.0, DType.F32), lanes)) for _ in range(unroll)]
        start = builder.let("start", build.mul(p, each))
        with builder.loop("i", 0, each, step=unroll * lanes) as i:
            for k, s in enumerate(sums):
                builder.assign(s, build.apply(P.ADD, s, build.load(x, build.add(build.add(start, i), k * lanes), lanes)))
        total = builder.let("t", sums[0])
        for s in sums[1:]:
            total = build.apply(P.ADD, total, s)
        builder.store(y, build.mul(p, lanes), total)
    return Kernel("reading", (x, y), builder.body(), work=Work(BYTES // 4, BYTES))


def _best(backend: Backend, target: Target, kernel: Kernel, inputs: dict[str, Array]) -> float:
    """Seconds of the fastest of a few runs."""
    slots = tuple(
        Slot(b.name, b.name, b.dtype, (int(b.size),), Role.INPUT if b.access is Access.READ else Role.OUTPUT)  # type: ignore[arg-type]
        for b in kernel.parameters
    )
    given = tuple(s for s in slots if s.role is Role.INPUT)
    made = tuple(s for s in slots if s.role is Role.OUTPUT)
    program = Program(kernel.name, given, made, slots, (Launch(kernel, tuple(map(Argument, slots))),), {})
    outputs = {s.name: np.empty(s.size, s.dtype.numpy) for s in made}
    with TemporaryDirectory(prefix="xlac-") as folder:
        executable: Executable = backend.load(backend.build(backend.emit(program, target), Path(folder)), program, target)
        times = []
        for _ in range(RUNS):
            start = perf_counter()
            executable.run(inputs, outputs)
            times.append(perf_counter() - start)
    return min(times)
