"""An operation as its builder sees it: operands, attributes, regions and result types, validated on
access.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlac.frontends.stablehlo.text.syntax import MlirSymbol, Operation, Raw, TensorType
from xlac.frontends.stablehlo.values import TypedTensor, Value, numbers
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.types import Type

if TYPE_CHECKING:
    from xlac.frontends.stablehlo.importer import RegionBody, StablehloImporter
    from xlac.frontends.stablehlo.scope import RegionScope

Built = Value | Sequence[Value] | Node | Sequence[Node]
Builder = Callable[["OperationSite"], Built]


class OperationSite:
    """One operation at its place in the program."""

    def __init__(self, importer: StablehloImporter, scope: RegionScope, op: Operation) -> None:
        self.importer, self.scope, self.op = importer, scope, op
        self.operands = [scope.find(name, op) for name in op.operands]

    @property
    def name(self) -> str:
        """The operation's name, without its dialect where that is StableHLO."""
        return self.op.name

    def fail(self, message: str, hint: str = "", code: str = "XL7203") -> NoReturn:
        """Raises SourceError at the operation."""
        self.importer.source.fail(code, f"{self.name}: {message}", self.op.at, self.op.width, hint)

    # ---- operands and results
    # ----------------------------------------------------------------------

    def tensor(self, number: int) -> TypedTensor:
        """An operand, which must be a tensor."""
        if number >= len(self.operands):
            self.fail(f"there is no operand {number}")
        operand = self.operands[number]
        if not isinstance(operand, TypedTensor):
            self.fail(f"operand {number} is not a tensor")
        return operand

    def tensors(self, start: int = 0, stop: int | None = None) -> list[TypedTensor]:
        """Operands, which must be tensors."""
        return [self.tensor(n) for n in range(*slice(start, stop).indices(len(self.operands)))]

    def number(self, number: int) -> Node:
        """An operand as a node of a type that xlac computes with. Complex ones are refused."""
        return numbers(self.real(number))

    def real(self, number: int) -> TypedTensor:
        """An operand, which must be a real tensor."""
        operand = self.tensor(number)
        if operand.element.complex:
            self.fail(f"operand {number} is complex, which is not defined here")
        return operand

    def takes(self, count: int) -> None:
        """The operands; an error unless there are `count`."""
        if len(self.operands) != count:
            self.fail(f"takes {count} operands, not {len(self.operands)}")

    @property
    def result(self) -> TensorType:
        """The type of the single result."""
        return self.results(1)[0]

    def results(self, count: int | None = None) -> list[TensorType]:
        """The types of the results, which must be `count` tensors."""
        types = self.op.types
        if count is not None and len(types) != count:
            self.fail(f"gives {count} results, not {len(types)}")
        for type in types:
            if not isinstance(type, TensorType):
                self.fail("gives tensors")
        return [type for type in types if isinstance(type, TensorType)]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of the single result, which must be static."""
        shape = self.result.shape
        if None in shape:
            self.fail("needs a result of known shape", code="XL7212")
        return tuple(n or 0 for n in shape)

    # ---- attributes
    # ----------------------------------------------------------------------------------

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or the default if it is absent."""
        return self.op.attributes.get(name, default)

    def _needed(self, name: str) -> Any:
        attribute = self.get(name)
        if attribute is None:
            self.fail(f"attribute '{name}' is missing")
        return attribute

    def integer(self, name: str, default: int | None = None) -> int:
        """An integer attribute; an error if it is absent and has no default."""
        attribute = self._needed(name) if default is None else self.get(name, default)
        if isinstance(attribute, np.ndarray) and attribute.size == 1:
            attribute = attribute.reshape(()).item()
        if isinstance(attribute, bool) or not isinstance(attribute, int):
            self.fail(f"attribute '{name}' must be an integer")
        return attribute

    def integers(self, name: str, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """A list of integers, or a constant of rank 1."""
        attribute = self._needed(name) if default is None else self.get(name, default)
        if isinstance(attribute, np.ndarray):
            attribute = attribute.reshape(-1).tolist()
        if not isinstance(attribute, list | tuple) or not all(
            isinstance(n, int) for n in attribute
        ):
            self.fail(f"attribute '{name}' must be a list of integers")
        return tuple(int(n) for n in attribute)

    def pairs(self, name: str, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The first and the second of two integers for each axis, such as padding. Zeros
        if absent.
        """
        attribute = self.get(name)
        try:
            table = np.zeros((rank, 2), np.int64) if attribute is None else np.asarray(attribute)
        except ValueError:
            table = np.zeros(())
        if table.size == 0 and rank == 0:
            return (), ()
        if table.shape != (rank, 2) or table.dtype.kind not in "iu":
            self.fail(f"attribute '{name}' must have two integers for each of {rank} axes")
        return tuple(map(int, table[:, 0])), tuple(map(int, table[:, 1]))

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean attribute."""
        attribute = self.get(name, default)
        if not isinstance(attribute, bool):
            self.fail(f"attribute '{name}' must be true or false")
        return attribute

    def word(self, name: str, default: str | None = None) -> str:
        """A keyword attribute; an error if it is absent and has no default."""
        attribute = self._needed(name) if default is None else self.get(name, default)
        if isinstance(attribute, MlirSymbol):
            return attribute.name
        if not isinstance(attribute, str):
            self.fail(f"attribute '{name}' must be a keyword")
        return attribute

    def fields(self, name: str) -> dict[str, Any]:
        """A struct attribute: `#stablehlo.gather<offset_dims = [0]>`."""
        attribute = self._needed(name)
        if isinstance(attribute, Raw) and not attribute.text.strip():
            return {}
        if not isinstance(attribute, dict):
            self.fail(f"attribute '{name}' must be a list of fields")
        return attribute

    def array(self, name: str) -> Array:
        """A dense array attribute."""
        attribute = self._needed(name)
        if not isinstance(attribute, np.ndarray):
            self.fail(f"attribute '{name}' must be a constant")
        return attribute

    def axes(self, name: str, rank: int, default: Sequence[int] | None = None) -> tuple[int, ...]:
        """An attribute that lists distinct axes of a tensor of the given rank."""
        axes = self.integers(name, default)
        if len(set(axes)) != len(axes) or not all(0 <= a < rank for a in axes):
            self.fail(f"attribute '{name}' {list(axes)} does not name axes of rank {rank}")
        return axes

    def axis(self, name: str, rank: int) -> int:
        """An attribute that is an axis of a tensor of the given rank."""
        axis = self.integer(name)
        if not 0 <= axis < rank:
            self.fail(f"attribute '{name}' {axis} is not an axis of a tensor of rank {rank}")
        return axis

    # ---- regions
    # -------------------------------------------------------------------------------------

    def closed(self, number: int, types: Sequence[Type] | None = None) -> Graph:
        """A region as a graph of its arguments alone; of outside values it may use only
        constants.
        """
        graph, captured = self.capturing(number, types)
        if captured:
            self.fail(
                "its region uses values from outside",
                "compute the values inside the region, or pass them as loop state",
            )
        return graph

    def computation(self) -> Graph:
        """The function that a custom call names in `called_computations`, as a graph."""
        named = self.get("called_computations")
        first = named[0] if isinstance(named, list) and named else None
        function = (
            self.importer.module.functions.get(first.name)
            if isinstance(first, MlirSymbol)
            else None
        )
        if function is None:
            self.fail("attribute 'called_computations' names no function")
        return self.importer.region(self, function.body, None).graph

    def capturing(
        self, number: int, types: Sequence[Type] | None = None
    ) -> tuple[Graph, list[Value]]:
        """A region as a graph whose inputs are the arguments and the captured outside values; also
        returns those values.

        `types` are the types of the arguments' nodes where the text does not state the sizes.
        """
        body = self.region(number, types)
        if body.acts:
            self.fail("its region calls a Python function for its effects", code="XL7216")
        return body.graph, body.captured

    def region(self, number: int, types: Sequence[Type] | None = None) -> RegionBody:
        """The same for a region that may have side effects."""
        if number >= len(self.op.regions):
            self.fail(f"region {number} is missing")
        return self.importer.region(self, self.op.regions[number], types)
