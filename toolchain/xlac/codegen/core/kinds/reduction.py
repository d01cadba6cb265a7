"""Groups around reductions: their element computations, the lookup of reduction results, and the
stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from xlac.codegen.core.access_analysis import Survey, Surveyor
from xlac.codegen.core.addressing import plain
from xlac.codegen.core.elements import Elements
from xlac.codegen.core.reduction_plan import ReductionPass, ReductionPlan, ReductionSpace, plan
from xlac.fusion.group import is_immediate
from xlac.ir.graph import Node
from xlac.ir.op import Index
from xlac.ops.control.control import Pick
from xlac.ops.reduction.reduction import Reduce
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.kernel import Expr, Var


class ReductionValues:
    """The element computations of one group around reductions; subclasses write the loops."""

    def __init__(self, elements: Elements, space: ReductionSpace) -> None:
        self.elements, self.space = elements, space
        self.builder, self.target, self.group = elements.builder, elements.target, elements.group
        self.plan: ReductionPlan = plan(self.group, space)
        self.results: dict[Node, dict[Index, Expr]] = {}
        self.dry, self.survey = self._survey()
        reductions = [r for one in self.plan.passes for r in one.reductions]
        self.ordered = any(r.op.body is not None for r in reductions if isinstance(r.op, Reduce))
        self.borrowed: set[Node] = set()  # outputs whose rows temporarily hold kept values
        for r in reductions:
            self._bind_results(r)

    # ---- what to loop over -------------------------------------------------------------------

    def _survey(self) -> tuple[Elements, Survey]:
        dry = Surveyor(self.elements, self.space.shape)
        for node in self.group.nodes:
            if isinstance(node.op, Reduce):
                for number, standing in self._standing(node):
                    value = Var("result", node.results[number].dtype.compute)
                    dry.elements.bind_value(standing, lambda _, value=value: value)  # type: ignore[misc]
        for root in dict.fromkeys(root for one in self.plan.passes for root in one.roots):
            dry.read(root, self.space.index(root, dry.index, build.index(0)))
        for node in self.group.outputs:
            dry.store(node, self.space.index(node, dry.index, build.index(0)))
        return dry.elements, dry.survey()

    def _standing(self, reduction: Node) -> list[tuple[int, Node]]:
        """The nodes that represent the results of a reduction: itself, or a Pick for each."""
        if len(reduction.results) == 1:
            return [(0, reduction)]
        picks = [n for n in self.group.nodes if isinstance(n.op, Pick) and n.inputs[0] is reduction]
        return [(n.op.index, n) for n in picks if isinstance(n.op, Pick)]

    def borders(self) -> list[int]:
        """Axes at which kept and reduced axes alternate, which are not merged."""
        moved = [a for a, n in enumerate(self.space.shape) if n != 1]
        reduced = self.space.reduced
        return [b for a, b in pairwise(moved) if (a in reduced) != (b in reduced)]

    # ---- results of reductions ---------------------------------------------------------------

    def _key(self, index: Index) -> Index:
        """The entries of an index of the space that identify a result."""
        kept = (
            a for a in range(len(index)) if a not in self.space.reduced and self.space.shape[a] != 1
        )
        return plain(tuple(index[a] for a in kept))

    def _deliver(self, reduction: Node, index: Index, values: Sequence[Expr]) -> None:
        for number, standing in self._standing(reduction):
            self.results[standing][self._key(index)] = values[number]

    def _bind_results(self, reduction: Node) -> None:
        for _, standing in self._standing(reduction):
            known = self.results.setdefault(standing, {})
            moving = [a for a, n in enumerate(self.space.kept) if n != 1]

            def read(
                index: Index, known: dict[Index, Expr] = known, moving: Sequence[int] = moving
            ) -> Expr:
                # KeyError would mean that fusion put an unaligned reader here
                return known[tuple(index[a] for a in moving)]

            self.elements.bind_value(standing, read)

    def _settle(self, one: ReductionPass, index: Index) -> None:
        """Computes the nodes that follow from a pass' results here, outside the loops of the next
        pass.
        """
        if one is not self.plan.passes[-1]:
            for node in one.after:
                self.elements.at(node, self.space.index(node, index, build.index(0)))

    def _store_results(self, index: Index) -> None:
        at = [(node, self.space.index(node, index, build.index(0))) for node in self.plan.results]
        values = [self.elements.at(node, where) for node, where in at]
        for (node, where), value in zip(at, values, strict=True):
            self.elements.store(node, where, value)

    # ---- memory ------------------------------------------------------------------------------

    def in_place(self) -> list[tuple[Node, Node]]:
        """Pairs of an output and an input that it may overwrite: outputs of the last pass, if the
        input is read only at the same element.
        """
        pairs = []
        written_last = [*self.plan.passes[-1].stores, *self.plan.results]
        for node in self.group.inputs:
            read = [] if is_immediate(node) else self.survey.exact(self.dry.parameter(node))
            for output in written_last:
                (written, *_) = self.survey.exact(self.dry.parameter(output))
                same = all(
                    a.strides == written.strides and a.offset == written.offset and not a.opaque
                    for a in read
                )
                fits = node.type.fills(output.type)
                if read and same and fits and output not in self.borrowed:
                    pairs.append((output, node))
        return pairs
