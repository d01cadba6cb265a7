"""What an operation is. One class states everything the compiler knows about it.

The spec schema, checker, printer, constant folder, lowering, conformance cases and importers read
these declarations; none of them mentions an operation by name where a declaration could say it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from xlac.ir.faults import APPEARING, DeclaredFault
from xlac.ir.types import Type, Types
from xlac_sdk.kernel_ir.kernel import Expr

if TYPE_CHECKING:
    from abc import ABC

    from xlac.ir.dims import Dim
    from xlac.ir.graph import Node
else:
    # `isinstance` of an ABC runs Python code, a fifth of a compile's time. A test checks that no
    # abstract class is declared
    ABC = object

Array = NDArray[Any]
UNDEFINED = "undefined"  # a derivative that does not exist or is not implemented
Index = tuple[Expr, ...]  # one kernel index expression for each axis


class ShapeError(ValueError):
    """Raised by `infer`: a shape, dtype or attribute that does not fit. The caller knows where to
    point.

    `operand` is the number of the input at fault and `attribute` the attribute, where one is.
    """

    def __init__(
        self, message: str, *, operand: int | None = None, attribute: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.operand, self.attribute, self.hint = operand, attribute, hint


@dataclass(frozen=True, slots=True)
class Operand:
    """An input as `Elementwise.element` sees it: its type, and how to read one element of it.

    Where the input may have no elements at all, `get` is given a condition too, which is false
    then: nothing is read, and the value is 0.
    """

    type: Type
    get: Callable[[Index, Expr | None], Expr]

    def read(self, at: Index, when: Expr | None = None) -> Expr:
        """The element at an index, or 0 where `when`, a scalar or vector of bool, is false."""
        return self.get(at, when)


@dataclass(frozen=True, slots=True)
class Sample:
    """One conformance case of an op: attributes, the types of its inputs, and how to draw their
    values.

    `draw` names a range of input values: "normal", "positive", "above_one" (1..8), "unit" (-1..1),
    "small" (integers 0..7), "index" (any integer, out of range too), "special" (NaN, infinities,
    zeros, denormals).
    """

    inputs: tuple[Type, ...]
    attributes: Mapping[str, Any]
    draw: tuple[str, ...] = ("normal",)


@dataclass(frozen=True)
class Op(ABC):
    """An operation; its dataclass fields are its attributes.

    `operands` names the inputs in order: "x", "bias?" for one that may be absent at the end, "*xs"
    for any number of them. The docstring is the op's documentation: its first line is the summary.
    """

    mnemonic: ClassVar[str]
    operands: ClassVar[tuple[str, ...]] = ("x",)

    @abstractmethod
    def infer(self, *types: Type) -> Types:
        """The result type (a tuple of types for several results), or ShapeError."""

    @abstractmethod
    def evaluate(self, *arrays: Array) -> Array | tuple[Array, ...]:
        """The meaning in NumPy, for arrays of the inferred types: what every backend is tested
        against.

        Given float64 arrays where the types say f32 it computes in float64.
        """

    derivatives: ClassVar[tuple[str, ...]] = ()
    """How the result changes with each operand, as expressions that are linear in `t`, the tangent
    of that operand: `t * cos(x)`. They name the operands and `result`; `autodiff/expressions.py`
    parses them. "0" is no dependence, "t" the tangent itself.
    """

    def linear(self) -> Sequence[Sequence[str]]:
        """Sets of operands in which the operation is linear while the others are held fixed.

        Such an operation is its own derivative, applied to the tangents of each set (zeros for
        operands without one) and summed over the sets; it must have a `transposed`.
        """
        return ()

    def tangent(self, node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
        """The tangents of the results of `node`, which applies this operation, given those of its
        inputs (None: zero). Returns None where `derivatives` or `linear` declare them instead.
        """
        return None

    def differentiated(self, node: Node) -> Sequence[Node] | None:
        """The node to differentiate in place of `node`: the same results, perhaps more kept for the
        backward pass. None: `node` itself.
        """
        return None

    def transposed(
        self, node: Node, linear: Sequence[bool], cotangents: Sequence[Node | None]
    ) -> Sequence[Node | None] | None:
        """For an operation linear in the inputs marked `linear`: their cotangents (None: zero) from
        those of the results. Returns None instead of a sequence where it has no transpose of its
        own.
        """
        return None

    leading: ClassVar[Mapping[str, str | int] | None] = None
    """For an operation that carries a leading axis of all its operands through to its result: how
    each attribute changes, in the terms of `leading.py`. None: it does not, or needs `batched`.
    """

    def batched(
        self, node: Node, inputs: Sequence[Node], mapped: Sequence[bool], size: Dim
    ) -> Sequence[Node] | None:
        """The results of `node` with a new leading axis of `size`, where the inputs marked `mapped`
        have it. None: `leading` declares how, or else the expansion is batched.
        """
        return None

    def in_training(
        self, node: Node, uniform: Callable[[Type], Node]
    ) -> tuple[Node, Mapping[Node, Node]] | None:
        """The results of `node` in training mode, and the next values of its running statistics;
        None: the same as in inference. `uniform` draws numbers of a type from [0, 1).
        """
        return None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        """Conformance cases: every dtype the op takes, ranks, odd, empty and large extents."""
        return ()

    def parameters(self, *types: Type) -> Mapping[str, Type]:
        """Learned tensors that follow the inputs (`weight`, `bias`), by name, given the types of
        the inputs.

        In a spec they are loaded from the weights file as `<node path>.<name>` unless given as
        values.
        """
        return {}

    def least(self, result: Type) -> tuple[int, ...]:
        """The least sizes that a sensible result has: a window, say, has at least one position."""
        return (0,) * result.rank

    def bodies(self) -> Sequence[Any]:
        """The graphs inside this operation (loop bodies, branches, reducers)."""
        return ()

    @property
    def creates(self) -> frozenset[str]:
        """Which of NaN and infinity the result may hold though no operand does; a base class may
        declare it for all its operations.
        """
        return APPEARING

    def faults(self, *inputs: Node) -> Sequence[DeclaredFault]:
        """Faults: operand values for which the result is defined but which a checked program
        reports.
        """
        return ()


class Elementwise(Op):
    """An operation whose elements can each be computed alone: scalar functions, views, iota,
    gather.

    These fuse: a kernel computes the element where it is needed.
    """

    @abstractmethod
    def element(self, at: Index, result: Type, *inputs: Operand) -> Expr:
        """The element of the result at an index, in the result's dtype (`compute` dtype for
        halves).
        """


OPS: dict[str, type[Op]] = {}
T = TypeVar("T", bound=Op)


@dataclass_transform(frozen_default=True)
def family(cls: type[T]) -> type[T]:
    """Marks the class as a base of operations, which inherit its attributes; it is no operation
    itself.
    """
    return _frozen(cls)


@dataclass_transform(frozen_default=True)
def declare(cls: type[T]) -> type[T]:
    """Makes the class a frozen dataclass and registers it as an operation."""
    frozen = _frozen(cls)
    assert frozen.mnemonic not in OPS, f"two operations are called {frozen.mnemonic}"
    OPS[frozen.mnemonic] = frozen
    return frozen


def _frozen(cls: type[T]) -> type[T]:
    """As a frozen dataclass. A class without attributes of its own is one already, by
    inheritance.
    """
    return dataclass(frozen=True)(cls) if get_annotations(cls) else cls


def attributes(op: Op) -> dict[str, Any]:
    """The attributes of an operation by name, in order."""
    return {f.name: getattr(op, f.name) for f in fields(op)}


def summary(op: type[Op]) -> str:
    """The first paragraph of what an operation says of itself, on one line."""
    return " ".join((op.__doc__ or "").strip().partition("\n\n")[0].split())


@cache
def arity(op: type[Op]) -> tuple[int, int | None]:
    """The fewest and most inputs an operation takes (None: any number)."""
    required = sum(not name.endswith("?") and not name.startswith("*") for name in op.operands)
    return required, None if any(n.startswith("*") for n in op.operands) else len(op.operands)


def normal_axis(axis: int, rank: int) -> int:
    """An axis counted from the end as one counted from the start. Raises ShapeError."""
    if not -rank <= axis < rank:
        raise ShapeError(
            f"axis {axis} is out of range for a tensor of rank {rank}", attribute="axis"
        )
    return axis % rank


def frozen_array(value: Any, dtype: np.dtype[Any] | None = None) -> Array:
    """An array that cannot be written to, safe inside an immutable node."""
    array = np.array(value, dtype=dtype)
    array.flags.writeable = False
    return array
