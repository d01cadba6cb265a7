"""Writes operations of a StableHLO function: values, types, regions, and errors for what it cannot
express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlac.exporters.graph_writer import GraphWriter
from xlac.exporters.spec.names import clean
from xlac.exporters.stablehlo.literals import constant_text, type_text
from xlac.exporters.stablehlo.shardy import WrittenMesh
from xlac.exporters.stablehlo.sizes import WrittenSizes
from xlac.ir.graph import Node, walk
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import Const, param
from xlac_sdk.dtypes import DType
from xlac_sdk.support.unused_names import unused_name


@dataclass(frozen=True, slots=True)
class SsaValue:
    """A value of the function: its name with `%`, and its type."""

    name: str
    type: Type


Rule = Callable[..., "SsaValue | Sequence[SsaValue]"]
RULES: dict[str, Rule] = {}
REFUSED: dict[str, str] = {}
"""Operations that cannot be written, each with the reason. All others have a rule or an
expansion.
"""


def rule(*mnemonics: str) -> Callable[[Rule], Rule]:
    """Registers a rule for operations: a function of the writer, the node and the values of its
    operands.
    """

    def add(function: Rule) -> Rule:
        RULES.update(dict.fromkeys(mnemonics, function))
        return function

    return add


class StableHloWriter(GraphWriter[SsaValue]):
    """One function being written."""

    def __init__(self, weights: Callable[[str], Array], mesh: WrittenMesh | None = None) -> None:
        super().__init__()
        self.mesh = mesh
        self.lines: list[str | Callable[[], str]] = []
        self.indent = "    "
        self.weights = weights
        self.sizes = WrittenSizes(self)
        self._taken: set[str] = set()

    def fresh(self, wanted: str) -> str:
        """An unused name, as close to the wanted one as possible."""
        return f"%{unused_name(clean(wanted or 'v'), self._taken)}"

    def op(
        self, name: str, operands: Sequence[SsaValue], type: Type, attributes: str = ""
    ) -> SsaValue:
        """Writes an operation with one result. `attributes` is the text between `<{` and `}>`."""
        return self.many(name, operands, [type], attributes)[0]

    def many(
        self,
        name: str,
        operands: Sequence[SsaValue],
        types: Sequence[Type],
        attributes: str = "",
        regions: Sequence[list[Any]] = (),
    ) -> list[SsaValue]:
        """Writes an operation in MLIR's generic form, which every parser supports."""
        name_of_results = self.fresh(self.hint or name)
        mark = f"{name_of_results}:{len(types)}" if len(types) > 1 else name_of_results
        given = f" <{{{attributes}}}>" if attributes else ""
        ends = (
            f" : ({', '.join(type_text(o.type) for o in operands)}) -> "
            f"({', '.join(map(type_text, types))})"
        )
        head = (
            f"{self.indent}{mark} = "
            f'"stablehlo.{name}"({", ".join(o.name for o in operands)}){given}'
        )
        if not regions:
            self.lines.append(head + ends)
        else:
            self.lines.append(head + " ({")
            for number, region in enumerate(regions):
                self.lines += [*([self.indent + "}, {"] if number else []), *region]
            self.lines.append(f"{self.indent}}}){ends}")
        if len(types) == 1:
            return [SsaValue(name_of_results, types[0])]
        return [SsaValue(f"{name_of_results}#{i}", t) for i, t in enumerate(types)]

    def constant(self, value: Any, dtype: DType) -> SsaValue:
        """A small constant."""
        return self.stored(np.asarray(value, dtype.numpy), dtype)

    def stored(self, array: Array, dtype: DType) -> SsaValue:
        """A constant with these elements."""
        type = Type(dtype, array.shape)
        name = self.fresh(self.hint or "c")
        self.lines.append(
            f'{self.indent}{name} = "stablehlo.constant"() <{{value = {constant_text(array)}}}> : '
            f"() -> {type_text(type)}"
        )
        return SsaValue(name, type)

    def divided(self, value: SsaValue, axes: Sequence[Sequence[str]]) -> SsaValue:
        """A value that is divided among ranks along these axes of the mesh, by an operation that
        tools without Shardy's dialect read, too.
        """
        assert self.mesh is not None
        name, type = self.fresh(self.hint or "sharding"), type_text(value.type)
        self.lines.append(
            f'{self.indent}{name} = "stablehlo.custom_call"({value.name}) <{{call_target_name = '
            f'"Sharding"}}> {{{self.mesh.of_result(axes)}}} : ({type}) -> {type}'
        )
        return SsaValue(name, value.type)

    def weight(self, node: Node) -> SsaValue:
        """A learned tensor, whose text is made when it is written."""
        value = self._weight(node)
        said = self.mesh.params.get(param(node).name) if self.mesh else None
        return self.divided(value, said.axes) if said else value

    def _weight(self, node: Node) -> SsaValue:
        name, label, indent = param(node).name, self.fresh(node.name), self.indent
        self.lines.append(
            lambda: (
                f'{indent}{label} = "stablehlo.constant"() <{{value = '
                f"{constant_text(self.weights(name))}}}> : () -> {type_text(node.type)}"
            )
        )
        return SsaValue(label, node.type)

    def argument(self, node: Node) -> SsaValue:
        """An input of the function."""
        return SsaValue(self.fresh(param(node).name), node.type)

    # ---- regions -----------------------------------------------------------------------------

    @contextmanager
    def _inside(self) -> Iterator[list[Any]]:
        before, self.lines, self.indent = self.lines, [], self.indent + "  "
        try:
            yield self.lines
        finally:
            self.lines, self.indent = before, self.indent[:-2]

    def region(self, types: Sequence[Type], fill: Callable[..., Sequence[SsaValue]]) -> list[Any]:
        """The lines of a region: its arguments, the operations that `fill` writes, and its
        results.
        """
        with self._inside() as lines:
            given = [SsaValue(self.fresh("arg"), t) for t in types]
            if given:
                takes = ", ".join(f"{v.name}: {type_text(v.type)}" for v in given)
                lines.append(f"{self.indent[:-2]}^bb0({takes}):")
            results = fill(*given)
            names, ends = (
                ", ".join(r.name for r in results),
                ", ".join(type_text(r.type) for r in results),
            )
            lines.append(f'{self.indent}"stablehlo.return"({names}) : ({ends}) -> ()')
            return lines

    # ---- graphs ------------------------------------------------------------------------------

    def subgraph(self, root: Node, given: dict[Node, SsaValue]) -> SsaValue:
        """The value of nodes that are built from others with known values."""
        values: dict[Node, Any] = dict(given)
        for node in walk((root,), given):
            values[node] = self.node(node, values)
        value: SsaValue = values[root]
        return value

    def leaf(self, node: Node) -> SsaValue:
        if isinstance(node.op, Const):
            return self.stored(node.op.value, node.type.dtype)
        return self.weight(node)

    def placeholder(self, type: Type) -> SsaValue:
        return SsaValue("%none", type)

    def written(self, node: Node, values: dict[Node, Any]) -> Any:
        if (rule := RULES.get(node.op.mnemonic)) is not None:
            results = rule(self, node, *(values[i] for i in node.inputs))
            return results if isinstance(results, SsaValue) or len(node.results) > 1 else results[0]
        return self.expansion(node, values, REFUSED.get(node.op.mnemonic))
