"""The table from ATen operations to their builders.

A builder takes an `AtenCall`, then the operation's arguments by their names in the ATen schema:
tensors as nodes, symbolic integers as sizes, element types as DType, everything else unchanged. It
returns a node, or a tuple of nodes. The builders are in `families/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.random import Randomness
from xlac.ir.dims import Dim, Shape, Sym, Symbol
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.tensor.dynamic import DimSize
from xlac_sdk.dtypes import DType

Builder = Callable[..., Any]
Scalar = Node | Sym | int | float | bool
BUILDERS: dict[str, Builder] = {}
F = TypeVar("F", bound=Builder)


NAMESPACES = ("prims.", "xlac.", "transformers.")
"""Those of registered operations beside ATen's."""


def aten(*names: str) -> Callable[[F], F]:
    """Registers a builder under ATen names; a name without an overload means the default overload.
    Names with another namespace (`prims.`, `xlac.`, `transformers.`) are complete.
    """

    def enter(builder: F) -> F:
        for name in names:
            key = (
                name
                if name.startswith(NAMESPACES)
                else f"aten.{name}" + ("" if "." in name else ".default")
            )
            assert key not in BUILDERS, f"{key} has two builders"
            BUILDERS[key] = builder
        return builder

    return enter


@dataclass(frozen=True, slots=True)
class AtenCall:
    """The node being built: its results as PyTorch states them, and services for builders."""

    # PyTorch's example value of each result; None for one that is unused
    results: tuple[Type | None, ...]
    located: dict[Symbol, Node]  # where each symbol can be read at run time: a scalar node
    random: Randomness
    default: DType  # PyTorch's default dtype for Python floats
    used: frozenset[int] = frozenset({0})  # numbers of the results that the graph reads
    complex: bool = False  # whether results are complex: their types are those of a part
    row_major: bool = False  # whether the first argument's example lies dense in row-major order

    @property
    def type(self) -> Type:
        """The type of the first result."""
        return self.stated(0)

    @property
    def dtype(self) -> DType:
        """The element type of the first result."""
        return self.type.dtype

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return self.type.shape

    def node(self, value: Scalar, dtype: DType) -> Node:
        """A tensor, number or size as a node of an element type."""
        assert isinstance(value, Node | Sym | int | float), f"{value!r} is not a number"
        if isinstance(value, Node):
            return build.cast(value, dtype)
        if isinstance(value, Sym):
            return build.cast(self.size(value), dtype)
        if dtype.is_integer:  # an out-of-range number wraps, as in PyTorch's conversion
            value = int(value) % (1 << dtype.bits)
            value -= (1 << dtype.bits) if dtype.is_signed and value >= 1 << (dtype.bits - 1) else 0
        return build.constant(value, dtype)

    def filled(self, value: Scalar, dtype: DType | None = None) -> Node:
        """`node` in the element type of the result, broadcast to its shape."""
        return build.broadcast_to(self.node(value, dtype or self.dtype), self.shape)

    def stated(self, number: int) -> Type:
        """The type that PyTorch states for a result, by the result's number."""
        type_ = self.results[number]
        assert type_ is not None
        return type_

    def filled_as(self, number: int, value: Scalar) -> Node:
        """A constant in the type and shape of a result, by the result's number."""
        wanted = self.stated(number)
        return build.broadcast_to(self.node(value, wanted.dtype), wanted.shape)

    def size(self, size: Dim) -> Node:
        """A size as an i64 scalar, computed when the model runs."""
        if isinstance(size, int):
            return build.constant(size, DType.I64)
        total: Node | None = None
        for atoms, factor in size.parts:
            term = build.constant(factor, DType.I64)
            for atom in atoms:
                if isinstance(atom, Symbol):
                    part = self.located.get(atom)
                    if part is None:
                        raise NotExpressible(f"no input has the size {atom.name} as an extent")
                else:
                    part = build.apply1(
                        "floor_divide",
                        self.size(atom.dividend),
                        build.constant(atom.divisor, DType.I64),
                    )
                term = build.mul(term, part)
            total = term if total is None else build.add(total, term)
        assert total is not None
        return total

    def promoted(self, *values: Scalar) -> DType:
        """The element type of the operation, by PyTorch's promotion rules for tensors, scalar
        tensors and numbers.
        """
        ranked: list[DType | None] = [None, None, None]
        for value in values:
            level = 2 if not isinstance(value, Node) else 0 if value.shape else 1
            dtype = self.natural(value)
            held = ranked[level]
            ranked[level] = dtype if held is None else build.promote(held, dtype)
        promoted: DType | None = None
        for one in ranked:
            if one is not None and (promoted is None or category(one) > category(promoted)):
                promoted = one
        assert promoted is not None
        return promoted

    def natural(self, value: Scalar) -> DType:
        """The element type of a value by itself."""
        if isinstance(value, Node):
            return value.type.dtype
        return (
            DType.BOOL
            if isinstance(value, bool)
            else self.default
            if isinstance(value, float)
            else DType.I64
        )


def category(dtype: DType) -> int:
    """PyTorch's promotion category: bool, integer, float. A number of a higher category than a
    tensor changes the result's type.
    """
    return 2 if dtype.is_float else 1 if dtype.is_integer else 0


def located(inputs: Sequence[Node]) -> dict[Symbol, Node]:
    """Nodes that read the symbols of inputs' shapes at run time, as i64 scalars."""
    reads: dict[Symbol, Node] = {}
    for node in inputs:
        for axis, dim in enumerate(node.shape):
            if not isinstance(dim, Sym) or len(dim.parts) != 1:
                continue
            ((atoms, factor),) = dim.parts
            if len(atoms) == 1 and isinstance(atoms[0], Symbol) and atoms[0] not in reads:
                size = build.cast(Node.of(DimSize(axis), node), DType.I64)
                reads[atoms[0]] = (
                    size if factor == 1 else build.div(size, build.constant(factor, DType.I64))
                )
    return reads
