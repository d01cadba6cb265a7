"""Forward mode: the tangents of nodes, given those of some.

Every rule comes from the operation (`ir/op.py`: `tangent`, `derivatives`, `linear`, `transposed`);
a composite without one is differentiated through its expansion. Loops and branches are in
`control`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xlac.autodiff import combined, control
from xlac.autodiff.checkpoints import checkpointed_scan
from xlac.autodiff.custom import custom_jvp
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.expressions import expression
from xlac.autodiff.origins import with_node_origin, with_origin
from xlac.autodiff.reverse import pull_back
from xlac.ir.composite import Composite
from xlac.ir.graph import Node, pick, walk, zeros
from xlac.ir.op import UNDEFINED, attributes
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.control.custom_op import CustomOp
from xlac.ops.control.effect import CustomCall
from xlac.ops.values import operand_names

Tangents = tuple[Node | None, ...]


class Forward:
    """The tangents of nodes, given those of some.

    `primal` maps a node to the one that computes its value in the differentiated graph: a loop may
    have to return residuals as well, and a composite that is differentiated through its expansion
    is replaced by it, so that value and tangent share intermediate results.
    """

    def __init__(self, tangents: Mapping[Node, Node]) -> None:
        self.primal: dict[Node, Node] = {node: node for node in tangents}
        self.tangents: dict[Node, Tangents] = {node: (t,) for node, t in tangents.items()}
        self._results: dict[Node, tuple[Node, ...]] = {}  # of nodes that were replaced

    def run(self, roots: Iterable[Node]) -> list[Node | None]:
        """The tangents of roots with one result each; None where zero. Raises NoDerivativeError."""
        roots = list(roots)
        for node in walk(roots, self.primal):
            self._visit(node)
        return [self.tangents[root][0] for root in roots]

    def _visit(self, node: Node) -> None:
        if isinstance(node.op, Pick):
            source, index = node.inputs[0], node.op.index
            self.tangents[node] = (self.tangents[source][index],)
            replaced = self._results.get(source)
            self.primal[node] = replaced[index] if replaced else pick(self.primal[source], index)
            return
        inputs = tuple(self.primal[i] for i in node.inputs)
        own = node if inputs == node.inputs else node.with_inputs(inputs)
        tangents = [self.tangents[i][0] for i in node.inputs]
        self.primal[node], self.tangents[node] = own, (None,) * len(node.results)
        floats = any(type.dtype.is_float for type in node.results)
        if floats and any(tangent is not None for tangent in tangents):
            self._differentiate(node, own, tangents)

    def _differentiate(self, node: Node, own: Node, tangents: Sequence[Node | None]) -> None:
        if (chunks := checkpointed_scan(own)) is not None:
            self._differentiate_through(node, own, chunks, tangents)
            return
        if (other := own.op.differentiated(own)) is not None:
            self._differentiate_through(
                node, own, with_origin(other, own.origin, own.inputs), tangents
            )
            return
        changes = by_rule(own, tangents)
        if changes is None and control.is_control(own.op):
            results, changes = control.jvp(own, tangents, Forward)
            self._results[node] = results
            self.primal[node] = results[0]
        if changes is None and isinstance(own.op, CustomGradient):
            changes = custom_jvp(own, own.op, tangents, pull_back)
        if changes is None and (instead := _decomposed(own)) is not None:
            self._differentiate_through(
                node, own, with_origin(instead, own.origin, own.inputs), tangents
            )
            if isinstance(own.op, CustomOp):  # its kernel still computes the results
                self._results[node] = tuple(pick(own, n) for n in range(len(own.results)))
                self.primal[node] = self._results[node][0]
            return
        if changes is None:
            hint = "declare a `gradient` of an operation in `ops`, around it"
            raise NoDerivativeError(
                own, "has no derivative", hint if isinstance(own.op, CustomCall) else ""
            )
        self.tangents[node] = tuple(
            tangent if type.dtype.is_float else None
            for tangent, type in zip(
                with_node_origin(changes, own, tangents), own.results, strict=True
            )
        )

    def _differentiate_through(
        self, node: Node, own: Node, roots: Sequence[Node], tangents: Sequence[Node | None]
    ) -> None:
        """Differentiates nodes `roots` that compute the results of `node` from the same inputs."""
        inner = Forward({i: c for i, c in zip(own.inputs, tangents, strict=True) if c is not None})
        for given in own.inputs:
            inner.primal.setdefault(given, given)
            inner.tangents.setdefault(given, (None,))
        root_tangents = inner.run(roots)
        self.tangents[node] = tuple(root_tangents)
        self._results[node] = tuple(inner.primal[root] for root in roots)
        self.primal[node] = self._results[node][0]


def _decomposed(node: Node) -> Sequence[Node] | None:
    """The results of a node from simpler operations: a composite's expansion, or what stands for a
    body that combines elements. None where there is neither.
    """
    if isinstance(node.op, Composite):
        return node.op.expanded(*node.inputs)
    return combined.decomposed(node)


def by_rule(node: Node, tangents: Sequence[Node | None]) -> Sequence[Node | None] | None:
    """The tangents of a node's results by a rule of its operation; None if it has none."""
    changes = node.op.tangent(node, tangents)
    if changes is not None:
        return changes
    if node.op.derivatives:
        return [_by_text(node, tangents)]
    sets = node.op.linear()
    if not sets or (isinstance(node.op, Composite) and _outside_linear_sets(node, tangents, sets)):
        return None
    return [_by_linearity(node, tangents, sets)]


