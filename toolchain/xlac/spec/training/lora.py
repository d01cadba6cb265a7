"""Low-rank adaptation (LoRA; Hu and others, 2021): factors that learn in place of weights.

A weight W of [out, in] is frozen, and the model uses W + alpha / rank * B A, with B of [out, rank]
and A of [rank, in]. Products, lookups and convolutions with W add a branch with A and then B; any
other operation reads the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import prod, sqrt

from xlac.ir.dims import Dim
from xlac.ir.graph import Node, walk
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.nn.convolution import ForwardConvolution
from xlac.ops.nn.linear import Linear, Matmul
from xlac.ops.tensor.choose import Embedding
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.schema.training import LoraSpec
from xlac.spec.schema.weights import TensorInit
from xlac.spec.weights.initial import draw
from xlac.spec.weights.low_rank_file import merged
from xlac_sdk.source import Origin


@dataclass(frozen=True, eq=False)
class LowRank:
    """The factors of one weight: `a`, [rank, in], with the window of a convolution in it, and `b`,
    [out, rank]. `flipped`: the weight is [in, out], so the product of factors is transposed. For an
    embedding (`looked_up`), `in` is the number of rows of the table.
    """

    weight: Node
    spec: LoraSpec
    a: Node
    b: Node
    flipped: bool
    looked_up: bool

    @property
    def scale(self) -> float:
        """The factor of the product: alpha / rank."""
        return (self.spec.rank if self.spec.alpha is None else self.spec.alpha) / self.spec.rank

    def sides(self) -> tuple[Node, Node]:
        """The matrices whose product is the weight's change, with the weight's axes flattened to
        two.
        """
        b = build.reshape(self.b, self.b.shape[:2])
        a = build.reshape(self.a, (self.spec.rank, _fixed_volume(self.a.shape[1:])))
        return (transposed(a), transposed(b)) if self.flipped else (b, a)

    def summed(self) -> Node:
        """The weight with its change, as a node."""
        left, right = self.sides()
        change = build.reshape(product(left, right), self.weight.shape)
        return build.add(self.weight, build.mul(change, self.scale))

    def merged(self, weight: Array, a: Array, b: Array) -> Array:
        """The weight with its change, as an array of the weight's type; computed in float64."""
        return merged(weight, a, b, self.scale, self.flipped)

    def initial(self, seed: int) -> dict[str, Callable[[], Array]]:
        """Functions that make the initial values by name, as in Hugging Face's PEFT: `a` uniform
        within 1 / sqrt(in) and `b` zero; for an embedding `a` zero and `b` normal. So the change is
        zero at first.
        """
        most = 1 / sqrt(_fixed_volume(self.a.shape[1:]))
        uniform = TensorInit(scheme="uniform", low=-most, high=most)
        zeros, normal = TensorInit(scheme="zeros"), TensorInit(scheme="normal", std=1.0)
        how = {
            self.a: zeros if self.looked_up else uniform,
            self.b: normal if self.looked_up else zeros,
        }
        return {
            node.name: lambda node=node, one=one: draw(node.name, node.type, seed, one)  # type: ignore[misc]
            for node, one in how.items()
        }


def _fixed_volume(shape: Sequence[Dim]) -> int:
    """The number of elements in axes of fixed size."""
    return prod(n for n in shape if isinstance(n, int))


def product(x: Node, y: Node) -> Node:
    """x @ y."""
    return Node.of(Matmul(), x, y)


def transposed(matrix: Node) -> Node:
    """The transpose of a matrix."""
    return build.transpose(matrix, (1, 0))


def low_rank(
    specs: Mapping[str, LoraSpec],
    weights: Mapping[str, Node],
    roots: Iterable[Node],
    place: Place,
    context: Elaboration,
) -> dict[str, LowRank]:
    """The factors of weights whose names match a pattern of `specs`; the first match decides.
    `weights` are those that can learn, `roots` the nodes that use them. Mistakes go to the report.
    """
    report = context.report
    uses: dict[Node, list[Node]] = {}
    for node in walk(roots):
        for i in node.inputs:
            uses.setdefault(i, []).append(node)
    factors: dict[str, LowRank] = {}
    for pattern, spec in specs.items():
        at = place.at("lora", pattern)
        names = [name for name in weights if fnmatchcase(name, pattern)]
        if not names and not report.diagnostics:
            report.add(
                "XL3011",
                f"this pattern fits no weight that can learn: {pattern!r}",
                at.key,
                nearest(pattern, weights),
            )
        for name in names:
            if name in factors:
                continue
            try:
                factors[name] = _factors(weights[name], spec, uses.get(weights[name], []), at)
            except Fault as fault:
                report.fault(fault)
            else:
                for node in (factors[name].a, factors[name].b):
                    if node.name in context.weights:
                        report.add(
                            "XL1021", f"the model has a weight called {node.name!r} already", at.key
                        )
    return factors


