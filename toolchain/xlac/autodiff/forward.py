"""Pushes changes through a graph: how each node changes when some of them do.

Every rule comes from the operation (`ir/op.py`: `tangent`, `derivatives`, `linear`, `transposed`); a composite
without one is differentiated through its expansion. Loops and branches are in `control`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xlac.autodiff import combined, control
from xlac.autodiff.checkpoints import in_chunks
from xlac.autodiff.custom import custom_tangents
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.expressions import expression
from xlac.autodiff.linearity import operand_names
from xlac.autodiff.origins import blamed, stamped
from xlac.autodiff.reverse import pull_back
from xlac.ir.composite import Composite
from xlac.ir.graph import Node, pick, walk, zeros
from xlac.ir.op import UNDEFINED, attributes
from xlac.ops import build
from xlac.ops.control.control import Pick
from xlac.ops.control.custom_gradient import CustomGradient
from xlac.ops.control.effect import CustomCall

Tangents = tuple[Node | None, ...]


class Forward:
    """Changes of nodes, given those of some.

    `primal` says what computes a node's own value now: a loop may have to give more, and a
    composite that is differentiated through its expansion is replaced by it, so that the two share
    what they have in common.
    """

    def __init__(self, tangents: Mapping[Node, Node]) -> None:
        self.primal: dict[Node, Node] = {node: node for node in tangents}
        self.tangents: dict[Node, Tangents] = {node: (t,) for node, t in tangents.items()}
        self._results: dict[Node, tuple[Node, ...]] = {}  # of nodes that were replaced

    def run(self, roots: Iterable[Node]) -> list[Node | None]:
        """The changes of roots, which are of one result each; None where nothing changes. Raises
        NoDerivativeError.
        """
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
        changes = [self.tangents[i][0] for i in node.inputs]
        self.primal[node], self.tangents[node] = own, (None,) * len(node.results)
        floats = any(type.dtype.is_float for type in node.results)
        if floats and any(change is not None for change in changes):
            self._differentiate(node, own, changes)

    def _differentiate(self, node: Node, own: Node, changes: Sequence[Node | None]) -> None:
        if (chunks := in_chunks(own)) is not None:
            self._through(node, own, chunks, changes)
            return
        if (other := own.op.differentiated(own)) is not None:
            self._through(node, own, stamped(other, own.origin, own.inputs), changes)
            return
        found = by_rule(own, changes)
        if found is None and control.is_control(own.op):
            results, found = control.tangents(own, changes, Forward)
            self._results[node] = results
            self.primal[node] = results[0]
        if found is None and isinstance(own.op, CustomGradient):
            found = custom_tangents(own, own.op, changes, pull_back)
        if found is None and (instead := _instead(own)) is not None:
            self._through(node, own, stamped(instead, own.origin, own.inputs), changes)
            return
        if found is None:
            hint = "declare a `gradient` of an operation in `ops`, around it"
            raise NoDerivativeError(own, "has no derivative", hint if isinstance(own.op, CustomCall) else "")  # fmt: skip
        self.tangents[node] = tuple(
            change if type.dtype.is_float else None
            for change, type in zip(blamed(found, own, changes), own.results, strict=True)
        )

    def _through(
        self, node: Node, own: Node, roots: Sequence[Node], changes: Sequence[Node | None]
    ) -> None:
        """Through other nodes that give the results, from the same inputs."""
        inner = Forward({i: c for i, c in zip(own.inputs, changes, strict=True) if c is not None})
        for given in own.inputs:
            inner.primal.setdefault(given, given)
            inner.tangents.setdefault(given, (None,))
        found = inner.run(roots)
        self.tangents[node] = tuple(found)
        self._results[node] = tuple(inner.primal[root] for root in roots)
        self.primal[node] = self._results[node][0]


def _instead(node: Node) -> Sequence[Node] | None:
    """The results of a node from simpler operations: of a composite, or of what a body combines."""
    if isinstance(node.op, Composite):
        return node.op.expanded(*node.inputs)
    return combined.parts(node)


def by_rule(node: Node, changes: Sequence[Node | None]) -> Sequence[Node | None] | None:
    """The changes of a node's results by what its operation states; None if it states nothing."""
    found = node.op.tangent(node, changes)
    if found is not None:
        return found
    if node.op.derivatives:
        return [_by_text(node, changes)]
    sets = node.op.linear()
    if not sets or (isinstance(node.op, Composite) and _beyond(node, changes, sets)):
        return None
    return [_by_linearity(node, changes, sets)]


def _beyond(node: Node, changes: Sequence[Node | None], sets: Sequence[Sequence[str]]) -> bool:
    """Whether an operand changes in which a node is not linear."""
    known = {name for chosen in sets for name in chosen}
    named = zip(changes, operand_names(node), strict=True)
    return any(change is not None and name not in known for change, name in named)


def _by_text(node: Node, changes: Sequence[Node | None]) -> Node | None:
    """The sum of what each operand's change makes, computed in the operands' compute type."""
    dtype = node.type.dtype
    shape = node.shape
    names = {
        name: build.broadcast_to(build.compute(i), shape)
        for name, i in zip(node.op.operands, node.inputs, strict=True)
    } | {"result": build.compute(node)}
    numbers = attributes(node.op)
    total: Node | None = None
    for name, text, change in zip(operand_names(node), node.op.derivatives, changes, strict=True):
        if change is None:
            continue
        if text == UNDEFINED:
            raise NoDerivativeError(node, f"has no derivative by its operand {name!r}")
        t = build.broadcast_to(build.compute(change), shape)
        part = expression(text, {**numbers, **names, "t": t})
        if part is not None:
            total = part if total is None else build.add(total, part)
    return None if total is None else build.cast(total, dtype)


def _by_linearity(
    node: Node, changes: Sequence[Node | None], sets: Sequence[Sequence[str]]
) -> Node | None:
    """The operation applied to the changes of each set of operands in which it is linear."""
    names = operand_names(node)
    total: Node | None = None
    for chosen in sets:
        places = [n for n, name in enumerate(names) if name in chosen]
        if all(changes[n] is None for n in places):
            continue
        inputs = tuple(
            i if n not in places else changes[n] or zeros(i.type) for n, i in enumerate(node.inputs)
        )
        part = Node(node.op, inputs, node.types, node.origin)
        total = part if total is None else build.add(total, part)
    known = {name for chosen in sets for name in chosen}
    for change, name in zip(changes, names, strict=True):
        if change is not None and name not in known:
            raise NoDerivativeError(node, f"has no derivative by its operand {name!r}")
    return total
