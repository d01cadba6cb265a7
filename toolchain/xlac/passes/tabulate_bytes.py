"""Replaces functions of one byte by table lookups: a chain of operations is evaluated for all 256
bytes at compile time. Planes of bytes are brought to pixels here too (`rules/bytes/planes.py`).

    u8(round(sigmoid((f32(x) - 7) * 0.1) / 0.004))  >>  table[x]

It runs late, so that no other rule sees the lookups. Chains that cost less than a lookup are
unchanged.
"""

from __future__ import annotations

import numpy as np

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.op import Array, frozen_array
from xlac.ops.scalar.arithmetic import Add, Div, Erf, Mul, Round
from xlac.ops.scalar.convert import Bitcast, Cast
from xlac.ops.scalar.primitive import Scalar
from xlac.ops.tensor.gather import Gather, is_lookup
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast
from xlac.passes.registry import Pass, at_least, register
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.rewriter import MOST, rewrite
from xlac.passes.rewrite.rule import Parameter, Rule, Site, constant, rule
from xlac.passes.rewrite.trace import Trace
from xlac.passes.rules.bytes.operands import BYTES
from xlac.passes.rules.bytes.planes import BYTE_PLANES
from xlac.passes.rules.constants import POINTWISE
from xlac_sdk.dtypes import DType
from xlac_sdk.kernel_ir.primitives import TRANSCENDENTAL

LONGEST = 256  # nodes of a chain
CHEAP = 24  # vector operations per element, below which a lookup takes longer
CHEAP_PERMUTED = 6  # the same where the table fits in registers
DIVISION, FUNCTION, LOOKUP = 4, 16, 8  # the cost of each, in vector operations


def looked_up(node: Node) -> tuple[Array, Node] | None:
    """The table of 256 entries and the byte that a node looks up; None for any other node."""
    if not is_lookup(node) or not isinstance(node.inputs[0].op, Const):
        return None
    table, byte = node.inputs[0].op.value, node.inputs[1]
    if table.shape != (256,) or byte.type.dtype is not DType.U8:
        return None
    if isinstance(byte.op, Bitcast):
        (byte,) = byte.inputs
    return (table, byte) if byte.type.dtype in BYTES and byte.shape == node.shape else None


def chain(node: Node) -> tuple[list[Node], Node] | None:
    """The operations that compute a node from one tensor of bytes, in order, and that tensor."""
    order: dict[Node, None] = {}
    sources: dict[Node, None] = {}
    stack = [(node, False)]
    while stack:
        one, ready = stack.pop()
        if ready:
            order[one] = None
            continue
        if one in order or constant(one) is not None:
            continue
        table = looked_up(one)
        if table is None and one.type.dtype in BYTES and one is not node:
            sources[one] = None
            continue
        if table is None and not isinstance(one.op, POINTWISE):
            return None
        if one.shape != node.shape or len(order) > LONGEST or len(sources) > 1:
            return None
        stack.append((one, True))
        stack += [(i, False) for i in ((table[1],) if table else one.inputs)]
    if len(sources) != 1:
        return None
    (source,) = sources
    return list(order), source


def weight(node: Node) -> int:
    """The approximate cost of an operation, in vector operations."""
    if isinstance(node.op, Gather):
        return LOOKUP
    if isinstance(node.op, Scalar) and getattr(node.op, "primitive", None) in TRANSCENDENTAL:
        return FUNCTION
    return DIVISION if isinstance(node.op, Div) else 1


def every(source: Node) -> Array:
    """All values of a byte, in the order of their bits."""
    return np.arange(256, dtype=np.uint8).view(source.type.dtype.numpy)


def tabulated(order: list[Node], source: Node) -> Array:
    """The value of the last operation for every byte."""
    values: dict[Node, Array] = {source: every(source)}

    def value(node: Node) -> Array:
        if node not in values:
            number = constant(node)
            assert number is not None
            values[node] = np.full(256, number, node.type.dtype.numpy)
        return values[node]

    with np.errstate(all="ignore"):
        for node in order:
            table = looked_up(node)
            if table is not None:
                values[node] = table[0][value(table[1]).view(np.uint8)]
            else:
                values[node] = evaluate(node, [(value(i),) for i in node.inputs])[0]
    return values[order[-1]]


def _number(x: Node, value: float) -> Node:
    return Node.of(Broadcast(x.shape, ()), Node.of(Const(np.asarray(value, np.float32))))


def _quantized(p: Parameter, dtype: DType, to: DType) -> Node:
    """An example: a long function of bytes that are read twice."""
    x = Node.of(Cast(DType.F32), p(5, 80, dtype=dtype))
    y = Node.of(Erf(), Node.of(Mul(), Node.of(Add(), x, _number(x, -7.0)), _number(x, 0.05)))
    y = Node.of(Div(), Node.of(Mul(), x, y), _number(x, 0.25))
    return Node.of(Cast(to), Node.of(Round(), y))


@rule(
    Cast,
    examples=[
        lambda p: _quantized(p, DType.U8, DType.U8),
        lambda p: _quantized(p, DType.I8, DType.U8),
        lambda p: _quantized(p, DType.U8, DType.I8),
    ],
)
def function_of_a_byte(node: Node, site: Site) -> Node | None:
    """Replaces a byte that is a function of another byte by a lookup."""
    if node.type.dtype not in BYTES or site.context.target.device != "cpu":
        return None
    match = chain(node)
    if match is None:
        return None
    order, source = match
    if source.type == node.type and np.array_equal(tabulated(order, source), every(source)):
        return source  # quantized again by the scale that it had
    # a lookup followed by more operations becomes one lookup
    longer = any(looked_up(one) for one in order)
    least = CHEAP_PERMUTED if site.context.target.byte_tables else CHEAP
    usual = longer or sum(map(weight, order)) >= least
    if not site.context.choices.applies("a table of bytes", node, usual):
        return None
    table = site.make(Const(frozen_array(tabulated(order, source))))
    byte = source if source.type.dtype is DType.U8 else site.make(Bitcast(DType.U8), source)
    op = Gather((), (0,), (), (), (0,), node.type.rank, (1,))
    return site.make(op, table, byte)


RULES: tuple[Rule, ...] = (function_of_a_byte, *BYTE_PLANES)


@register("tabulate-bytes")
class TabulateBytesPass(Pass):
    """Replaces long functions of one byte by lookups, and joins planes of bytes to pixels.

    `limit` bounds the rewrites that one node of the graph may set off.
    """

    limit: int = at_least(0, MOST)

    def run(self, graph: Graph, trace: Trace, context: PassContext) -> Graph:
        return rewrite(graph, RULES, trace, context, self.limit)
