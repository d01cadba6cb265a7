"""Divides the parallel loop of a launch into chunks, which the threads of a pool claim."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_cpu.duration import nanoseconds
from xlac_sdk.dims import Sym
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import bounds
from xlac_sdk.kernel_ir.kernel import Apply, Const, Expr, For, Kernel, Var
from xlac_sdk.kernel_ir.primitives import Primitive
from xlac_sdk.programs.program import Launch
from xlac_sdk.source import Diagnostic, UnsupportedError

P = Primitive
WORTH = 5_000  # nanoseconds of work below which a second thread does not pay
# the same of a program: to wake a thread takes as long as several kernels, for which it is then
# awake
LONG = 25_000
# chunks per thread, for short and for long work: more chunks balance the load
LEAST, MOST = 4, 64


@dataclass(frozen=True, slots=True)
class LaunchDivision:
    """Chunks of `size` counter values from `start` to `stop`."""

    start: int
    stop: int
    size: int
    chunks: int


def is_open(launch: Launch) -> bool:
    """Whether the range of the parallel loop depends on symbolic sizes."""
    return any(isinstance(size, Sym) for size in launch.sizes)


def most_chunks(kernel: Kernel, threads: int, program: float) -> int:
    """The approximate number of chunks of a launch, if its loop has as many iterations; 1 if a
    second thread does not pay, in a program of so many nanoseconds.
    """
    work = nanoseconds(kernel)
    if threads < 2 or 0 < work < WORTH or 0 < program < LONG:
        return 1
    return threads * min(MOST, max(LEAST, int(work / WORTH / threads)))


def split(launch: Launch, loop: For, threads: int, program: float) -> LaunchDivision:
    """The chunks of a parallel kernel with known sizes, one chunk if parallel execution does not
    pay. `loop` is the parallel loop of the function that was written for the kernel, which need
    not be that of the kernel, and `program` the nanoseconds of all steps.
    """
    kernel = launch.kernel
    sizes = {
        v.name: n for v, n in zip(kernel.sizes, launch.sizes, strict=True) if isinstance(n, int)
    }
    start, stop = known(loop.start, sizes), known(loop.stop, sizes)
    trips = max(0, -(-(stop - start) // loop.step))
    most = min(trips // max(1, loop.grain), most_chunks(kernel, threads, program))
    if most < 2:
        return LaunchDivision(start, stop, max(1, stop - start), 1)
    most -= most % threads if most > threads else 0  # as many for each thread

    def longest(each: int) -> int:
        """Iterations of the thread that has the most chunks."""
        return each * -(-trips // (each * threads))

    each = min(-(-trips // most), trips // most, key=longest)
    return LaunchDivision(start, stop, each * loop.step, -(-trips // each))


def known(node: Expr, sizes: dict[str, int]) -> int:
    """The value of a scalar index over the kernel's sizes."""
    match node:
        case Const(value=value):
            return int(value)
        case Var(name=name) if name in sizes:
            return sizes[name]
        case Apply(primitive=primitive, operands=(a, b)):
            i, k = known(a, sizes), known(b, sizes)
            match primitive:
                case P.ADD:
                    return i + k
                case P.SUB:
                    return i - k
                case P.MUL:
                    return i * k
                case P.DIV:
                    return abs(i) // abs(k) * (1 if (i < 0) == (k < 0) else -1)
                case P.MIN:
                    return min(i, k)
                case P.MAX:
                    return max(i, k)
    low, high = bounds(node)
    if low is not None and low == high:
        return low
    raise UnsupportedError(
        Diagnostic("XL5105", "the range of a parallel loop is not known before it runs")
    )


@dataclass(frozen=True, slots=True)
class OpenSplit:
    """The same for a launch with symbolic sizes: expressions over the kernel's sizes, computed
    before the launch.

    `most` is the approximate number of chunks; below two, a second thread does not pay.
    """

    start: Expr
    stop: Expr
    most: Expr
    size: Expr
    chunks: Expr


def open_split(loop: For, kernel: Kernel, threads: int, program: float) -> OpenSplit:
    """The chunks of a parallel loop whose range depends on symbolic sizes."""
    turns = build.apply(P.MAX, build.sub(loop.stop, loop.start), build.index(0))
    trips = (
        turns
        if loop.step == 1
        else build.apply(P.DIV, build.add(turns, loop.step - 1), build.index(loop.step))
    )
    pieces = build.apply(P.DIV, trips, build.index(max(1, loop.grain)))
    most = build.apply(P.MIN, pieces, build.index(most_chunks(kernel, threads, program)))
    each = build.apply(
        P.MAX, build.apply(P.DIV, trips, build.apply(P.MAX, most, build.index(1))), build.index(1)
    )
    return OpenSplit(loop.start, loop.stop, most, build.mul(each, loop.step), _ceil(trips, each))


def _ceil(a: Expr, b: Expr) -> Expr:
    return build.apply(P.DIV, build.add(a, build.sub(b, 1)), b)
