"""The peak rates of this machine, measured by our own kernels: arithmetic on registers, and reads
of memory.

`xlac bench` shows a model's rates as shares of these. The kernels use the same backend and the same
number of threads, and each runs before every burst of the model's calls, so that other load on the
machine slows both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from xlac_sdk.backend import Backend, Executable
from xlac_sdk.dtypes import Array, DType
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.kernel import Access, Buffer, Const, Kernel, LoopKind, Work
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Argument, Launch, Program, Role, Slot
from xlac_sdk.target import Target

CHUNKS = 32  # chunks of the parallel loop
ROUNDS = 50_000  # iterations of the arithmetic loop in a chunk: some milliseconds in all
# independent sums: more than a fused multiply-add's latency times its throughput
CHAINS = 12
BYTES = 256 << 20  # bytes read from memory: several times the largest cache

P = Primitive


@dataclass(frozen=True, slots=True)
class Probe:
    """A kernel that is limited by one resource alone: `amount` flops, or bytes, per run."""

    amount: int
    run: Callable[[], None]


@contextmanager
def probes(backend: Backend, target: Target) -> Iterator[tuple[Probe, Probe]]:
    """Probes of f32 arithmetic and of memory bandwidth; each run takes at most some tens of
    milliseconds.
    """
    with TemporaryDirectory(prefix="xlac-") as folder:
        probes_of_kernels = []
        arithmetic, reading = _arithmetic(target), _reading(target)
        for kernel, amount, inputs in (
            (arithmetic, arithmetic.work.flops, {}),
            (reading, reading.work.bytes, {"x": np.zeros(BYTES // 4, np.float32)}),
        ):
            probes_of_kernels.append(
                Probe(amount, _runner(backend, target, kernel, inputs, Path(folder) / kernel.name))
            )
            probes_of_kernels[-1].run()
        yield probes_of_kernels[0], probes_of_kernels[1]


def _arithmetic(target: Target) -> Kernel:
    """Multiply-adds on registers."""
    lanes = target.lanes(DType.F32)
    y = Buffer("y", DType.F32, CHUNKS * lanes, access=Access.WRITE)
    builder = Builder()
    with builder.loop("p", 0, CHUNKS, kind=LoopKind.PARALLEL) as p:
        factor = build.splat(Const(0.999, DType.F32), lanes)
        sums = [
            builder.variable("s", build.splat(Const(float(k), DType.F32), lanes))
            for k in range(CHAINS)
        ]
        with builder.loop("i", 0, ROUNDS):
            for s in sums:
                builder.assign(s, build.apply(P.FMA, s, factor, factor))
        total = builder.let("t", sums[0])
        for s in sums[1:]:
            total = build.apply(P.ADD, total, s)
        builder.store(y, build.mul(p, lanes), total)
    return Kernel(
        "arithmetic", (y,), builder.body(), work=Work(2 * CHUNKS * ROUNDS * CHAINS * lanes, 0)
    )


def _reading(target: Target) -> Kernel:
    """A sum over more data than the caches hold."""
    lanes = target.lanes(DType.F32)
    x = Buffer("x", DType.F32, BYTES // 4)
    y = Buffer("y", DType.F32, CHUNKS * lanes, access=Access.WRITE)
    each, unroll = BYTES // 4 // CHUNKS, 4
    builder = Builder()
    with builder.loop("p", 0, CHUNKS, kind=LoopKind.PARALLEL) as p:
        sums = [
            builder.variable("s", build.splat(Const(0.0, DType.F32), lanes)) for _ in range(unroll)
        ]
        start = builder.let("start", build.mul(p, each))
        with builder.loop("i", 0, each, step=unroll * lanes) as i:
            for k, s in enumerate(sums):
                builder.assign(
                    s,
                    build.apply(
                        P.ADD, s, build.load(x, build.add(build.add(start, i), k * lanes), lanes)
                    ),
                )
        total = builder.let("t", sums[0])
        for s in sums[1:]:
            total = build.apply(P.ADD, total, s)
        builder.store(y, build.mul(p, lanes), total)
    return Kernel("reading", (x, y), builder.body(), work=Work(BYTES // 4, BYTES))


def _runner(
    backend: Backend, target: Target, kernel: Kernel, inputs: dict[str, Array], folder: Path
) -> Callable[[], None]:
    """The kernel as a program that is ready to run."""
    slots = tuple(
        Slot(
            b.name,
            b.name,
            b.dtype,
            (int(b.size),),  # type: ignore[arg-type]
            Role.INPUT if b.access is Access.READ else Role.OUTPUT,
        )
        for b in kernel.parameters
    )
    given = tuple(s for s in slots if s.role is Role.INPUT)
    output_slots = tuple(s for s in slots if s.role is Role.OUTPUT)
    program = Program(
        kernel.name, given, output_slots, slots, (Launch(kernel, tuple(map(Argument, slots))),), {}
    )
    outputs = {s.name: np.empty(s.size, s.dtype.numpy) for s in output_slots}
    folder.mkdir()
    executable: Executable = backend.load(
        backend.build(backend.emit(program, target), folder), program, target
    )
    return lambda: executable.run(inputs, outputs)
