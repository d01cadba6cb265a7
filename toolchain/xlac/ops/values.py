"""Values as nodes: constants, promotion of element types, broadcasting of shapes.

Element types promote so: equal types stay; a bool joins any other type; a float beats an integer;
two floats give the wider (f16 with bf16 gives f32); two integers give the wider, and signed with
unsigned the narrowest signed type that holds both (there is none for u64 with a signed type: an
error). A Python number is weak: it takes the type of the tensor it meets, except that a float
meeting integers or bool gives f32, and an integer meeting bool gives i32. Shapes broadcast as in
NumPy; symbolic extents must be equal or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node, pick
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.ops.checks import dims
from xlac.ops.scalar import convert
from xlac.ops.tensor import leaf, view
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin


class Weak:
    """A number given by the caller of a program, whose type is as weak as that of a literal.

    `kind` is int or float; `make` gives the node that has the number in an element type.
    """

    __slots__ = ("_made", "_make", "kind")

    def __init__(self, kind: type[int | float], make: Callable[[DType], Node]) -> None:
        self.kind, self._make = kind, make
        self._made: dict[DType, Node] = {}

    def node(self, dtype: DType | None = None) -> Node:
        """The number in an element type; by default that of a literal that meets no tensor."""
        wanted = weak_dtype(self) if dtype is None else dtype
        if wanted not in self._made:
            self._made[wanted] = self._make(wanted)
        return self._made[wanted]


Value = Node | int | float | bool | Array | Weak


def param(
    name: str, dtype: DType, shape: Shape = (), kind: str = "input", origin: Origin | None = None
) -> Node:
    """A parameter: `kind` is input, weight or state."""
    return Node.of(leaf.Param(name, Type(dtype, shape), kind), origin=origin)


def constant(value: Any, dtype: DType | None = None) -> Node:
    """An array or number known at compile time; by default Python floats, also in lists, are f32
    and integers i32.
    """
    if dtype is None and isinstance(value, np.ndarray | np.generic):
        dtype = DType.of(value.dtype)
    elif dtype is None:
        kind = np.asarray(value).dtype.kind
        dtype = DType.BOOL if kind == "b" else DType.I32 if kind in "iu" else DType.F32
    with np.errstate(all="ignore"):
        array = _array(value, dtype).astype(dtype.compute.numpy).astype(dtype.numpy)
    array.flags.writeable = False
    return Node.of(leaf.Const(array))


def _array(value: Any, dtype: DType) -> Array:
    """A number as a NumPy array. Raises ShapeError for an integer that does not fit the type, or 64
    bits.
    """
    array = np.asarray(value)
    if array.dtype.kind == "O" and not dtype.is_integer:
        array = array.astype(np.float64)
    if array.dtype.kind == "O" or (
        dtype.is_integer
        and type(value) is int
        and not -(1 << dtype.bits - 1) <= value < 1 << dtype.bits
    ):
        raise ShapeError(f"{_short(value)} does not fit {dtype}")
    return array


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"a number of {len(text)} digits"


def full(value: float | bool, shape: Shape, dtype: DType) -> Node:
    """A tensor of one number."""
    return spread(constant(value, dtype), shape, ())


def like(value: float | bool, x: Node) -> Node:
    """A number with the type of `x`."""
    return full(value, x.shape, x.type.dtype)


def weak_dtype(value: float | bool | Weak) -> DType:
    """The type of a Python number that meets no tensor."""
    kind = value.kind if isinstance(value, Weak) else type(value)
    return DType.BOOL if kind is bool else DType.I32 if issubclass(kind, int) else DType.F32


def promote(a: DType, b: DType) -> DType:
    """The type that holds both (see the module). Raises ShapeError for i64 with u64."""
    if a is b or b is DType.BOOL:
        return a
    if a is DType.BOOL:
        return b
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float:
        return DType.F32 if a.bits == b.bits else a if a.bits > b.bits else b
    if a.is_signed == b.is_signed:
        return a if a.bits > b.bits else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if signed.bits > unsigned.bits:
        return signed
    if unsigned.bits == 64:
        raise ShapeError(f"no integer type holds both {a} and {b}", hint="cast one of them")
    return DType(f"i{unsigned.bits * 2}")


def promoted(values: Sequence[Value]) -> DType:
    """The common element type of values."""
    dtype_of_all: DType | None = None
    for value in values:
        if not isinstance(value, bool | int | float | Weak):
            dtype = value.type.dtype if isinstance(value, Node) else DType.of(value.dtype)
            dtype_of_all = dtype if dtype_of_all is None else promote(dtype_of_all, dtype)
    weak = [weak_dtype(v) for v in values if isinstance(v, bool | int | float | Weak)]
    for dtype in weak:
        if (
            dtype_of_all is None
            or dtype_of_all is DType.BOOL
            or (dtype is DType.F32 and not dtype_of_all.is_float)
        ):
            dtype_of_all = dtype if dtype_of_all is None else promote(dtype_of_all, dtype)
    assert dtype_of_all is not None
    return dtype_of_all


def as_node(value: Value, dtype: DType | None = None) -> Node:
    """A value as a node of an element type. Raises ShapeError for an integer that does not fit."""
    if isinstance(value, Node):
        return value if dtype is None else cast(value, dtype)
    if isinstance(value, Weak):
        return value.node(dtype)
    if dtype is not None and dtype.is_integer and isinstance(value, int):
        info = np.iinfo(dtype.numpy)
        if not info.min <= value <= info.max:
            raise ShapeError(f"{value} does not fit {dtype}")
    return constant(value, dtype)


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """The shape to which all shapes broadcast, as in NumPy."""
    result: list[Dim] = [1] * max((len(s) for s in shapes), default=0)
    for shape in shapes:
        for axis, size in enumerate(shape, len(result) - len(shape)):
            if size == 1 or size == result[axis]:
                continue
            if result[axis] != 1:
                raise ShapeError(
                    f"shapes {' and '.join(dims(s) for s in shapes)} do not broadcast: "
                    f"{result[axis]} meets {size}"
                )
            result[axis] = size
    return tuple(result)


def unify(*values: Value) -> tuple[Node, ...]:
    """Values as nodes of one shape and element type."""
    dtype = promoted(values)
    nodes = [as_node(v, dtype) for v in values]
    shape = broadcast_shapes([n.shape for n in nodes])
    return tuple(broadcast_to(n, shape) for n in nodes)


def cast(x: Node, dtype: DType) -> Node:
    """x in another element type; x itself where it has that already."""
    return x if x.type.dtype is dtype else Node.of(convert.Cast(dtype), x)


def spread(x: Node, shape: Shape, axes: Sequence[int]) -> Node:
    """`x` broadcast to `shape`, with its axes at `axes`."""
    return x if x.shape == shape else Node.of(view.Broadcast(tuple(shape), tuple(axes)), x)


def broadcast_to(x: Value, shape: Sequence[Dim]) -> Node:
    """`x` broadcast to a shape, axes aligned from the last, as in NumPy."""
    node, wanted = as_node(x), tuple(shape)
    if len(node.shape) > len(wanted):
        raise ShapeError(f"cannot broadcast {node.type} to {dims(wanted)} of lower rank")
    return spread(node, wanted, range(len(wanted) - len(node.shape), len(wanted)))


def results(node: Node) -> tuple[Node, ...]:
    """All results of a node."""
    return tuple(pick(node, number) for number in range(len(node.results)))


def floating(x: Node) -> Node:
    """Integers and bool converted to f32; floats unchanged."""
    return x if x.type.dtype.is_float else cast(x, DType.F32)


def compute(x: Node) -> Node:
    """Half precision converted to f32, in which composites compute before they round once."""
    return cast(x, x.type.dtype.compute)


def operand_names(node: Node) -> list[str]:
    """The name of the operand that each input is, without `?` (optional) and `*` (repeated)."""
    operands = node.op.operands
    star = next((n for n, name in enumerate(operands) if name.startswith("*")), None)
    if star is None:
        return [name.rstrip("?") for name in operands[: len(node.inputs)]]
    before, after = operands[:star], operands[star + 1 :]
    count = len(node.inputs) - len(before) - len(after)
    return [*before, *[operands[star][1:]] * count, *after]
