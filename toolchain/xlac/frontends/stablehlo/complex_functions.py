"""StableHLO's functions of complex tensors, by those of `ops/complex`."""

from __future__ import annotations

from collections.abc import Callable

from xlac.frontends.stablehlo.text.elements import part_of
from xlac.frontends.stablehlo.values import TypedTensor
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.arithmetic import CHLO_FUNCTIONS, FUNCTIONS, PAIRS
from xlac.ops.complex.parts import Parts, both, either, hypot


def parts(x: TypedTensor) -> Parts:
    """The real and the imaginary part of a complex tensor."""
    real, imaginary = x.parts
    return real, imaginary


def absolute_of(x: TypedTensor) -> TypedTensor:
    """|x|, without intermediate overflow."""
    return TypedTensor(part_of(x.element), (hypot(*parts(x)),))


def compare(direction: str, x: TypedTensor, y: TypedTensor) -> Node | None:
    """Equality of both parts, or inequality of any."""
    if direction not in ("eq", "ne") or x.element != y.element:
        return None
    real, imaginary = (
        build.compare(a, direction, b) for a, b in zip(x.parts, y.parts, strict=True)
    )
    return both(real, imaginary) if direction == "eq" else either(real, imaginary)


def _mapped(function: Callable[[Parts], Parts]) -> Callable[[TypedTensor], TypedTensor]:
    return lambda x: x.each(function(parts(x)))


def _paired(
    function: Callable[[Parts, Parts], Parts],
) -> Callable[[TypedTensor, TypedTensor], TypedTensor]:
    return lambda x, y: x.each(function(parts(x), parts(y)))


UNARY: dict[str, Callable[[TypedTensor], TypedTensor]] = {
    name: _mapped(f) for name, f in FUNCTIONS.items()
} | {"abs": absolute_of}
CHLO: dict[str, Callable[[TypedTensor], TypedTensor]] = {
    name: _mapped(f) for name, f in CHLO_FUNCTIONS.items()
}
BINARY: dict[str, Callable[[TypedTensor, TypedTensor], TypedTensor]] = {
    name: _paired(f) for name, f in PAIRS.items()
}