def _factors(weight: Node, spec: LoraSpec, uses: Sequence[Node], at: Place) -> LowRank:
    """The factors of a weight. Raises Fault for one that is neither a matrix nor the kernel of a
    convolution.
    """
    shape = weight.shape
    kernel = bool(uses) and all(isinstance(node.op, ForwardConvolution) for node in uses)
    if not all(isinstance(n, int) for n in shape) or not (
        len(shape) == 2 or (kernel and len(shape) > 2)
    ):
        problem = (
            f"{weight.name} is {weight.type}: only matrices and kernels of convolutions have "
            "low-rank factors"
        )
        raise Fault(
            "XL2059", problem, at.key, "a pattern that fits these only; wrt lets others learn"
        )
    rows, columns = _fixed_volume(shape[:1]), _fixed_volume(shape[1:])
    if spec.rank > min(rows, columns):
        problem = f"{weight.name} is {weight.type}, whose rank is at most {min(rows, columns)}"
        raise Fault("XL2059", problem, at.at("rank").span)
    if spec.dropout and (other := [n for n in uses if _branch_of(n, weight) in (None, _of_table)]):
        problem = f"{weight.name} is read by {other[0].op.mnemonic}, which has no input to drop"
        raise Fault("XL2059", problem, at.at("dropout").span, "dropout: 0.0")
    looked_up = any(isinstance(node.op, Embedding) for node in uses)
    flipped = looked_up or any(isinstance(n.op, Matmul) and n.inputs[1] is weight for n in uses)
    if flipped:
        rows, columns = columns, rows
    head = weight.name.removesuffix(".weight")
    names = (
        [f"{head}.lora_embedding_{x}" for x in "AB"]
        if looked_up
        else [f"{head}.lora_{x}.weight" for x in "AB"]
    )
    window = (1,) * (len(shape) - 2)
    a, b = (
        build.param(name, weight.type.dtype, extents, "weight", Origin(name, at.span))
        for name, extents in (
            (names[0], (spec.rank, *((columns,) if flipped else shape[1:]))),
            (names[1], (rows, spec.rank, *window)),
        )
    )
    return LowRank(weight, spec, a, b, flipped, looked_up)


def with_factors(
    roots: Sequence[Node], factors: Mapping[str, LowRank], context: Elaboration
) -> list[Node]:
    """The roots with the factors applied to their weights. Raises Fault for too many operations."""
    by_weight = {one.weight: one for one in factors.values()}
    sums: dict[Node, Node] = {}
    new: dict[Node, Node] = {}
    for node in walk(roots):
        beside = {i: _branch_of(node, i) for i in node.inputs if i in by_weight}
        for weight, change in beside.items():
            if change is None and weight not in sums:
                sums[weight] = _stamped(by_weight[weight].summed(), by_weight[weight], context)
        inputs = tuple(
            sums[i] if i in beside and beside[i] is None else new[i] for i in node.inputs
        )
        use = own = node if inputs == node.inputs else node.with_inputs(inputs)
        for weight, change in beside.items():
            if change is not None:
                one = by_weight[weight]
                changed = build.add(own, build.mul(change(one, use), one.scale))
                own = replace(_stamped(changed, one, context), origin=node.origin)
        new[node] = own
    return [new[root] for root in roots]


def _stamped(node: Node, one: LowRank, context: Elaboration) -> Node:
    """A node, with new nodes that it needs named after the weight, such as h1.lora."""
    path = one.a.name.rpartition(".lora")[0] + ".lora"
    context.stamp([node], Origin(path, one.a.origin.span if one.a.origin else None))
    return node


def _branch_of(node: Node, weight: Node) -> Callable[[LowRank, Node], Node] | None:
    """A function that builds the low-rank branch for a use of a weight, from the factors and the
    use. None where the use has none: it reads the sum instead.
    """
    op, inputs = node.op, node.inputs
    places = [n for n, i in enumerate(inputs) if i is weight]
    if len(places) != 1:
        return None
    ((place,),) = (places,)
    if isinstance(op, Linear):
        count = (len(inputs) - op.bias) // 2
        return _of_rows(place - count) if count <= place < 2 * count else None
    if isinstance(op, Matmul):
        return _of_rows(0) if place == 1 else _of_columns
    if isinstance(op, Embedding) and place == 1:
        return _of_table
    if isinstance(op, ForwardConvolution) and place == 1 and op.groups == 1:
        return _of_kernel
    return None


def _dropped(one: LowRank, x: Node) -> Node:
    return build.apply1("dropout", x, p=one.spec.dropout) if one.spec.dropout else x


def _of_rows(place: int) -> Callable[[LowRank, Node], Node]:
    """The branch for input `place`, whose rows are multiplied by the weight (matmul, linear)."""

    def made(one: LowRank, use: Node) -> Node:
        left, right = one.sides()
        x = _dropped(one, use.inputs[place])
        if isinstance(use.op, Matmul):
            return product(product(x, left), right)
        return product(product(x, transposed(right)), transposed(left))

    return made


def _of_columns(one: LowRank, use: Node) -> Node:
    left, right = one.sides()
    return product(left, product(right, _dropped(one, use.inputs[1])))


def _of_table(one: LowRank, use: Node) -> Node:
    """The branch of an embedding; as in PEFT, without dropout."""
    left, right = one.sides()
    table = Embedding(count=_fixed_volume(left.shape[:1]), dim=one.spec.rank, dtype=left.type.dtype)
    return product(Node.of(table, use.inputs[0], left), right)


def _of_kernel(one: LowRank, use: Node) -> Node:
    op = use.op
    assert isinstance(op, ForwardConvolution)
    first = replace(op, filters=one.spec.rank, bias=False)
    second = type(op)(filters=op.filters, bias=False, channels_last=op.channels_last)
    x = _dropped(one, use.inputs[0])
    return Node.of(second, Node.of(first, x, one.a), one.b)
