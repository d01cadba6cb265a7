"""Python functions as models: run once on tensors that record what is done to them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlac.frontends.nests import Nest, as_array, flatten, unflatten
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import OPS, build
from xlac.ops.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, SourceError


class Tensor:
    """A value of a function being traced. It has a dtype and a shape, and no numbers yet."""

    __array_ufunc__ = None  # NumPy arrays leave mixed operations to us

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def dtype(self) -> DType:
        return self.node.type.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.node.shape

    @property
    def ndim(self) -> int:
        return self.node.type.rank

    @property
    def T(self) -> Tensor:
        return one("transpose", self, perm=tuple(reversed(range(self.ndim))))

    def astype(self, dtype: DType | str) -> Tensor:
        return one("cast", self, dtype=DType(dtype))

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return one("reshape", self, shape=wanted)

    def transpose(self, *perm: int) -> Tensor:
        return one("transpose", self, perm=perm or tuple(reversed(range(self.ndim))))

    def __getattr__(self, name: str) -> Any:
        """`x.sum(axis=0)` is `xlac.sum(x, axis=0)`, for every operation."""
        if name.startswith("_") or (found := function(name)) is None:
            raise AttributeError(f"a traced tensor has no attribute '{name}'")
        return functools.partial(found, self)

    def __getitem__(self, key: Any) -> Tensor:
        return Tensor(build.index(self.node, key))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar tensor has no length")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        raise TypeError("the truth of a traced tensor is not known; use xlac.where, xlac.logical_and, …")

    def __array__(self, *args: object, **named: object) -> Array:
        raise TypeError("a traced tensor has no numbers yet; use xlac's functions instead of NumPy's")

    def __repr__(self) -> str:
        return f"Tensor({self.node.type})"

    __hash__ = object.__hash__


def _binary(mnemonic: str, swapped: bool = False) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        return one(mnemonic, other, self) if swapped else apply(mnemonic, self, other)

    return method


def _compare(direction: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: one("compare", self, other, direction=direction)


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "rem", "pow": "pow", "matmul": "matmul",
    "and": "and", "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shr",
}  # fmt: skip
for _python, _mnemonic in _OPERATORS.items():
    setattr(Tensor, f"__{_python}__", _binary(_mnemonic))
    setattr(Tensor, f"__r{_python}__", _binary(_mnemonic, swapped=True))
for _direction in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Tensor, f"__{_direction}__", _compare(_direction))
for _python, _mnemonic in {"neg": "neg", "abs": "abs", "invert": "not"}.items():
    setattr(Tensor, f"__{_python}__", functools.partialmethod(lambda self, name: one(name, self), _mnemonic))


def one(mnemonic: str, *inputs: Any, **attributes: Any) -> Tensor:
    """An operation that has one result."""
    result = apply(mnemonic, *inputs, **attributes)
    assert isinstance(result, Tensor)
    return result


def apply(mnemonic: str, *inputs: Any, **attributes: Any) -> Any:
    """An operation on tensors, arrays and numbers; a tuple of tensors when it has several results."""
    if not any(isinstance(i, Tensor) for i in inputs) and inputs:
        raise TypeError(f"xlac.{mnemonic} works on traced tensors: call it inside a function made by xlac.jit")
    given = [i.node if isinstance(i, Tensor) else i for i in inputs]
    try:
        result = build.apply(mnemonic, *given, **attributes)
    except ShapeError as error:
        raise SourceError(Diagnostic("XL2009", f"{mnemonic}: {error}", hint=error.hint)) from None
    return tuple(map(Tensor, result)) if isinstance(result, tuple) else Tensor(result)


REDUCTIONS = {"max": "reduce_max", "min": "reduce_min"}  # of one tensor; of two they are the scalar ops


def function(name: str) -> Callable[..., Any] | None:
    """The function for an operation of the table, or None for an unknown name."""
    if name not in OPS:
        return None

    def call(*inputs: Any, **attributes: Any) -> Any:
        if name in REDUCTIONS and len(inputs) == 1:
            return apply(REDUCTIONS[name], *inputs, **attributes)
        return apply(name, *inputs, **attributes)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = OPS[name].__doc__
    return call


def trace(name: str, traced: Callable[..., Any], tree: Nest, arrays: Sequence[Array]) -> tuple[Model, Nest]:
    """The model of a function called with a nest of arrays, and the nest of its outputs.

    Inputs are called arg0, arg1, … and outputs out0, out1, …, in the order of the nests' leaves.
    """
    inputs = []
    for number, array in enumerate(arrays):
        label = f"arg{number}"
        type = Type(DType.of(array.dtype), array.shape)
        inputs.append(Node.of(Param(label, type), origin=Origin(f"{name}.{label}")))
    args, named = unflatten(tree, [Tensor(n) for n in inputs])
    leaves: list[Any] = []
    result = flatten(traced(*args, **named), leaves)
    outputs = {f"out{i}": _node(leaf) for i, leaf in enumerate(leaves)}
    if not outputs:
        raise SourceError(Diagnostic("XL2032", f"{name}() returned no tensor"))
    return Model(Graph(name, tuple(inputs), outputs), {}), result


def _node(value: Any) -> Node:
    return value.node if isinstance(value, Tensor) else build.constant(as_array(value))