def _outside_linear_sets(
    node: Node, tangents: Sequence[Node | None], sets: Sequence[Sequence[str]]
) -> bool:
    """Whether an operand has a tangent in which the node is not linear."""
    known = {name for chosen in sets for name in chosen}
    named = zip(tangents, operand_names(node), strict=True)
    return any(tangent is not None and name not in known for tangent, name in named)


def _by_text(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """The tangent by the operation's `derivatives`: the sum of their terms for each operand, in the
    compute type of the operands, cast to the result's dtype.
    """
    stated = list(zip(operand_names(node), node.op.derivatives, tangents, strict=True))
    for name, text, tangent in stated:
        if tangent is not None and text == UNDEFINED:
            raise NoDerivativeError(node, f"has no derivative by its operand {name!r}")
    dtype = node.type.dtype
    shape = node.shape
    names = {
        name: build.broadcast_to(build.compute(i), shape)
        for name, i in zip(node.op.operands, node.inputs, strict=True)
    } | {"result": build.compute(node)}
    numbers = attributes(node.op)
    total: Node | None = None
    for _, text, tangent in stated:
        if tangent is None:
            continue
        t = build.broadcast_to(build.compute(tangent), shape)
        part = expression(text, {**numbers, **names, "t": t})
        if part is not None:
            total = part if total is None else build.add(total, part)
    return None if total is None else build.cast(total, dtype)


def _by_linearity(
    node: Node, tangents: Sequence[Node | None], sets: Sequence[Sequence[str]]
) -> Node | None:
    """The tangent by linearity: the operation applied to the tangents of each set of operands in
    which it is linear, summed over the sets.
    """
    names = operand_names(node)
    total: Node | None = None
    for chosen in sets:
        places = [n for n, name in enumerate(names) if name in chosen]
        if all(tangents[n] is None for n in places):
            continue
        inputs = tuple(
            i if n not in places else tangents[n] or zeros(i.type)
            for n, i in enumerate(node.inputs)
        )
        part = Node(node.op, inputs, node.types, node.origin)
        total = part if total is None else build.add(total, part)
    known = {name for chosen in sets for name in chosen}
    for tangent, name in zip(tangents, names, strict=True):
        if tangent is not None and name not in known:
            raise NoDerivativeError(node, f"has no derivative by its operand {name!r}")
    return total
