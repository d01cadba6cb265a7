"""Mixed precision: matrix products and the operations after them in f16 or bf16, in an f32 graph.

The rules are those of torch.autocast: which operations run in half precision, which in f32, and
which in the widest type of their operands. Weights stay f32 and are rounded where they are used, so
their gradients are f32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xlac.ir.graph import Graph, Node, map_bodies, pick, walk
from xlac.ir.op import Op, ShapeError
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.scalar.convert import Cast
from xlac.ops.tensor.leaf import Const
from xlac.ops.tensor.view import Broadcast, Reshape
from xlac.spec.training.products import PRODUCTS
from xlac_sdk.dtypes import DType

WIDE = frozenset(
    "acos acosh asin asinh atan2 bessel_i1e binary_cross_entropy "
    "binary_cross_entropy_with_logits cholesky cosh dct "
    "cosine_similarity cross_entropy cummax cummin cumprod cumsum cumulative det digamma "
    "eigh erf_inv erfc exp exp2 expm1 fft "
    "group_norm householder_product householder_qr huber_loss instance_norm "
    "inv irfft kl_div l1_loss layer_norm lgamma local_response_norm log log1p log2 log_softmax "
    "logsumexp lu lu_solve mean mse_loss next_after nll_loss norm normalize polygamma pow prod "
    "qr reciprocal reduce rms_norm "
    "rsqrt scatter scatter_add scatter_elements scatter_nd sinh slogdet softmax "
    "softmax_cross_entropy softplus solve sqrt square "
    "squared_difference std sum svd tan triangular_solve var window zeta".split()
)
"""Computed in f32 with an f32 result, because half precision loses too much: sums, norms, softmax,
losses.
"""
BACK = frozenset({"batch_norm"})
"""Computed in f32, with the result rounded back to the type of the first operand."""
CONTROL = Scan | While | BoundedWhile | Cond | Call | CustomGradient


class MixedPrecision:
    """Rewrites nodes to compute in the type `half` by the rules above; the roots keep their dtypes.
    f64 values are left alone; bodies of loops and branches keep the types of their parameters and
    results.
    """

    def __init__(self, half: DType) -> None:
        self.half = half
        self.new: dict[Node, Node] = {}

    def nodes(self, roots: Sequence[Node]) -> list[Node]:
        """The rewritten roots, of their old dtypes. Nodes seen in an earlier call are not rewritten
        again.
        """
        for node in walk(roots, self.new):
            self._visit(node)
        return [_cast(self.new[root], root.type.dtype) for root in roots]

    def _visit(self, node: Node) -> None:
        inputs = [self.new[i] for i in node.inputs]
        if isinstance(node.op, Pick):
            self.new[node] = replace(pick(inputs[0], node.op.index), origin=node.origin)
        elif isinstance(node.op, CONTROL):
            same = self._in_old_types(node, inputs)
            self.new[node] = map_bodies(same, self._body)
        else:
            self.new[node] = self._mixed(node, inputs)

    def _body(self, body: Graph) -> Graph:
        names, roots = list(body.outputs), list(body.outputs.values())
        results = MixedPrecision(self.half).nodes(roots)
        if all(a is b for a, b in zip(results, roots, strict=True)):
            return body
        return Graph(body.name, body.inputs, dict(zip(names, results, strict=True)))

    def _mixed(self, node: Node, inputs: list[Node]) -> Node:
        """The node in the precision that the rules give its operation."""
        mnemonic, floats = node.op.mnemonic, _floats(node)
        if not floats or isinstance(node.op, Cast):
            return _with_operands(node, inputs)
        if floats != {DType.F32} or mnemonic in WIDE:
            return self._in_old_types(node, inputs)
        if mnemonic in BACK:
            computed = self._in_old_types(node, inputs)
            return _cast(computed, inputs[0].type.dtype)
        if mnemonic in PRODUCTS:
            return _with_operands(node, [self._operand(i, self.half) for i in inputs])
        met = {i.type.dtype for i in inputs if i.type.dtype.is_float and not _weak(i)}
        wanted = self.half if met == {self.half} else DType.F32
        try:
            return _with_operands(node, [self._operand(i, wanted) for i in inputs])
        except ShapeError:  # an operation without half-precision types
            return self._in_old_types(node, inputs)

    def _operand(self, node: Node, dtype: DType) -> Node:
        return _cast(node, dtype) if node.type.dtype.is_float else node

    def _in_old_types(self, node: Node, inputs: Sequence[Node]) -> Node:
        """The node on operands cast back to their types in the original graph."""
        back = [
            _cast(i, old.type.dtype) if old.type.dtype.is_float else i
            for i, old in zip(inputs, node.inputs, strict=True)
        ]
        return _with_operands(node, back)


def _with_operands(node: Node, inputs: Sequence[Node]) -> Node:
    """The node's operation on other inputs, its type inferred anew. Raises ShapeError."""
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    types = [i.types for i in inputs]
    if types == [i.types for i in node.inputs]:
        return node.with_inputs(tuple(inputs))
    return Node.of(node.op, *inputs, origin=node.origin)


def _cast(node: Node, dtype: DType) -> Node:
    """The node in another float type; `build.cast` undoes a cast from that type."""
    if node.type.dtype is dtype:
        return node
    cast = build.cast(node, dtype)
    return replace(cast, origin=node.origin) if cast.origin is None else cast


def _floats(node: Node) -> set[DType]:
    """The float types of a node's operands."""
    return {i.type.dtype for i in node.inputs if i.type.dtype.is_float}


def _weak(node: Node) -> bool:
    """Whether a value is a scalar literal, which takes its type from the other operands."""
    while isinstance(node.op, Broadcast | Reshape | Cast):
        node = node.inputs[0]
    op: Op = node.op
    return isinstance(op, Const) and not node.type.shape
