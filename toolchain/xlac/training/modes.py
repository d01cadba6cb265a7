"""What operations mean while a model learns: dropout drops, batch_norm measures.

Random numbers are counted, not drawn one after another: philox, keyed by the seed and the node's
path, counts steps and the elements of the tensor. They are the same at any number of threads, and
for the first examples of a batch whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from xlac.ir.graph import Graph, Node, apply, pick, walk
from xlac.ir.op import Op
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Pick, While
from xlac.ops.walks import substituted
from xlac.support.keys import philox_key
from xlac.training.inside import trained
from xlac.training.mixed import MixedPrecision
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, UnsupportedError


@dataclass
class TrainingMode:
    """Nodes as they are while a model learns. `step` counts the steps, as an i64 scalar; nodes that a
    pattern of `frozen` names stay as they are; products are computed in `compute`. `measured` has the
    next values of parameters.
    """

    seed: int
    step: Node
    frozen: Sequence[str] = ()
    compute: DType = DType.F32
    measured: dict[Node, Node] = field(default_factory=dict)
    _new: dict[Node, Node] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _parts: dict[Node, list[Node]] = field(default_factory=dict)  # results of control operations

    def __post_init__(self) -> None:
        self._mixed = MixedPrecision(self.compute)

    def nodes(self, roots: Sequence[Node]) -> list[Node]:
        """The roots in training mode. Nodes of an earlier call are what they became then; others of
        their names draw other numbers. Raises UnsupportedError for an operation inside a loop that
        draws or measures.
        """
        new, seen = self._new, self._seen
        if self.compute is not DType.F32:
            roots = self._mixed.nodes(roots)
        for node in walk(roots, new):
            if isinstance(node.op, Pick) and node.inputs[0] in self._parts:
                new[node] = self._parts[node.inputs[0]][node.op.index]
                continue
            inputs = tuple(new[i] for i in node.inputs)
            own = node if inputs == node.inputs else node.with_inputs(inputs)
            new[node] = own
            if self._drawing(own.op):
                self._inside(node, own)
            elif differs(own.op) and not self._is_frozen(node):
                number = seen[node.name] = seen.get(node.name, -1) + 1
                found = own.op.in_training(own, self._uniform(f"{node.name}#{number}"))
                assert found is not None
                new[node], measured = found
                self._note(measured)
        return [new[root] for root in roots]

    def _note(self, measured: Mapping[Node, Node]) -> None:
        for old, following in measured.items():  # of a node used twice: one after another
            before = self.measured.get(old)
            self.measured[old] = (
                following if before is None else substituted([following], {old: before})[0]
            )

    def _inside(self, node: Node, own: Node) -> None:
        """An operation with bodies that draw or measure."""

        def run(body: Graph, stream: Node) -> tuple[list[Node], Mapping[Node, Node]]:
            inner = TrainingMode(self.seed, stream, self.frozen, _seen=self._seen)
            return inner.nodes(list(body.outputs.values())), inner.measured

        conditions = isinstance(own.op, While | BoundedWhile) and self._drawing_body(own.op.cond)
        found = None if conditions else trained(own, build.cast(self.step, DType.U64), run)
        if found is None:
            raise self._refused(own, node)
        self._parts[node] = found.results
        self._new[node] = found.results[0]
        self._note(found.measured)

    def _uniform(self, path: str) -> Callable[[Type], Node]:
        """Draws numbers from 0 to below 1 for a node: 24 bits of each word."""
        low = philox_key(self.seed, path) & (1 << 64) - 1
        key = build.constant(np.array([low, 0], np.uint64))

        def draw(type: Type) -> Node:
            count = build.reshape(build.cast(self.step, DType.U64), (1,))
            state = build.concat([key, count])
            words = pick(apply("rng_bits", state, algorithm="philox", shape=(type.size,), dtype=DType.U32), 1)  # fmt: skip
            bits = apply("shr", words, build.like(8, words))
            numbers = build.mul(build.cast(bits, DType.F32), 2.0**-24)
            return build.cast(build.reshape(numbers, type.shape), type.dtype)

        return draw

    def _drawing(self, op: Op) -> bool:
        return any(self._drawing_body(body) for body in op.bodies())

    def _drawing_body(self, body: Graph | None) -> bool:
        """Whether a body has an operation that means something else while a model learns."""
        return body is not None and any(
            self._drawing(node.op) or (differs(node.op) and not self._is_frozen(node))
            for node in body.nodes()
        )

    def _is_frozen(self, node: Node) -> bool:
        return any(fnmatchcase(node.name, pattern) for pattern in self.frozen)

    def _refused(self, own: Node, node: Node) -> UnsupportedError:
        """Of a condition, a gradient of the user's own, a reduction's body: what would be drawn is not
        counted, and what is measured does not come out.
        """
        inner = next(
            n for body in own.op.bodies() for n in body.nodes()
            if self._drawing(n.op) or (differs(n.op) and not self._is_frozen(n))
        )  # fmt: skip
        problem = f"{inner.op.mnemonic} {inner.name!r} inside {own.op.mnemonic} cannot be trained"
        hint = "train: {frozen_mode: [PATTERN]} keeps it as it is in inference"
        origin = inner.origin or node.origin
        return UnsupportedError(
            Diagnostic("XL5033", problem, origin.span if origin else None, hint)
        )


def differs(op: Op) -> bool:
    """Whether an operation means something else while a model learns."""
    return type(op).in_training is not Op.in_training
