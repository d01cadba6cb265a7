"""Mixed precision: a graph of f32 whose products, and what follows them, are of a half type.

The rules are those of torch.autocast: which operations take halves, which f32, and which the widest
type that they meet. Weights stay f32 and are rounded where they are used, so their gradients come
back as f32.
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
    "acos acosh asin asinh atan2 bessel_i1e binary_cross_entropy binary_cross_entropy_with_logits cholesky cosh "
    "cosine_similarity cross_entropy cummax cummin cumprod cumsum cumulative digamma erf_inv erfc exp exp2 expm1 fft "
    "group_norm huber_loss instance_norm kl_div l1_loss layer_norm lgamma local_response_norm log log1p log2 log_softmax "
    "logsumexp mean mse_loss next_after nll_loss norm normalize polygamma pow prod reciprocal reduce rms_norm "
    "rsqrt scatter scatter_add scatter_elements scatter_nd sinh softmax softmax_cross_entropy softplus sqrt square "
    "squared_difference std sum tan triangular_solve var window zeta".split()
)
"""Sums, norms, softmax, losses, and what loses the digits of a half: in f32, with an f32 result."""
BACK = frozenset({"batch_norm"})
"""In f32, and rounded back to the half type where what they are given is of it."""
CONTROL = Scan | While | BoundedWhile | Cond | Call | CustomGradient


class MixedPrecision:
    """Nodes of the same types and meaning, computed in a half type where that is worth it. Values
    of f64 stay as they are; bodies of loops and branches take and give what they did.
    """

    def __init__(self, half: DType) -> None:
        self.half = half
        self.new: dict[Node, Node] = {}

    def nodes(self, roots: Sequence[Node]) -> list[Node]:
        """The roots; nodes of an earlier call are what they became then."""
        for node in walk(roots, self.new):
            self._visit(node)
        return [_cast(self.new[root], root.type.dtype) for root in roots]

    def _visit(self, node: Node) -> None:
        inputs = [self.new[i] for i in node.inputs]
        if isinstance(node.op, Pick):
            self.new[node] = replace(pick(inputs[0], node.op.index), origin=node.origin)
        elif isinstance(node.op, CONTROL):
            same = self._as_before(node, inputs)
            self.new[node] = map_bodies(same, self._body)
        else:
            self.new[node] = self._mixed(node, inputs)

    def _body(self, body: Graph) -> Graph:
        names, roots = list(body.outputs), list(body.outputs.values())
        found = MixedPrecision(self.half).nodes(roots)
        if all(a is b for a, b in zip(found, roots, strict=True)):
            return body
        return Graph(body.name, body.inputs, dict(zip(names, found, strict=True)))

    def _mixed(self, node: Node, inputs: list[Node]) -> Node:
        """The node in the precision that its operation asks for."""
        mnemonic, floats = node.op.mnemonic, _floats(node)
        if not floats or isinstance(node.op, Cast):
            return _again(node, inputs)
        if floats != {DType.F32} or mnemonic in WIDE:
            return self._as_before(node, inputs)
        if mnemonic in BACK:
            found = self._as_before(node, inputs)
            return _cast(found, inputs[0].type.dtype)
        if mnemonic in PRODUCTS:
            return _again(node, [self._operand(i, self.half) for i in inputs])
        met = {i.type.dtype for i in inputs if i.type.dtype.is_float and not _weak(i)}
        wanted = self.half if met == {self.half} else DType.F32
        try:
            return _again(node, [self._operand(i, wanted) for i in inputs])
        except ShapeError:  # an operation that knows no halves
            return self._as_before(node, inputs)

    def _operand(self, node: Node, dtype: DType) -> Node:
        return _cast(node, dtype) if node.type.dtype.is_float else node

    def _as_before(self, node: Node, inputs: Sequence[Node]) -> Node:
        """The node on operands of the types that it had."""
        back = [
            _cast(i, old.type.dtype) if old.type.dtype.is_float else i
            for i, old in zip(inputs, node.inputs, strict=True)
        ]
        return _again(node, back)


def _again(node: Node, inputs: Sequence[Node]) -> Node:
    """The operation on other inputs, of which the types may differ. Raises ShapeError."""
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    types = [i.types for i in inputs]
    if types == [i.types for i in node.inputs]:
        return node.with_inputs(tuple(inputs))
    return Node.of(node.op, *inputs, origin=node.origin)


def _cast(node: Node, dtype: DType) -> Node:
    """The node in another type: of a value that was rounded to it, the rounded one."""
    if node.type.dtype is dtype:
        return node
    made = build.cast(node, dtype)
    return replace(made, origin=node.origin) if made.origin is None else made


def _floats(node: Node) -> set[DType]:
    """The float types that a node takes."""
    return {i.type.dtype for i in node.inputs if i.type.dtype.is_float}


def _weak(node: Node) -> bool:
    """Whether a value is a number that somebody wrote, whose type is that of what it meets."""
    while isinstance(node.op, Broadcast | Reshape | Cast):
        node = node.inputs[0]
    op: Op = node.op
    return isinstance(op, Const) and not node.type.shape
