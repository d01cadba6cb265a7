"""Tensors that record operations, for functions that are traced."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from xlac.frontends.pytree import is_number
from xlac.ir.graph import Node
from xlac.ir.op import Array, Op, ShapeError
from xlac.ops import OPS, build
from xlac.ops.checks import FLOATS
from xlac.ops.scalar.comparison import Compare
from xlac.ops.scalar.formula import Formula
from xlac.ops.scalar.logic import Where
from xlac.ops.scalar.primitive import Scalar
from xlac_sdk.dtypes import DType
from xlac_sdk.host.array_values import as_array, type_of
from xlac_sdk.source import Diagnostic, SourceError


class Tensor:
    """A value of a function being traced: it has a dtype and a shape, but no elements."""

    __array_ufunc__ = None  # makes NumPy arrays defer mixed operations to this class

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.node.type.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape; sizes may be symbolic."""
        return self.node.shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.node.type.rank

    @property
    def T(self) -> Tensor:
        """The tensor with its axes reversed."""
        return one("transpose", self, perm=tuple(reversed(range(self.ndim))))

    def astype(self, dtype: DType | str) -> Tensor:
        """The values cast to another element type."""
        return one("cast", self, dtype=dtype)

    def reshape(self, *shape: int | Sequence[int]) -> Tensor:
        """The elements, row-major, in another shape; one size may be -1."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
        return one("reshape", self, shape=wanted)

    def transpose(self, *perm: int) -> Tensor:
        """The tensor with its axes in the given order, or reversed."""
        return one("transpose", self, perm=perm or tuple(reversed(range(self.ndim))))

    def __getattr__(self, name: str) -> Any:
        """`x.sum(axis=0)` is `xlac.sum(x, axis=0)`, for every operation."""
        if name.startswith("_") or (operation := function(name)) is None:
            raise AttributeError(f"a traced tensor has no attribute '{name}'")
        return functools.partial(operation, self)

    def __getitem__(self, key: Any) -> Tensor:
        entries = [
            i.node if isinstance(i, Tensor) else i
            for i in (key if isinstance(key, tuple) else (key,))
        ]
        try:
            return Tensor(build.index(self.node, tuple(entries)))
        except ShapeError as error:
            raise SourceError(Diagnostic("XL2009", f"[…]: {error}", hint=error.hint)) from None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar tensor has no length")
        return int(self.shape[0])

    def __bool__(self) -> bool:
        raise TypeError(
            "the truth of a traced tensor is not known; use xlac.where, xlac.logical_and, …"
        )

    def __array__(self, *args: object, **named: object) -> Array:
        raise TypeError(
            "a traced tensor has no numbers yet; use xlac's functions instead of NumPy's"
        )

    def __repr__(self) -> str:
        return f"Tensor({self.node.type})"

    __hash__ = object.__hash__


class Number(Tensor):
    """A number whose type is weak: it takes the type of the tensor it is combined with, and keeps
    full precision until then.
    """

    def __init__(self, weak: build.Weak) -> None:
        self.weak = weak

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The number as a node; its type is that of the tensor it is combined with."""
        return self.weak.node()

    def __repr__(self) -> str:
        return f"Tensor(a {self.weak.kind.__name__})"


def _binary(mnemonic: str, swapped: bool = False) -> Callable[[Tensor, Any], Tensor]:
    def method(self: Tensor, other: Any) -> Tensor:
        return one(mnemonic, other, self) if swapped else apply(mnemonic, self, other)

    return method


def _compare(direction: str) -> Callable[[Tensor, Any], Tensor]:
    return lambda self, other: one("compare", self, other, direction=direction)


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "mod": "rem", "pow": "pow",
    "matmul": "matmul", "and": "and", "or": "or", "xor": "xor", "lshift": "shl", "rshift": "shr",
}  # fmt: skip
for _python, _mnemonic in _OPERATORS.items():
    setattr(Tensor, f"__{_python}__", _binary(_mnemonic))
    setattr(Tensor, f"__r{_python}__", _binary(_mnemonic, swapped=True))
