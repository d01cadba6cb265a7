"""Writes nodes of an ONNX graph: names, constants, sizes, and errors for what ONNX cannot
express.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from xlac.exporters.graph_writer import GraphWriter
from xlac.exporters.onnx.written import REFUSED, WRITTEN
from xlac.exporters.open_sizes import SizeWriter, held
from xlac.exporters.unsaid import Unsaid
from xlac.ir.composite import Composite
from xlac.ir.dims import Dim, Shape, Sym, Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.ranges import size_text
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import Const, param
from xlac_sdk.dtypes import DType
from xlac_sdk.support.unused_names import unused_name

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUNDS = "xlac.size."  # prefix of metadata keys
OPSET = 21
"""The operator set that is written: it has all that is needed, and every runtime since 2024
supports it.
"""

ELEMENT: dict[DType, int] = {
    DType.F64: TensorProto.DOUBLE, DType.F32: TensorProto.FLOAT, DType.F16: TensorProto.FLOAT16,
    DType.BF16: TensorProto.BFLOAT16, DType.I8: TensorProto.INT8, DType.I16: TensorProto.INT16,
    DType.I32: TensorProto.INT32, DType.I64: TensorProto.INT64, DType.U8: TensorProto.UINT8,
    DType.U16: TensorProto.UINT16, DType.U32: TensorProto.UINT32, DType.U64: TensorProto.UINT64,
    DType.BOOL: TensorProto.BOOL,
}  # fmt: skip

Rule = Callable[..., "str | Sequence[str]"]
RULES: dict[str, Rule] = {}


def rule(*mnemonics: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operations: a function of the writer, the node and the names of its
    operands.

    It returns the name of the result, or several names. A composite's rule raises `Unsaid` to have
    it expanded. Every operation with a rule must be listed in `written.py`; AssertionError
    otherwise.
    """
    strange = set(mnemonics) - WRITTEN
    assert not strange, f"written.py lacks {', '.join(sorted(strange))}"

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(mnemonics, function))
        return function

    return add


