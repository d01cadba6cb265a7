"""PyTorch's higher-order operations: branches, loops and scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch.fx import GraphModule

from xlac.frontends.torch.errors import NotExpressible
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Cond, Scan, While
from xlac_sdk.dtypes import DType


class Bodies(Protocol):
    """Imports nested graphs: `importer.FxImporter`."""

    def inner(self, module: GraphModule, values: Sequence[Any]) -> list[Any]:
        """The results of a nested graph, inlined."""

    def extents(self) -> list[Node]:
        """A scalar for each open size that the surrounding graph's tensors determine."""

    def inside(self, module: GraphModule, values: Sequence[Any], extents: list[Node]) -> list[Any]:
        """The results of a closed graph, in which `extents` replace the outer ones."""


@dataclass(frozen=True, slots=True)
class HigherOrder:
    """One operation: its arguments, and the types of its results as PyTorch states them."""

    bodies: Bodies
    args: Sequence[Any]
    types: Sequence[Type | None]

    def graph(self, number: int) -> GraphModule:
        """The argument `number`, a graph. Raises NotExpressible."""
        module = self.args[number]
        if not isinstance(module, GraphModule):
            raise NotExpressible("its graph is missing")
        return module

    def operands(self, *numbers: int) -> list[Any]:
        """The operands listed by the arguments `numbers`, concatenated."""
        return [value for number in numbers for value in self.args[number] or ()]

    def closed(
        self,
        module: GraphModule,
        operands: Sequence[Any],
        types: Sequence[Type],
        give: Callable[[list[Any]], list[Any]],
    ) -> Graph:
        """A closed graph of the tensors among the operands (with these types inside), and of the
        surrounding open sizes. Operands that are numbers are used inside directly. `give` makes the
        results of the closed graph from those of the module.
        """
        extents = self.bodies.extents()

        def body(*inputs: Node) -> list[Node]:
            params = list(inputs[: len(types)])
            given = [params.pop(0) if isinstance(v, Node) else v for v in operands]
            results = give(self.bodies.inside(module, given, list(inputs[len(types) :])))
            if not all(isinstance(value, Node) for value in results):
                raise NotExpressible("a graph inside it gives numbers, not tensors")
            return results

        return build.graph("body", [*types, *(node.type for node in extents)], body)


def cond(op: HigherOrder) -> list[Any]:
    """`torch.cond`: a conditional with two branches; a result that is None in both is None."""
    choice, given = op.args[0], op.operands(3)
    if isinstance(choice, bool):
        return op.bodies.inner(op.graph(1 if choice else 2), given)
    if not isinstance(choice, Node):
        raise NotExpressible("its condition is not a tensor")
    tensors = nodes(given)
    kept = [number for number, type in enumerate(op.types) if type is not None]
    if not kept:
        return [None] * len(op.types)

    def fitted(results: list[Any]) -> list[Any]:
        return [fit(results[number], op.types[number]) for number in kept]

    types = [node.type for node in tensors]
    branches = tuple(op.closed(op.graph(n), given, types, fitted) for n in (2, 1))
    index = build.cast(build.reshape(choice, ()), DType.I32)
    loop_results = build.results(Node.of(Cond(branches), index, *tensors, *op.bodies.extents()))
    by_number = dict(zip(kept, loop_results, strict=True))
    return [by_number.get(number) for number in range(len(op.types))]


def while_loop(op: HigherOrder) -> list[Any]:
    """`while_loop`; loop-invariant operands are carried, too."""
    carried, more = op.operands(2), op.operands(3)
    if not all(isinstance(value, Node) for value in carried):
        raise NotExpressible("it carries a number, not a tensor")
    given = [*carried, *more]
    tensors, extents = nodes(given), op.bodies.extents()
    types = [node.type for node in tensors]

    def holds(results: list[Any]) -> list[Any]:
        return [fit(results[0], Type(DType.BOOL))]

    def step(results: list[Any]) -> list[Any]:
        return [fit(value, type) for value, type in zip(results, types, strict=False)]

    going = op.closed(op.graph(0), given, types, holds)
    turn = op.closed(op.graph(1), given, types, step)
    same = {f"same{n}": node for n, node in enumerate(turn.inputs[len(carried) :])}
    turn = Graph(turn.name, turn.inputs, {**turn.outputs, **same})
    values = build.results(Node.of(While(going, turn), *tensors, *extents))
    return list(values[: len(carried)])


