"""Training mode: dropout is active, and batch_norm uses and updates batch statistics.

Random numbers come from a counter-based generator (philox), keyed by the seed and the node's path;
its counter is the step and the element's index. So they do not depend on the number of threads, and
the first examples of a batch get the same numbers whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

import numpy as np

from xlac.autodiff.origins import with_origin
from xlac.ir.dims import bounds, divisor
from xlac.ir.graph import Graph, Node, apply, pick, walk
from xlac.ir.op import Op
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.bounded import BoundedWhile
from xlac.ops.control.control import Pick, While
from xlac.ops.nn.batch_normalization import BatchNorm
from xlac.ops.walks import substituted
from xlac.support.keys import philox_key
from xlac.training.control import in_training_mode
from xlac.training.mixed import MixedPrecision
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, UnsupportedError


@dataclass
class TrainingMode:
    """Rewrites nodes into training mode. `step`, an i64 scalar, is the random counter; nodes whose
    names match a pattern of `frozen` stay in inference mode; matrix products are computed in
    `compute`. The batch of a batch_norm is in `parts` with statistics of their own. `measured`
    collects the next values of running statistics, by their parameter.
    """

    seed: int
    step: Node
    frozen: Sequence[str] = ()
    compute: DType = DType.F32
    parts: int = 1
    measured: dict[Node, Node] = field(default_factory=dict)
    _new: dict[Node, Node] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _parts: dict[Node, list[Node]] = field(default_factory=dict)  # results of control operations

    def __post_init__(self) -> None:
        self._mixed = MixedPrecision(self.compute)

    def nodes(self, roots: Sequence[Node]) -> list[Node]:
        """The roots in training mode. Nodes seen in an earlier call are not rewritten again; other
        nodes of the same name get other random numbers. Raises UnsupportedError for an operation
        with a training mode in a body where it cannot have one, such as a loop's condition.
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
            if self._bodies_have_training_mode(own.op):
                self._rewrite_bodies(node, own)
            elif has_training_mode(own.op) and not self._is_frozen(node):
                number = seen[node.name] = seen.get(node.name, -1) + 1
                uniform = self._uniform(f"{node.name}#{number}")
                op = self._in_parts(own)
                _check_values(op, own, node)
                replaced = op.in_training(own, uniform)
                assert replaced is not None
                new[node], measured = replaced
                named = with_origin([*measured.values()], node.origin, {own, *own.inputs})
                self._record_statistics(dict(zip(measured, named, strict=True)))
        return [new[root] for root in roots]

    def _in_parts(self, node: Node) -> Op:
        """The operation, whose batch is in parts if it measures statistics. Raises UnsupportedError
        for a batch without as many equal parts.
        """
        op = node.op
        if self.parts == 1 or not isinstance(op, BatchNorm):
            return op
        if divisor(node.shape[0]) % self.parts:
            problem = f"{node.name!r} of {node.type} has no batch of {self.parts} equal parts"
            hint = f"dims: {{batch: {{multiple_of: {self.parts}}}}}, or statistics: global"
            span = node.origin.span if node.origin else None
            raise UnsupportedError(Diagnostic("XL7819", problem, span, hint))
        return replace(op, groups=self.parts)

    def _record_statistics(self, measured: Mapping[Node, Node]) -> None:
        for old, following in measured.items():  # of a node used twice: one after another
            before = self.measured.get(old)
            self.measured[old] = (
                following if before is None else substituted([following], {old: before})[0]
            )

    def _rewrite_bodies(self, node: Node, own: Node) -> None:
        """Rewrites an operation some of whose bodies have a training mode of their own."""

        def run(body: Graph, stream: Node) -> tuple[list[Node], Mapping[Node, Node]]:
            inner = TrainingMode(self.seed, stream, self.frozen, parts=self.parts, _seen=self._seen)
            return inner.nodes(list(body.outputs.values())), inner.measured

        conditions = isinstance(own.op, While | BoundedWhile) and self._body_has_training_mode(
            own.op.cond
        )
        rewritten = (
            None if conditions else in_training_mode(own, build.cast(self.step, DType.U64), run)
        )
        if rewritten is None:
            raise self._unsupported(own, node)
        self._parts[node] = rewritten.results
        self._new[node] = rewritten.results[0]
        self._record_statistics(rewritten.measured)

    def _uniform(self, path: str) -> Callable[[Type], Node]:
        """A function that makes a node's uniform random numbers in [0, 1): 24 bits of each word."""
        low = philox_key(self.seed, path) & (1 << 64) - 1
        key = build.constant(np.array([low, 0], np.uint64))

        def draw(type: Type) -> Node:
            count = build.reshape(build.cast(self.step, DType.U64), (1,))
            state = build.concat([key, count])
            words = pick(
                apply("rng_bits", state, algorithm="philox", shape=(type.size,), dtype=DType.U32), 1
            )
            bits = apply("shr", words, build.like(8, words))
            numbers = build.mul(build.cast(bits, DType.F32), 2.0**-24)
            return build.cast(build.reshape(numbers, type.shape), type.dtype)

        return draw

    def _bodies_have_training_mode(self, op: Op) -> bool:
        return any(self._body_has_training_mode(body) for body in op.bodies())

    def _body_has_training_mode(self, body: Graph | None) -> bool:
        """Whether a body has an operation, not frozen, with a training mode."""
        return body is not None and any(
            self._bodies_have_training_mode(node.op)
            or (has_training_mode(node.op) and not self._is_frozen(node))
            for node in body.nodes()
        )

    def _is_frozen(self, node: Node) -> bool:
        return any(fnmatchcase(node.name, pattern) for pattern in self.frozen)

    def _unsupported(self, own: Node, node: Node) -> UnsupportedError:
        """The error for a condition, a custom gradient or a reduction's body: it cannot take a
        random counter or return statistics.
        """
        inner = next(
            n
            for body in own.op.bodies()
            for n in body.nodes()
            if self._bodies_have_training_mode(n.op)
            or (has_training_mode(n.op) and not self._is_frozen(n))
        )
        problem = f"{inner.op.mnemonic} {inner.name!r} inside {own.op.mnemonic} cannot be trained"
        hint = "train: {frozen_mode: [PATTERN]} keeps it as it is in inference"
        origin = inner.origin or node.origin
        return UnsupportedError(
            Diagnostic("XL5033", problem, origin.span if origin else None, hint)
        )


def _check_values(op: Op, own: Node, node: Node) -> None:
    """Raises UnsupportedError for a batch_norm, given as `node`, each of whose channels has one
    value, whatever the open sizes: it would learn from nothing but its bias.
    """
    if not isinstance(op, BatchNorm) or bounds(op.values_of_channel(own.inputs[0]))[1] != 1:
        return
    problem = (
        f"{node.name!r} of {node.type} has one value a channel, and so no variance to learn by"
    )
    hint = f"a larger batch, or train: {{frozen_mode: [{node.name}]}}"
    span = node.origin.span if node.origin else None
    raise UnsupportedError(Diagnostic("XL5034", problem, span, hint))


def has_training_mode(op: Op) -> bool:
    """Whether an operation computes something else in training than in inference."""
    return type(op).in_training is not Op.in_training
