"""Matches epilogues with those that libraries support: `activation(scale * product + addend +
bias)`, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from xlac.codegen.core import operands
from xlac.codegen.core.addressing import row_major
from xlac.codegen.core.epilogue import Epilogue
from xlac.codegen.core.operands import OperandView
from xlac.codegen.library.refused import LibraryRefused
from xlac.fusion.group import Group
from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ops.scalar.arithmetic import Add, Max, Mul, Sub
from xlac.ops.scalar.convert import Cast
from xlac.ops.scalar.native import Sigmoid, Tanh
from xlac.ops.tensor import leaf, view
from xlac_sdk.dtypes import DType
from xlac_sdk.libraries.product import GELU, RELU, Products, activated

MOVING = view.Reshape | view.Transpose


def _logistic(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


SMOOTH: dict[type, Callable[..., Array]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Tanh: np.tanh,
    Sigmoid: _logistic,
}
"""A function made only of these operations is identified by sampling it at some values."""
PROBES = np.linspace(-6, 6, 61)
# relative tolerance: constants may be rounded to a 16-bit float's neighbours, but other functions
# must differ
CLOSE = 1e-4


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of an epilogue. Strides of the views are over the axes of the anchor's result."""

    scale: float = 1.0
    addend: OperandView | None = None
    bias: OperandView | None = None
    activation: str = ""


def parts(after: Epilogue, library: Products, fast: bool, columns: frozenset[int]) -> Parts:
    """Parses an epilogue starting at the anchor; a bias runs along some `columns` of its result's
    axes. Raises LibraryRefused for what the library does not support, or would round differently.
    """
    return _EpilogueReader(after, library, fast, columns).read()


def over_result(after: Epilogue, node: Node, strides: Shape) -> Shape:
    """Strides over a node's axes converted to strides over those of the anchor's result. Raises
    LibraryRefused if there are none.
    """
    for moved in reversed(after.paths[node]):
        if isinstance(moved.op, view.Transpose):
            strides = tuple(strides[moved.op.perm.index(axis)] for axis in range(len(strides)))
            continue
        unreshaped = operands.reshaped(moved.shape, strides, moved.inputs[0].shape)
        if unreshaped is None:
            raise LibraryRefused(
                "the layout of the result, or of a term added to it, cannot be expressed by strides"
            )
        strides = unreshaped
    return strides


