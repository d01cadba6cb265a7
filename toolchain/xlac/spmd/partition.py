"""Partitions a graph among the ranks of a mesh: the graph of one rank, with explicit collectives.

All ranks run the same graph, each on its parts of inputs and weights. The results equal those of
the graph that was partitioned, but for the order of sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.collective.shard import Shard
from xlac.ops.control.control import Pick
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.spmd.merge_sums import merge_sums
from xlac.spmd.mesh import AxisNames, Mesh, Sharding, part_size
from xlac.spmd.propagate import Shardings, value_of
from xlac.spmd.reshard import Local, Resharder, describe
from xlac.spmd.rule import Dims, Factor, Parts, ShardingRule

Assignment = Mapping[Factor, AxisNames]
"""The mesh axes among which each factor of a node is divided."""


@dataclass(frozen=True, slots=True, eq=False)
class Partitioned:
    """The graph of one rank. `inputs`, `weights` and `outputs` say by name how the values of the
    whole graph are divided; `reasons` why each collective is there.
    """

    graph: Graph
    mesh: Mesh
    inputs: Mapping[str, Sharding]
    weights: Mapping[str, Sharding]
    outputs: Mapping[str, Sharding]
    reasons: Mapping[Node, str]


def partitioned(
    graph: Graph, mesh: Mesh, given: Mapping[str, Sharding], links: Sequence[tuple[str, str]] = ()
) -> Partitioned:
    """The graph of one rank. `given` has the shardings of parameters by name, which divide their
    sizes; `links` are pairs of a parameter and an output that are divided alike (a state and its
    next value). Composites other than scalar functions are computed whole by every rank: expand
    them first.
    """
    params = {n.op.name: n for n in (*graph.inputs, *graph.nodes()) if isinstance(n.op, Param)}
    pairs = [(params[name], graph.outputs[output]) for name, output in links]
    partitioner = _Partitioner(graph, Shardings(graph, mesh, given, pairs), mesh)
    for node in (*graph.inputs, *graph.nodes()):
        partitioner.visit(node)
    outputs, shardings = {}, {}
    linked = {output: params[name] for name, output in links}
    for name, node in graph.outputs.items():
        value = partitioner.value(node)
        wanted = value.sharding
        if name in linked:
            wanted = partitioner.value(linked[name]).sharding
        reason = f"output '{name}' is divided as its state"
        outputs[name] = partitioner.resharder.to(value, wanted, reason).node
        shardings[name] = wanted
    inputs = tuple(partitioner.value(i).node for i in graph.inputs)
    known = {name: partitioner.value(node).sharding for name, node in params.items()}
    weights = {n: s for n, s in known.items() if params[n] not in set(graph.inputs)}
    merged, reasons = merge_sums(Graph(graph.name, inputs, outputs), partitioner.resharder.reasons)
    return Partitioned(
        merged,
        mesh,
        {n: s for n, s in known.items() if n not in weights},
        weights,
        shardings,
        reasons,
    )


class _Partitioner:
    """Rewrites nodes in order; `locals` has what a rank holds of every value."""

    def __init__(self, graph: Graph, shardings: Shardings, mesh: Mesh) -> None:
        self.shardings, self.mesh = shardings, mesh
        self.resharder = Resharder(mesh)
        self.locals: dict[tuple[Node, int], Local] = {}

    def value(self, node: Node) -> Local:
        """What a rank holds of a value."""
        return self.locals[value_of(node)]

    def visit(self, node: Node) -> None:
        """Makes the local form of a node."""
        if isinstance(node.op, Pick) or (node, 0) in self.locals:
            return
        sharding = self.shardings.of((node, 0)) if len(node.results) == 1 else ()
        op = node.op
        if isinstance(op, Param):
            state = op.kind == "state"  # whose padding is what the last call left
            dirty = self._uneven(node.shape, sharding) if state else frozenset()
            self.locals[node, 0] = Local(self._param(node, sharding), node.shape, sharding, dirty)
        elif isinstance(op, Shard):
            reason = f"{describe(node.origin, 'shard')} asks for it"
            source = self.value(node.inputs[0])
            self.locals[node, 0] = self.resharder.to(source, sharding, reason)
        elif isinstance(op, DimSize) and isinstance(size := node.inputs[0].shape[op.axis], int):
            known = Node.of(Const(np.asarray(size, np.int32)), origin=node.origin)
            self.locals[node, 0] = Local(known, (), ())  # the whole's; no value need be gathered
        else:
            self._compute(node)

    def _param(self, node: Node, sharding: Sharding) -> Node:
        op = node.op
        assert isinstance(op, Param)
        if not any(sharding):
            return node
        sizes = [(s, self.mesh.parts(n)) for s, n in zip(op.type.shape, sharding, strict=True)]
        shape = tuple(part_size(size, parts) for size, parts in sizes if isinstance(size, int))
        return Node.of(replace(op, type=op.type.with_shape(shape)), origin=node.origin)

    def _compute(self, node: Node) -> None:
        rule = self.shardings.rules[node]
        axes = self._assigned(node, rule)
        what = describe(node.origin, node.op.mnemonic)
        inputs = [
            self._operand(self.value(i), rule, dims, axes, f"{what} needs its operand so")
            for i, dims in zip(node.inputs, rule.operands, strict=True)
        ]

        def parts(factor: Factor | None) -> int:
            return 1 if factor is None else self.mesh.parts(axes.get(factor, ()))

        local = self._local_node(node, rule, parts, inputs)
        partial = self._partial(rule, axes)
        for number, dims in enumerate(rule.results):
            own = (
                local
                if len(node.results) == 1
                else Node(Pick(number), (local,), local.results[number], node.origin)
            )
            shape, sharding = node.results[number].shape, _sharding(dims, axes)
            dirty = self._uneven(shape, sharding)
            value = Local(self._counted(node, own, dims, axes), shape, sharding, dirty)
            for combine, names in partial.items():
                along = f"{what} combines its parts along {', '.join(names)}"
                wanted = self.shardings.of((node, number))
                value = self.resharder.total(value, names, combine, wanted, along)
            self.locals[node, number] = value

    def _uneven(self, shape: Sequence[Dim], sharding: Sharding) -> frozenset[int]:
        """The axes that have no equal parts, so that the last parts end in padding."""
        axes = enumerate(zip(shape, sharding, strict=True))
        return frozenset(a for a, (n, names) in axes if not self.resharder.even(n, names))

    def _operand(
        self, value: Local, rule: ShardingRule, dims: Dims, axes: Assignment, reason: str
    ) -> Node:
        """A rank's part of an operand. The padding of axes that are combined is masked."""
        own = self.resharder.to(value, _sharding(dims, axes), reason)
        for axis, factor in enumerate(dims):
            if factor is not None and factor in rule.combine:
                own = replace(own, node=self.resharder.masked(own, axis, rule.combine[factor]))
        return own.node

    def _local_node(self, node: Node, rule: ShardingRule, parts: Parts, inputs: list[Node]) -> Node:
        op = rule.local(parts)
        if op is node.op and tuple(inputs) == node.inputs:
            return node
        return Node.of(op, *inputs, origin=node.origin)

    def _counted(self, node: Node, local: Node, dims: Dims, axes: Assignment) -> Node:
        """A part of a count begins where the rank's part does."""
        if not isinstance(node.op, Iota):
            return local
        factor = dims[node.op.axis]
        names = axes.get(factor, ()) if factor is not None else ()
        if not names:
            return local
        start = build.cast(self.resharder.start(names, local.shape[node.op.axis]), node.op.dtype)
        return build.add(local, start)

    def _partial(self, rule: ShardingRule, axes: Assignment) -> dict[str, AxisNames]:
        """Over which mesh axes results are partial, by how they are combined."""
        partial: dict[str, AxisNames] = {}
        for factor, combine in rule.combine.items():
            if axes.get(factor):
                partial[combine] = (*partial.get(combine, ()), *axes[factor])
        return partial

    def _assigned(self, node: Node, rule: ShardingRule) -> dict[Factor, AxisNames]:
        """The mesh axes of each factor: as the result is to be divided, else as the operands are.

        A mesh axis divides one factor of a node at most. Where it divides a sum in all operands,
        they stay where they are: the partial sums are combined.
        """
        said: dict[Factor, list[AxisNames]] = {f: [] for f in rule.combine}
        for i, dims in zip(node.inputs, rule.operands, strict=True):
            _note(said, dims, self.value(i).sharding)
        said = {f: s for f, s in said.items() if f in rule.combine and s and len(set(s)) == 1}
        for number, dims in enumerate(rule.results):
            _note(said, dims, self.shardings.of((node, number)))
        for i, dims in zip(node.inputs, rule.operands, strict=True):
            _note(said, dims, self.value(i).sharding)
        axes: dict[Factor, AxisNames] = {}
        used: set[str] = set()
        for factor, options in said.items():
            for names in options:
                fits = rule.fits(factor, self.mesh.parts(names))
                if names and fits and not used & set(names):
                    axes[factor] = names
                    used |= set(names)
                    break
        return axes


def _note(said: dict[Factor, list[AxisNames]], dims: Dims, sharding: Sharding) -> None:
    for factor, names in zip(dims, sharding, strict=True):
        if factor is not None:
            said.setdefault(factor, []).append(names)


def _sharding(dims: Dims, axes: Assignment) -> Sharding:
    return tuple(() if factor is None else axes.get(factor, ()) for factor in dims)
