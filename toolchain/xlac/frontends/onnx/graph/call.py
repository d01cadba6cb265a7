"""One node of an ONNX graph, as its builder sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlac.frontends.known import DataDependent
from xlac.frontends.onnx.file.dtypes import DTYPES
from xlac.frontends.onnx.file.tensors import type_name
from xlac.frontends.onnx.graph.values import Coded, Ragged, Value, described
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.frontends.onnx.importer import OnnxImporter

REQUIRED: Any = object()
KINDS: dict[type, tuple[str, tuple[type, ...]]] = {
    int: ("an integer", (int,)), float: ("a number", (float, int)),
    str: ("a text", (str,)), list: ("a list", (list,)),
}  # fmt: skip
"""What an attribute must be whose default is of a type, and the types that are taken for it."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """Inputs (None where omitted), attributes and operator set version of one node."""

    operator: str
    domain: str
    version: int
    inputs: tuple[Value | None, ...]
    attributes: dict[str, Any]
    outputs: tuple[str, ...]
    importer: OnnxImporter

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, number: int) -> Node:
        """The input `number`, which must be present and a plain tensor."""
        tensor = self.get(number)
        if tensor is None:
            raise ShapeError(f"input {number} is missing")
        return tensor

    def __iter__(self) -> Iterator[Node]:
        """Every input, each of which must be a plain tensor."""
        return (self[number] for number in range(len(self.inputs)))

    def given(self, number: int) -> Value | None:
        """The input `number`, of any kind; None if omitted."""
        return self.inputs[number] if number < len(self.inputs) else None

    def get(self, number: int) -> Node | None:
        """The input `number` as a plain tensor; None if omitted."""
        value = self.given(number)
        if value is None or isinstance(value, Node):
            return value
        if isinstance(value, Ragged):
            raise DataDependent(
                f"input {number} is {described(value)}, which {self.operator} does not take"
            )
        raise ShapeError(
            f"input {number} is {described(value)}, which {self.operator} does not take here"
        )

    def coded(self, number: int) -> Node | Coded:
        """The input `number`: a plain tensor, or one whose elements are codes."""
        value = self.given(number)
        return value if isinstance(value, Coded) else self[number]

    def attr(self, name: str, default: Any = REQUIRED) -> Any:
        """An attribute as a Python value: int, float, str, bytes, list of these, array, or
        GraphProto. One that is of another kind than its default is a ShapeError.
        """
        value = self.attributes.get(name, default)
        if value is REQUIRED:
            raise ShapeError(f"attribute '{name}' is missing", attribute=name)
        wanted, kinds = KINDS.get(type(default), ("", (object,)))
        if not isinstance(value, kinds):
            raise ShapeError(f"attribute '{name}' must be {wanted}", attribute=name)
        return value

    def wants(self, number: int) -> bool:
        """Whether the node names its output `number`."""
        return number < len(self.outputs) and self.outputs[number] != ""

    def value(self, number: int) -> Array:
        """The value of an input, which must follow from constants and static sizes (see `dims` for
        symbolic ones).
        """
        array = self.importer.known.array(self[number])
        if array.dtype == object:
            raise DataDependent(
                f"input {number} depends on a symbolic size, and must be a number here"
            )
        return array

    def knows(self, number: int) -> Array | None:
        """The value of an input if it is known, else None."""
        tensor = self.get(number)
        return None if tensor is None else self.importer.known.constant(tensor)

    def dims(self, number: int) -> tuple[Dim, ...]:
        """An integer input of rank 0 or 1 as sizes, which may be symbolic."""
        return self.importer.known.dims(self[number])

    def ints(self, number: int, attribute: str = "", default: Any = None) -> list[int] | None:
        """Integers that older operator versions take as an attribute and newer ones as an input;
        `default` where both are omitted.
        """
        if self.given(number) is not None:
            return [int(v) for v in np.asarray(self.value(number)).reshape(-1)]
        given = self.attributes.get(attribute, default) if attribute else default
        return (
            None
            if given is None
            else [given]
            if isinstance(given, int)
            else [int(v) for v in given]
        )

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """The element type that an attribute names by its number in TensorProto.DataType."""
        if name not in self.attributes and default is not None:
            return default
        number = self.attr(name)
        if number not in DTYPES:
            self.fail(f"element type {type_name(number)} of '{name}' is not supported here")
        return DTYPES[number]

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Fails the import of this node; the error adds the node's name and place."""
        raise ShapeError(message, hint=hint)
