"""The cost of operations: arithmetic and memory traffic, at the sizes to optimise for.

An addition, a comparison or an exponential of one element counts as one operation, a multiply-add
as two; moving elements counts as none. A composite costs as much arithmetic as its expansion, but
reads and writes only its own operands and results, as intermediate values stay in the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from xlac.ir.composite import Composite
from xlac.ir.dims import size_hint
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Op, ShapeError
from xlac.ir.types import Type
from xlac.ops.collective.group import Collective
from xlac.ops.control.bounded import BoundedWhile, CountedScan
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.control.custom_op import CustomOp
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.scalar.comparison import Compare, Select
from xlac.ops.scalar.convert import Bitcast, Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.dynamic_slice import DynUpdate
from xlac.ops.tensor.leaf import Const, Iota, Param, RngBits
from xlac.ops.tensor.scatter import Scatter


@dataclass(frozen=True, slots=True)
class Cost:
    """Arithmetic operations, and bytes read and written."""

    flops: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.flops + other.flops, self.read + other.read, self.written + other.written)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.flops * times, self.read * times, self.written * times)


def cost(node: Node) -> Cost:
    """The cost of one node."""
    op = node.op
    if isinstance(op, Param | Const | Pick):
        return Cost()
    read = sum(nbytes(i.types) for i in node.inputs if isinstance(i.types, Type))
    written = sum(map(nbytes, node.results))
    match op:
        case Scan(body=Graph() as body) | CountedScan(body=Graph() as body):
            return total(body) * size_hint(op.length)
        case BoundedWhile(cond=Graph() as cond, body=Graph() as body):
            return (total(cond) + total(body)) * size_hint(op.max)
        case While(cond=Graph() as cond, body=Graph() as body):
            return total(cond) + total(body)  # of one iteration: their number is not known
        case Cond(branches=branches):
            return max((total(b) for b in branches), key=lambda w: w.flops, default=Cost())
        case Call(body=Graph() as body):
            return total(body)
        case DynUpdate() | Scatter():
            # only the updated part is moved
            update = node.inputs[-1 if isinstance(op, Scatter) else 1].type
            return Cost(
                size_hint(update.size) if isinstance(op, Scatter) else 0,
                read - node.inputs[0].type.nbytes,
                update.nbytes,
            )
    return Cost(flops(op, tuple(i.type for i in node.inputs), node.results), read, written)


@lru_cache(maxsize=65536)
def nbytes(type: Type) -> int:
    """Bytes of a tensor, cached by type."""
    return type.nbytes


def total(graph: Graph) -> Cost:
    """The total cost of all nodes of a graph."""
    cost_of_graph = Cost()
    for node in graph.nodes():
        cost_of_graph = cost_of_graph + cost(node)
    return cost_of_graph


@lru_cache(maxsize=4096)
def flops(op: Op, inputs: tuple[Type, ...], results: tuple[Type, ...]) -> int:
    """Arithmetic operations of an operation without control flow."""
    size = sum(size_hint(t.size) for t in results)
    first = size_hint(inputs[0].size) if inputs else 0
    match op:
        case CustomOp(body=Graph() as body):
            return total(body).flops
        case Scalar() | Compare() | Select():
            return size
        case Cast() | Bitcast() | Iota():
            return 0
        case RngBits():
            return 20 * size
        case Dot():
            return 2 * size * prod(size_hint(inputs[0].shape[a]) for a in op.contract_lhs)
        case Conv():
            kernel, out = inputs[1], op.layout[1].index("O")
            return 2 * size * size_hint(kernel.size) // max(1, size_hint(kernel.shape[out]))
        case Reduce():
            return sum_sizes(inputs)
        case Window():
            return size * prod(op.window)
        case Cumulative():
            return first
        case Sort():
            last = first if op.kept is None else op.kept
            return first * max(1, last.bit_length())
        case Collective():
            return first if hasattr(op, "combine") else 0  # what it sends is spmd/cost.py's
        case Composite():
            return expansion_flops(op, inputs)
    return 0


def sum_sizes(types: tuple[Type, ...]) -> int:
    """The total elements of some types, symbolic sizes at their hints."""
    return sum(size_hint(t.size) for t in types)


def expansion_flops(op: Composite, inputs: tuple[Type, ...]) -> int:
    """The arithmetic of a composite's expansion."""
    params = [Node.of(Param(name=f"x{i}", type=type)) for i, type in enumerate(inputs)]
    try:
        outputs = op.expanded(*params)
    except ShapeError:
        return 0
    return total(
        Graph(op.mnemonic, tuple(params), {f"y{i}": node for i, node in enumerate(outputs)})
    ).flops