class OnnxWriter(GraphWriter[str], SizeWriter[str]):
    """One ONNX graph. Rules write to the current subgraph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, Array] = {}
        self.opset = OPSET
        self._taken: set[str] = {
            param(n).name for n in graph.nodes() if n.op.mnemonic == "param"
        } | {*graph.outputs}
        self._constants: dict[tuple[Any, ...], str] = {}
        self._sizes: dict[str, str] = {}
        self._inputs = graph.inputs
        self._root = self.nodes

    # ---- writing -----------------------------------------------------------------------------

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Writes an operator with one result, and gives the result's name."""
        return self.many(kind, inputs, 1, **attributes)[0]

    def many(self, kind: str, inputs: Sequence[str], count: int, **attributes: Any) -> list[str]:
        """Writes an operator with several results."""
        names = [self.fresh(self.hint or kind) for _ in range(count)]
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=names[0], **attributes))
        return names

    def fresh(self, wanted: str) -> str:
        """An unused name, as close to the wanted one as possible."""
        return unused_name(wanted, self._taken)

    def constant(self, value: Any, dtype: DType = DType.I64, name: str = "") -> str:
        """A constant, written once in the outermost graph."""
        array = np.asarray(value, dtype.numpy)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.fresh(name or "const")
            self.initializers[self._constants[key]] = array
        return self._constants[key]

    def cast(self, x: str, dtype: DType) -> str:
        """Cast as defined by ONNX, without the guarantees of our casts: see `convert.converted`."""
        return self.op("Cast", x, to=ELEMENT[dtype])

    def reshape(self, x: str, shape: Shape) -> str:
        """Reshape to sizes, some of which may be open."""
        open_axes = [a for a, size in enumerate(shape) if isinstance(size, Sym)]
        if len(open_axes) == 1 and 0 not in shape:
            return self.op(
                "Reshape", x, self.constant([-1 if isinstance(n, Sym) else n for n in shape])
            )
        return self.op("Reshape", x, self.shape(shape), allowzero=1)

    def transpose(self, x: str, order: Sequence[int]) -> str:
        """x with its axes in another order."""
        return x if [*order] == [*range(len(order))] else self.op("Transpose", x, perm=[*order])

    def least(self, x: str, y: str) -> str:
        """The smaller of 64-bit integers, by comparison: ONNX Runtime 1.31 computes Min and Max of
        them in 32 bits.
        """
        return self.op("Where", self.op("Less", x, y), x, y)

    def most(self, x: str, y: str) -> str:
        """The larger of integers of 64 bits."""
        return self.op("Where", self.op("Less", x, y), y, x)

    # ---- sizes -------------------------------------------------------------------------------

    def shape(self, shape: Sequence[Dim]) -> str:
        """A vector of sizes."""
        if all(isinstance(size, int) for size in shape):
            return self.constant(np.array(shape, np.int64))
        return self.op("Concat", *(self.size(size) for size in shape), axis=0)

    def size(self, size: Dim) -> str:
        """A size as a vector of one element."""
        if not isinstance(size, Sym):
            return self.constant([size])
        text = str(size)
        if text not in self._sizes:
            with self.outermost():
                self._sizes[text] = self.value(size)
        return self._sizes[text]

    # ---- the arithmetic of sizes

    def number(self, value: int) -> str:
        return self.constant([value])

    def symbol(self, symbol: Symbol) -> str:
        at = held(symbol, self._inputs)
        value = self.op("Shape", param(at.node).name, start=at.axis, end=at.axis + 1)
        value = self.op("Sub", value, self.constant([at.rest])) if at.rest else value
        return self.op("Div", value, self.constant([at.factor])) if at.factor != 1 else value

    def added(self, x: str, y: str) -> str:
        return self.op("Add", x, y)

    def multiplied(self, x: str, y: str) -> str:
        return self.op("Mul", x, y)

    def divided(self, x: str, by: int) -> str:
        return self.op("Div", x, self.constant([by]))

    # ---- subgraphs ---------------------------------------------------------------------------

    @contextmanager
    def outermost(self) -> Iterator[None]:
        """In the block, writes to the outermost graph, whose values every subgraph may read."""
        before, self.nodes = self.nodes, self._root
        try:
            yield
        finally:
            self.nodes = before

    def subgraph(
        self, name: str, inputs: Sequence[tuple[str, Type]], fill: Callable[[], Sequence[str]]
    ) -> onnx.GraphProto:
        """A subgraph with the nodes that `fill` writes and the results that it returns."""
        before, self.nodes = self.nodes, []
        try:
            # a result must be computed inside the subgraph
            results = [self.op("Identity", r) for r in fill()]
            outputs = [onnx.ValueInfoProto(name=r) for r in results]
            return helper.make_graph(
                self.nodes, name, [value_info(n, t) for n, t in inputs], outputs
            )
        finally:
            self.nodes = before

    def leaf(self, node: Node) -> str:
        if isinstance(node.op, Const):
            return self.constant(node.op.value, DType.of(node.op.value.dtype), node.name)
        return param(node).name

    def placeholder(self, type: Type) -> str:
        return ""

    def written(self, node: Node, values: dict[Node, Any]) -> Any:
        rule = RULES.get(node.op.mnemonic)
        if rule is not None:
            mark = len(self.nodes)
            try:
                results = rule(self, node, *(values[i] for i in node.inputs))
                return results if isinstance(results, str) or len(node.results) > 1 else results[0]
            except Unsaid:
                if not isinstance(node.op, Composite):
                    raise
                del self.nodes[mark:]
        return self.expansion(node, values, REFUSED.get(node.op.mnemonic))


def declare_bounds(proto: onnx.ModelProto, dims: Mapping[str, Symbol]) -> None:
    """Writes what is known of open sizes, for which ONNX has no field, as metadata of the model:
    `xlac.size.NAME` is `1..8`, `4..` or `2..64 multiple_of 2 opt 16`.
    """
    for name, size in dims.items():
        value, key = size_text(size), f"{BOUNDS}{name}"
        if not value:
            continue
        others = [entry for entry in proto.metadata_props if entry.key != key]
        del proto.metadata_props[:]
        proto.metadata_props.extend(others)
        entry = proto.metadata_props.add()
        entry.key, entry.value = key, value


def value_info(name: str, type: Type) -> onnx.ValueInfoProto:
    """The declaration of a value."""
    info: onnx.ValueInfoProto = helper.make_tensor_value_info(
        name, ELEMENT[type.dtype], [d if isinstance(d, int) else str(d) for d in type.shape]
    )
    return info


def known(shape: Shape, what: str) -> tuple[int, ...]:
    """A shape as integers. Raises Unsaid for an open size."""
    if any(isinstance(size, Sym) for size in shape):
        raise Unsaid(f"{what} of open sizes")
    return tuple(int(str(size)) for size in shape)
