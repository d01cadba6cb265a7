"""The width of a thread's vector accesses."""

from __future__ import annotations

from xlac.codegen.core.access_analysis import Run, Survey, strided
from xlac.codegen.gpu.core.grid import power_of_two
from xlac.codegen.schedules.schedule import Misfit, Path
from xlac.ir.dims import Dim, Shape, divisor, size_hint
from xlac_sdk.kernel_ir import build
from xlac_sdk.target import Target


def access_lanes(
    target: Target, survey: Survey, inner: Run, *, alone: bool, most: int | None = None
) -> int:
    """Elements of a thread's vectors along a loop: those of its widest access, of at most `most`
    bytes, by default `Target.access_bytes`, all of them aligned.

    A loop that is `alone` may end with a partial vector.
    """
    most = target.access_bytes if most is None else most
    if not inner.axes or strided(inner, survey):
        return 1
    axis = inner.axes[-1]
    moving = [a for a in survey.accesses if a.strides[axis] == 1 or axis in a.opaque]
    widest = max((a.buffer.dtype.nbytes for a in moving), default=1)
    lanes = power_of_two(min(max(1, most // widest), size_hint(inner.extent)))
    apart = [inner.extent] if not alone else []
    steps = [s for a in moving for b, s in enumerate((*a.strides, a.offset)) if b not in inner.axes]
    while lanes > 1 and any(divisor(n) % lanes for n in apart) | any(
        build.multiple(build.lift(s)) % lanes for s in steps
    ):
        lanes //= 2
    return lanes


def check_lanes(
    lanes: int, extent: Dim, target: Target, *, alone: bool, path: Path = ("lanes",)
) -> None:
    """Raises Misfit for vectors of so many elements along a loop of this extent. Only a loop that
    is `alone` may end with a partial vector.
    """
    if lanes & (lanes - 1) or lanes > max(1, target.access_bytes):
        raise Misfit(path, f"it must be a power of two, at most {max(1, target.access_bytes)}")
    if not alone and divisor(extent) % lanes:
        raise Misfit(path, f"it must divide the {extent} elements of the innermost loop")


def widest_lanes(target: Target, nbytes: int, extent: Dim) -> int:
    """Elements of `nbytes` bytes that a thread accesses at once, along an axis that consists of
    whole vectors.
    """
    lanes = power_of_two(min(max(1, target.access_bytes // nbytes), max(1, size_hint(extent))))
    while divisor(extent) % lanes:
        lanes //= 2
    return lanes


def vectors_of(shape: Shape, lanes: int) -> list[Run]:
    """Loops over axes, the last in vectors."""
    last = len(shape) - 1
    return [Run(n // lanes if a == last else n, (a,)) for a, n in enumerate(shape)]
