"""The nodes of one rank: each operation on the rank's parts, with the collectives that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ops import build
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.collective.shard import Shard
from xlac.ops.control.control import Call, Cond, Pick, Scan, While
from xlac.ops.tensor.dynamic import DimSize
from xlac.ops.tensor.gather import Gather
from xlac.ops.tensor.leaf import Const, Iota, Param
from xlac.ops.tensor.reorder import Roll
from xlac.ops.tensor.view import Reshape
from xlac.spmd.assignment import Assignment, assigned, sharding_of
from xlac.spmd.bodies import BodyRequest, LocalBody
from xlac.spmd.halo import regrouped, rolled, unfit, with_halos
from xlac.spmd.loops import LoopDivider
from xlac.spmd.manual import inlined
from xlac.spmd.mesh import AxisNames, Mesh, Sharding, part_size
from xlac.spmd.propagate import Shardings, value_of
from xlac.spmd.reshard import Local, Resharder, describe
from xlac.spmd.rows import dearer, own_rows
from xlac.spmd.rules.rule import Dims, Factor, ShardingRule
from xlac.spmd.run_time import Rates


@dataclass(frozen=True, slots=True)
class PartialSum:
    """A value of which ranks along some axes of the mesh hold summands: how each is divided."""

    sharding: Sharding
    axes: AxisNames


class LocalNodes:
    """Rewrites nodes in order; `locals` has what a rank holds of every value."""

    def __init__(
        self,
        shardings: Shardings,
        mesh: Mesh,
        rates: Rates,
        inside: bool = False,
        partial: Mapping[str, PartialSum] | None = None,
    ) -> None:
        """`inside`: of a body, whose parameters may have anything in their padding. `partial` are
        the parameters of which ranks hold summands.
        """
        self.shardings, self.mesh, self.rates, self.inside = shardings, mesh, rates, inside
        self.partial = partial or {}
        self.summands: dict[Node, Local] = {}
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
            self._given(node, op, sharding)
        elif isinstance(op, Shard):
            reason = f"{describe(node.origin, 'shard')} asks for it"
            source = self.value(node.inputs[0])
            self.locals[node, 0] = self.resharder.to(source, sharding, reason)
        elif isinstance(op, DimSize) and isinstance(size := node.inputs[0].shape[op.axis], int):
            known = Node.of(Const(np.asarray(size, np.int32)), origin=node.origin)
            self.locals[node, 0] = Local(known, (), ())  # the whole's; no value need be gathered
        elif isinstance(op, Call | Cond | Scan | While):
            self._control(node)
        elif isinstance(op, ManualComputation):
            found = inlined(node, [self.value(i) for i in node.inputs], self.resharder)
            self.locals.update({(node, n): value for n, value in enumerate(found)})
        else:
            self._compute(node)

    def _given(self, node: Node, op: Param, sharding: Sharding) -> None:
        """A parameter; of one whose summands ranks hold, the sum."""
        said = self.partial.get(op.name)
        own = sharding if said is None else said.sharding
        # the padding of a state is what the last call left
        state = self.inside or op.kind == "state"
        dirty = self._uneven(node.shape, own) if state else frozenset()
        value = Local(self._param(node, own), node.shape, own, dirty)
        if said is not None:
            self.summands[node] = value
            reason = f"'{op.name}' is what each rank has added up"
            value = self.resharder.total(value, said.axes, "add", sharding, reason)
        self.locals[node, 0] = value

    def _control(self, node: Node) -> None:
        """A loop, a branch or a call: as its axes permit, or with collectives inside."""
        rule = self.shardings.rules[node]
        axes = self._assigned(node, rule)
        divider = LoopDivider(self.resharder, self.rates, self._body, not self.inside)
        found = divider.divided(
            node,
            [self.value(i) for i in node.inputs],
            tuple(sharding_of(dims, axes) for dims in rule.operands),
            [self.shardings.of((node, n)) for n in range(len(node.results))],
            lambda: self._local(node, rule, axes),
        )
        if found is None:
            self._compute(node)
            return
        for number, value in enumerate(found):
            self.locals[node, number] = value

    def _body(self, graph: Graph, asked: BodyRequest) -> LocalBody:
        """A body for one rank."""
        outputs = list(graph.outputs.values())
        hints = {value_of(i): s for i, s in zip(graph.inputs, asked.takes, strict=True)}
        for node, sharding in zip(outputs, asked.gives, strict=False):
            hints.setdefault(value_of(node), sharding)
        links = [(graph.inputs[i], outputs[o]) for i, o in asked.links]
        fixed = graph.inputs if asked.fixed else ()
        shardings = Shardings(graph, self.mesh, {}, links, hints, fixed)
        inner = LocalNodes(shardings, self.mesh, self.rates, inside=True)
        for node in (*graph.inputs, *graph.nodes()):
            inner.visit(node)
        takes = tuple(inner.value(i).sharding for i in graph.inputs)
        gives = [inner.value(node) for node in outputs]
        reason = "what is carried is divided alike in each step"
        for i, o in asked.links:
            gives[o] = inner.resharder.to(gives[o], takes[i], reason)
        if asked.wanted is not None:
            reason = "all branches give it so"
            pairs = zip(gives, asked.wanted, strict=True)
            gives = [inner.resharder.to(value, sharding, reason) for value, sharding in pairs]
        for _, o in asked.links:  # the next step may find anything in the padding
            own = self._uneven(gives[o].shape, gives[o].sharding)
            gives[o] = replace(gives[o], dirty=own)
        made = dict(zip(graph.outputs, (value.node for value in gives), strict=True))
        inputs = tuple(inner.value(i).node for i in graph.inputs)
        body = Graph(graph.name, inputs, made)
        reasons, link = inner.resharder.reasons, self.rates.link
        return LocalBody(body, takes, tuple(gives), reasons, self.mesh.axes, link)

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
        local = self._local(node, rule, axes)
        partial = self._partial(rule, axes)
        for number, dims in enumerate(rule.results):
            own = (
                local
                if len(node.results) == 1
                else Node(Pick(number), (local,), local.results[number], node.origin)
            )
            shape, sharding = node.results[number].shape, sharding_of(dims, axes)
            dirty = self._uneven(shape, sharding)
            value = Local(self._counted(node, own, dims, axes), shape, sharding, dirty)
            for combine, names in partial.items():
                along = f"{what} combines its parts along {', '.join(names)}"
                wanted = self.shardings.of((node, number))
                value = self.resharder.total(value, names, combine, wanted, along)
            self.locals[node, number] = value

    def _local(self, node: Node, rule: ShardingRule, axes: Assignment) -> Node:
        """A node of one rank, with its parts of the operands."""
        what = describe(node.origin, node.op.mnemonic)
        why = f"{what} needs its operand so"
        if rule.regroups:
            why += unfit(rule, self.value(node.inputs[0]).sharding, self.mesh)
        inputs = [
            self._operand(self.value(i), rule, dims, axes, why)
            for i, dims in zip(node.inputs, rule.operands, strict=True)
        ]

        def parts(factor: Factor | None) -> int:
            return 1 if factor is None else self.mesh.parts(axes.get(factor, ()))

        op = rule.local(parts)
        rows = {axis: names for axis, f in rule.rows.items() if (names := axes.get(f))}
        if rows:
            return own_rows(node, op, inputs, rows, self.resharder)
        halos = {names: halo for f, halo in rule.halos.items() if (names := axes.get(f))}
        if halos:
            sharding = sharding_of(rule.operands[0], axes)
            x = self.resharder.to(self.value(node.inputs[0]), sharding, f"{what} needs it so")
            op, inputs[0] = with_halos(op, x, halos, self.resharder, f"{what} reads beyond a part")
        if isinstance(op, Reshape):
            reason = f"{what} merges or splits an axis into other parts"
            inputs[0] = regrouped(inputs[0], rule, axes, self.resharder, reason)
        if isinstance(op, Roll):
            axis = op.axis % node.type.rank
            if names := sharding_of(rule.results[0], axes)[axis]:
                reason = f"{what} moves parts on"
                return rolled(inputs[0], axis, op.shift, names, self.resharder, reason)
        if op is node.op and tuple(inputs) == node.inputs:
            return node
        return Node.of(op, *inputs, origin=node.origin)

    def _uneven(self, shape: Sequence[Dim], sharding: Sharding) -> frozenset[int]:
        """The axes that have no equal parts, so that the last parts end in padding."""
        axes = enumerate(zip(shape, sharding, strict=True))
        return frozenset(a for a, (n, names) in axes if not self.resharder.even(n, names))

    def _operand(
        self, value: Local, rule: ShardingRule, dims: Dims, axes: Assignment, reason: str
    ) -> Node:
        """A rank's part of an operand. The padding of axes that are combined is masked."""
        own = self.resharder.to(value, sharding_of(dims, axes), reason)
        for axis, factor in enumerate(dims):
            if factor is not None and factor in rule.combine:
                own = replace(own, node=self.resharder.masked(own, axis, rule.combine[factor]))
        return own.node

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
        """The mesh axes of each factor."""
        operands = [self.value(i).sharding for i in node.inputs]
        results = [self.shardings.of((node, n)) for n in range(len(node.results))]
        return assigned(rule, operands, results, self.mesh, self._gathered(node, rule))

    def _gathered(self, node: Node, rule: ShardingRule) -> set[Factor]:
        """The rows of a table that is better gathered than read in parts."""
        if not isinstance(node.op, Gather):
            return set()
        table, wanted = self.value(node.inputs[0]), self.shardings.of((node, 0))
        return {
            factor
            for axis, factor in rule.rows.items()
            if table.sharding[axis] and dearer(node, table, axis, wanted, self.mesh, self.rates)
        }