def scan(op: HigherOrder) -> list[Any]:
    """`scan`: the results are the last carried values and the steps' outputs, stacked."""
    carried, slices, more = op.operands(1), op.operands(2), op.operands(3)
    return steps(op, op.graph(0), carried, slices, more)


def mapped(op: HigherOrder) -> list[Any]:
    """`map`: a graph on each slice along the first axis."""
    return steps(op, op.graph(0), [], op.operands(1), op.operands(2))


def associative_scan(op: HigherOrder) -> list[Any]:
    """`associative_scan`: elements are combined one by one, an order that the operation permits."""
    slices, more = op.operands(1), op.operands(2)
    length = tensor(slices[0]).shape[0]
    first = [rows_of(tensor(x), 0, 1) for x in slices]
    rest = [rows_of(tensor(x), 1, length) for x in slices]
    begin = [build.reshape(x, x.shape[1:]) for x in first]
    results = steps(op, op.graph(0), begin, rest, more, twice=True)[len(begin) :]
    return [build.concat(pair, 0) for pair in zip(first, results, strict=True)]


def steps(
    op: HigherOrder,
    module: GraphModule,
    carried: Sequence[Any],
    slices: Sequence[Any],
    more: Sequence[Any],
    twice: bool = False,
) -> list[Any]:
    """A scan along the first axis of `slices`. With `twice`, carried values are outputs of each
    step as well.
    """
    if not slices:
        raise NotExpressible("it scans no tensor")
    rows = [tensor(x) for x in slices]
    length: Dim = rows[0].shape[0]
    begin = [tensor(x) for x in carried]
    rest, extents = nodes(more), op.bodies.extents()
    inside = [Type(x.type.dtype, x.shape[1:]) for x in rows]
    types = [*(x.type for x in begin), *inside, *(x.type for x in rest)]

    def step(results: list[Any]) -> list[Any]:
        carry = [fit(v, x.type) for v, x in zip(results, begin, strict=False)]
        return [*carry, *(carry if twice else results[len(begin) :])]

    body = op.closed(module, [*begin, *rows, *more], types, step)
    scan_op = Scan(body, length, carries=len(begin), scanned=len(rows))
    return list(build.results(Node.of(scan_op, *begin, *rows, *rest, *extents)))


def rows_of(x: Node, start: Dim, stop: Dim) -> Node:
    """A part of x along its first axis."""
    others = x.shape[1:]
    return build.slice_(x, [start, *[0] * len(others)], [stop, *others])


def nodes(values: Sequence[Any]) -> list[Node]:
    """The tensors among operands."""
    return [value for value in values if isinstance(value, Node)]


def tensor(value: Any) -> Node:
    """An operand that must be a tensor. Raises NotExpressible."""
    if not isinstance(value, Node):
        raise NotExpressible("an operand that changes from step to step is not a tensor")
    return value


def fit(value: Any, type: Type | None) -> Any:
    """A result of a body in the carried shape, which may be written differently. Raises
    NotExpressible for another element type.
    """
    if not isinstance(value, Node) or type is None:
        return value
    if value.type.dtype is not type.dtype:
        raise NotExpressible(f"a graph inside it gives {value.type.dtype}, not {type.dtype}")
    return build.reshape(value, type.shape)


OPERATIONS: dict[str, Callable[[HigherOrder], list[Any]]] = {
    "cond": cond,
    "while_loop": while_loop,
    "scan": scan,
    "map_impl": mapped,
    "map": mapped,
    "associative_scan": associative_scan,
}
"""Higher-order operations, by PyTorch's names."""