class _EpilogueReader:
    """Walks the nodes computed from the anchor's result, step by step."""

    def __init__(
        self, after: Epilogue, library: Products, fast: bool, columns: frozenset[int]
    ) -> None:
        self.after, self.library, self.fast, self.columns = after, library, fast, columns
        (self.output,) = after.group.outputs
        self.dtype = self.output.type.dtype
        self.parts = Parts()
        self.rounded: DType | None = None  # the narrow type that the value was rounded to
        self.passed: set[Node] = set()

    def read(self) -> Parts:
        if self.dtype not in self.library.results:
            raise LibraryRefused(
                f"{self.library.library} gives no {self.dtype} for {self.library.operands}"
            )
        node = self.after.anchor
        self._rounds(node)
        while node is not self.output:
            self.passed.add(node)
            users = [n for n in self.after.paths if node in n.inputs]
            node = (
                self._step(node, users[0])
                if len(users) == 1 and users[0].inputs.count(node) == 1
                else self._activation(node)
            )
        if self.rounded is not None and self.rounded is not self.dtype:
            self._asks_for_fast(f"a rounding to {self.rounded}")
        return self.parts

    def _step(self, node: Node, user: Node) -> Node:
        match user.op:
            case view.Reshape() | view.Transpose():
                return user
            case Cast():
                self._rounds(user)
                return user
        other = next((i for i in user.inputs if i is not node), None)
        number = None if other is None else _uniform(other)
        if isinstance(user.op, Max) and number == 0:
            self._activated(RELU)
            return user
        if self.parts.activation:
            raise self._unknown(user)
        if (
            isinstance(user.op, Mul)
            and number is not None
            and self.parts == Parts(self.parts.scale)
        ):
            self._exact(user)
            self.parts = replace(self.parts, scale=self.parts.scale * number)
        elif isinstance(user.op, Add) and other is not None and number is None:
            self._exact(user)
            self._added(user, other)
        else:
            return self._activation(node)
        self._rounds(user)
        return user

    def _added(self, user: Node, other: Node) -> None:
        seen = _source(other, self.after.group, self.dtype)
        wide = (
            _source(other, self.after.group, self.dtype.compute)
            if seen is None and self.library.wide
            else None
        )
        view = seen or wide
        if view is not None:
            view = replace(view, strides=over_result(self.after, user, view.strides))
        if view is None or (wide and self._is_matrix(view.strides)):
            raise LibraryRefused(f"what is added is computed, or is not {self.dtype}")
        seen, matrix = view, self._is_matrix(view.strides)
        if (self.parts.addend if matrix else self.parts.bias) is not None:
            raise LibraryRefused(f"{self.library.library} adds one matrix and one row")
        self.parts = replace(self.parts, addend=seen) if matrix else replace(self.parts, bias=seen)

    def _is_matrix(self, strides: tuple[Dim, ...]) -> bool:
        moves = {axis for axis, step in enumerate(strides) if step != 0}
        return bool(moves & self.columns) and bool(moves - self.columns)

    def _activation(self, node: Node) -> Node:
        """The remaining nodes as one function of one value. Raises LibraryRefused unless it is one
        of the library's.
        """
        rest = [n for n in self.after.group.nodes if n in self.after.paths and n not in self.passed]
        values = {node: PROBES}
        for n in rest:
            values[n] = self._probed(n, values)
        if not np.allclose(values[self.output], activated(GELU, PROBES), CLOSE, CLOSE):
            raise self._unknown(rest[-1])
        self._exact(rest[0])
        self._activated(GELU)
        return self.output

    def _probed(self, node: Node, values: dict[Node, Array]) -> Array:
        """A node evaluated at the sample values of its operand."""
        if isinstance(node.op, Cast | MOVING):
            return values[node.inputs[0]]
        if type(node.op) not in SMOOTH:
            raise self._unknown(node)
        numbers = [values[i] if i in values else _uniform(i) for i in node.inputs]
        if any(number is None for number in numbers):
            raise self._unknown(node)
        return np.asarray(SMOOTH[type(node.op)](*numbers))

    def _activated(self, name: str) -> None:
        if self.parts.activation or name not in self.library.activations:
            raise LibraryRefused(
                f"{self.library.library} ends in one activation, and not in this {name}"
            )
        if name not in self.library.exact:
            self._asks_for_fast(
                f"the {name} of {self.library.library}, whose last bits and NaNs are its own"
            )
        self.parts = replace(self.parts, activation=name)

    # ---- rounding ----------------------------------------------------------------------------

    def _rounds(self, node: Node) -> None:
        """Records the narrow type that a value is rounded to."""
        dtype = node.type.dtype
        if self.rounded is not None and dtype is not self.rounded and dtype.is_half:
            self._asks_for_fast(f"a rounding to {self.rounded}")
        if dtype.is_half:
            self.rounded = dtype

    def _exact(self, user: Node) -> None:
        """Raises LibraryRefused if the value was rounded, as the library computes on unrounded
        ones.
        """
        if self.rounded is not None:
            self._asks_for_fast(f"a rounding to {self.rounded} before '{user.op.mnemonic}'")

    def _asks_for_fast(self, what: str) -> None:
        if not self.fast:
            raise LibraryRefused(
                f"only precision: fast lets {self.library.library} compute it: it leaves out {what}"
            )

    def _unknown(self, node: Node) -> LibraryRefused:
        return LibraryRefused(
            f"{self.library.library} has no epilogue for '{node.op.mnemonic}' here"
        )


def _uniform(node: Node) -> float | None:
    """The number that all elements of a node have, if known."""
    while isinstance(node.op, Cast | view.Broadcast | MOVING):
        node = node.inputs[0]
    value = (
        node.op.uniform if isinstance(node.op, leaf.Const) and node.type.dtype.is_float else None
    )
    return None if value is None else float(value)


def _source(node: Node, group: Group, dtype: DType) -> OperandView | None:
    """The view of a value of this type, or one widened from it, in memory; None if it is computed,
    or has another type.
    """
    if node in group.members and isinstance(node.op, view.Broadcast | MOVING):
        operand = _source(node.inputs[0], group, dtype)
        return operand and operands.through(operand, node)
    if node in group.members and isinstance(node.op, Cast) and node.type.dtype is dtype.compute:
        node = node.inputs[0]
    return (
        OperandView(node, row_major(node.shape))
        if node not in group.members and node.type.dtype is dtype
        else None
    )
