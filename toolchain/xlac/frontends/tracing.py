"""Python functions as models: run once on tracers, compiled once for each set of shapes and dtypes."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar, overload

import numpy as np
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, Origin, SourceError

from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array, ShapeError
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import OPS, build
from xlac.ops.leaf import Param

PROGRAMS = 64  # compiled programs that one jitted function keeps, the least recently used dropped first

Function = TypeVar("Function", bound=Callable[..., Any])


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
        raise SourceError(Diagnostic("XL2001", f"{mnemonic}: {error}", hint=error.hint)) from None
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


# ---- nested arguments ------------------------------------------------------------------------


def _flatten(value: Any, leaves: list[Any]) -> Any:
    """A hashable description of a nest of tuples, lists and dicts; its arrays are appended to `leaves`."""
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(_flatten(v, leaves) for v in value)
    if isinstance(value, dict):
        return "dict", tuple((k, _flatten(v, leaves)) for k, v in value.items())
    if isinstance(value, str | bytes | bool | type(None)):
        return "static", value
    leaves.append(value)
    return "leaf", len(leaves) - 1


def _unflatten(tree: Any, leaves: Sequence[Any]) -> Any:
    kind, content = tree
    match kind:
        case "tuple":
            return tuple(_unflatten(t, leaves) for t in content)
        case "list":
            return [_unflatten(t, leaves) for t in content]
        case "dict":
            return {key: _unflatten(t, leaves) for key, t in content}
        case "leaf":
            return leaves[content]
    return content


class Jitted:
    """A function compiled for the shapes and dtypes of its arguments at the first call with them.

    Arguments are arrays, numbers (as f32 or i32 scalars) and nests of these; strings, booleans and None are
    compile-time constants. Python's control flow runs while tracing, so it is unrolled.
    """

    def __init__(self, traced: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, traced)
        self._function, self._options = traced, options
        self._programs: OrderedDict[object, tuple[Any, Any]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, *args: Any, **named: Any) -> Any:
        leaves: list[Any] = []
        tree = _flatten((args, named), leaves)
        arrays = [_array(leaf) for leaf in leaves]
        key = (tree, tuple((a.shape, a.dtype.str) for a in arrays))
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
            else:
                self._programs[key] = self._compile(tree, arrays)
                while len(self._programs) > PROGRAMS:
                    self._programs.popitem(last=False)
            program, result = self._programs[key]
        found = program(*arrays)
        outputs = list(found.values()) if isinstance(found, dict) else [found]
        return _unflatten(result, outputs)

    def trace(self, *args: Any, **named: Any) -> Model:
        """The model that a call with these arguments would compile."""
        leaves: list[Any] = []
        tree = _flatten((args, named), leaves)
        return self._trace(tree, [_array(leaf) for leaf in leaves])[0]

    @property
    def programs(self) -> int:
        """How many programs are compiled and kept."""
        return len(self._programs)

    def _trace(self, tree: Any, arrays: Sequence[Array]) -> tuple[Model, Any]:
        name = self._function.__name__
        inputs = []
        for number, array in enumerate(arrays):
            label = f"arg{number}"
            node = Node.of(Param(label, Type(DType.of(array.dtype), array.shape)), origin=Origin(f"{name}.{label}"))
            inputs.append(node)
        args, named = _unflatten(tree, [Tensor(n) for n in inputs])
        leaves: list[Any] = []
        result = _flatten(self._function(*args, **named), leaves)
        outputs = {f"out{i}": _node(leaf) for i, leaf in enumerate(leaves)}
        if not outputs:
            raise SourceError(Diagnostic("XL2002", f"{name}() returned no tensor"))
        return Model(Graph(name, tuple(inputs), outputs), {}), result

    def _compile(self, tree: Any, arrays: Sequence[Array]) -> tuple[Any, Any]:
        from xlac.compiler import compile

        model, result = self._trace(tree, arrays)
        return compile(model, **self._options), result


def _array(value: Any) -> Array:
    from xlac.compiled import as_array

    if isinstance(value, int | float) and not isinstance(value, np.generic):
        return np.asarray(value, np.float32 if isinstance(value, float) else np.int32)
    return as_array(value)


def _node(value: Any) -> Node:
    return value.node if isinstance(value, Tensor) else build.constant(_array(value))


@overload
def jit(traced: Function) -> Jitted: ...
@overload
def jit(*, target: str = ..., threads: int = ...) -> Callable[[Function], Jitted]: ...
def jit(traced: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a function: `@xlac.jit` or `@xlac.jit(target="cpu", threads=2)`."""
    if traced is None:
        return lambda inner: Jitted(inner, options)
    return Jitted(traced, options)
