"""What operations mean while a model learns: dropout drops, batch_norm measures.

Random numbers are counted, not drawn one after another: philox, keyed by the seed and the node's
path, counts steps and the elements of the tensor. They are the same at any number of threads, and
for the first examples of a batch whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import numpy as np

from xlac.ir.graph import Graph, Node, apply, pick, walk
from xlac.ir.op import Op
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan, While
from xlac.ops.walks import substituted
from xlac.support.keys import philox_key
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
            inputs = tuple(new[i] for i in node.inputs)
            own = node if inputs == node.inputs else node.with_inputs(inputs)
            new[node] = own
            for body in own.op.bodies():
                self._refuse(body, isinstance(own.op, Scan | While), node)
            if differs(own.op) and not any(fnmatchcase(node.name, p) for p in self.frozen):
                number = seen[node.name] = seen.get(node.name, -1) + 1
                found = own.op.in_training(own, self._uniform(f"{node.name}#{number}"))
                assert found is not None
                new[node], measured = found
                for old, following in measured.items():  # of a node used twice: one after another
                    before = self.measured.get(old)
                    self.measured[old] = (
                        following if before is None else substituted([following], {old: before})[0]
                    )
        return [new[root] for root in roots]

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

    def _refuse(self, body: Graph, loop: bool, node: Node) -> None:
        """Inside a loop each turn would need numbers of its own, and inside a branch or a call the
        names of its nodes.
        """
        for inner in body.nodes():
            for deeper in inner.op.bodies():
                self._refuse(deeper, loop, node)
            if differs(inner.op) and not any(fnmatchcase(inner.name, p) for p in self.frozen):
                where = "a loop" if loop else "a branch or a call"
                problem = f"{inner.op.mnemonic} {inner.name!r} inside {where} cannot be trained yet"
                hint = "train: {frozen_mode: [PATTERN]} keeps it as it is in inference"
                span = (inner.origin or node.origin).span if inner.origin or node.origin else None  # type: ignore[union-attr]
                raise UnsupportedError(Diagnostic("XL5033", problem, span, hint))


def differs(op: Op) -> bool:
    """Whether an operation means something else while a model learns."""
    return type(op).in_training is not Op.in_training