for _direction in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(Tensor, f"__{_direction}__", _compare(_direction))
for _python, _mnemonic in {"neg": "neg", "abs": "abs", "invert": "not"}.items():
    setattr(
        Tensor,
        f"__{_python}__",
        functools.partialmethod(lambda self, name: one(name, self), _mnemonic),
    )


def one(mnemonic: str, *inputs: Any, **attributes: Any) -> Tensor:
    """A function that builds an operation with one result."""
    result = apply(mnemonic, *inputs, **attributes)
    assert isinstance(result, Tensor)
    return result


def apply(mnemonic: str, *inputs: Any, **attributes: Any) -> Any:
    """A function that applies an operation to tensors, arrays and numbers; it returns a tuple if
    the operation has several results.
    """
    given = [_operand(mnemonic, value) for value in inputs]
    if not any(isinstance(i, Tensor) for i in inputs) and inputs:
        raise TypeError(
            f"xlac.{mnemonic} works on traced tensors: call it inside a function made by xlac.jit"
        )
    cls = OPS.get(mnemonic)
    first = 1 if cls is Where else 0  # the condition does not take part in type promotion
    meeting = given[first:]
    weak = (
        cls is not None
        and issubclass(cls, Scalar | Formula | Compare | Where)
        and all(isinstance(g, build.Weak | bool | int | float) for g in meeting)
    )
    if cls is not None and (attributes or _needs_attributes(cls)):
        from xlac.spec.elaborate.python_attributes import converted

        attributes = converted(cls, attributes)
    try:
        if weak:
            given[first:] = _wide(meeting, getattr(cls, "accepts", None))
        result = build.apply(mnemonic, *given, **attributes)
    except ShapeError as error:
        raise SourceError(Diagnostic("XL2009", f"{mnemonic}: {error}", hint=error.hint)) from None
    if weak and isinstance(result, Node) and result.type.dtype in (DType.F64, DType.I64):
        return Number(
            build.Weak(
                float if result.type.dtype.is_float else int, functools.partial(build.cast, result)
            )
        )
    return tuple(map(Tensor, result)) if isinstance(result, tuple) else Tensor(result)


def _operand(mnemonic: str, value: Any) -> Any:
    """A tensor, an array or a number as operations take it. Raises SourceError for others."""
    if isinstance(value, Number):
        return value.weak
    if isinstance(value, Tensor):
        return value.node
    if isinstance(value, Node | build.Weak | bool | int | float):
        return value
    if hasattr(value, "dtype") or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        array = as_array(value)
        type_of(array.dtype)
        return array
    problem = f"{mnemonic}: {type(value).__name__} is not a tensor, array or number"
    hint = "numpy.array(…) makes one" if isinstance(value, list | tuple) else ""
    raise SourceError(Diagnostic("XL2009", problem, hint=hint))


@functools.cache
def _needs_attributes(cls: type[Op]) -> bool:
    """Whether an operation may have an attribute without a default."""
    free = (f.default is f.default_factory is dataclasses.MISSING for f in dataclasses.fields(cls))
    return cls.mnemonic in build.FORMS or any(free)


def _wide(numbers: Sequence[Any], accepts: object) -> list[Any]:
    """Numbers that are combined with no tensor, in the types that Python uses."""
    whole = all((n.kind if isinstance(n, build.Weak) else type(n)) is not float for n in numbers)
    dtype = DType.I64 if whole and accepts != FLOATS else DType.F64
    return [
        n.node(dtype) if isinstance(n, build.Weak) else build.constant(n, dtype) for n in numbers
    ]


# for operations on one tensor; those on two numbers are the scalar operations
REDUCTIONS = {"max": "reduce_max", "min": "reduce_min"}


def function(name: str) -> Callable[..., Any] | None:
    """The function for the operation `name`, or None for an unknown name."""
    if name not in OPS:
        return None

    def call(*inputs: Any, **attributes: Any) -> Any:
        if name in REDUCTIONS and len(inputs) == 1:
            return apply(REDUCTIONS[name], *inputs, **attributes)
        return apply(name, *inputs, **attributes)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = OPS[name].__doc__
    return call


def node_of(value: Any) -> Node:
    """A tensor, a number or an array as a node."""
    if isinstance(value, Tensor):
        return value.node
    return build.as_node(value) if is_number(value) else build.constant(as_array(value))
