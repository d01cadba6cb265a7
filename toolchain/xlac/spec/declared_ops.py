"""The operations in a spec's `ops` section, each applied by itself to given types, outside of the
spec's graph.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xlac.ir.dims import Dim, Shape
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import Param
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.context import Elaboration
from xlac.spec.elaborate.custom.operation import use
from xlac.spec.elaborate.handlers import HANDLERS
from xlac.spec.elaborate.scope import Bundle, Frame, Scope
from xlac.spec.elaborate.type_text import extent, type_parts
from xlac.spec.elaborate.unused import check_unused
from xlac.spec.kernels.files import KernelText
from xlac.spec.kernels.files import read as read_kernels
from xlac.spec.report import Fault, Poisoned, Report, nearest
from xlac.spec.schema import schema
from xlac.spec.schema.document import Merged, merged_with, read_document, resolved
from xlac.spec.schema.settings import read_dims, read_params
from xlac.spec.text.composer import compose
from xlac.spec.weights.stored import Stored
from xlac_sdk.source import Diagnostic, SourceError, Span


@dataclass(frozen=True)
class DeclaredOps:
    """The operations declared in a spec's section `ops`, made by `read` or `of`."""

    merged: Merged
    constants: Constants
    kernels: Mapping[str, Mapping[str, KernelText]]
    folder: Path
    allow_outside: bool

    @staticmethod
    def read(path: str | Path, allow_outside: bool = False) -> DeclaredOps:
        """The operations of a spec, which need not have a graph. Raises SourceError."""
        report, file = Report(), Path(path)
        merged = read_document(file, report, allow_outside)
        if merged is None:
            report.finish()
            raise AssertionError("a spec that cannot be read has a reason")
        return DeclaredOps._of(merged, report, resolved(file).parent, allow_outside)

    @staticmethod
    def of(section: Mapping[str, Any], folder: Path) -> DeclaredOps:
        """The operations of a section `ops`, given as a mapping; files of kernels are relative to
        `folder`. Raises SourceError.
        """
        try:
            text = json.dumps({"xlac": 1, "ops": section}, indent=1)
        except (TypeError, ValueError) as error:
            problem = f"this is not a section `ops` of mappings, texts and numbers: {error}"
            raise SourceError(Diagnostic("XL1012", problem)) from None
        report = Report()
        merged = merged_with(compose(folder / "ops", text), report)
        return DeclaredOps._of(merged, report, resolved(folder), False)

    @staticmethod
    def _of(merged: Merged, report: Report, folder: Path, allow_outside: bool) -> DeclaredOps:
        sizes, _ = read_dims(merged, {}, report)
        values = read_params(merged, {}, sizes, report)
        kernels = read_kernels(merged, report, folder, allow_outside)
        declared = DeclaredOps(merged, Constants(values, sizes), kernels, folder, allow_outside)
        check_unused(declared._elaboration(report))
        report.finish()
        if not merged.ops:
            problem = "the spec declares no operations"
            raise SourceError(
                Diagnostic("XL2002", problem, merged.at.span, "its section `ops` does")
            )
        return declared

    @property
    def names(self) -> list[str]:
        """The names of the operations."""
        return list(self.merged.ops)

    def declared(self, name: str) -> schema.OpSpec:
        """The declaration of an operation. Raises SourceError."""
        if name not in self.merged.ops:
            problem = f"the spec declares no operation {name!r}"
            hint = nearest(name, self.names)
            raise SourceError(Diagnostic("XL2004", problem, self.merged.at.span, hint))
        return self.merged.ops[name].spec

    def place(self, name: str) -> Span:
        """The place where an operation is declared."""
        return self.merged.ops[name].place.key

    def apply(
        self, name: str, operands: Sequence[Node], attributes: Mapping[str, Any]
    ) -> tuple[Node, ...]:
        """The results of an operation: its reference graph inline, or a node that may use its
        kernels. Raises SourceError for operands or attributes that do not fit.
        """
        known = self.declared(name).params
        for key in attributes:
            if key not in known:
                problem = f"unknown attribute {key!r} for {name}"
                hint = nearest(key, known)
                raise SourceError(Diagnostic("XL2005", problem, self.place(name), hint))
        report = Report()
        context = self._elaboration(report)
        scope, at = Scope(context.root, self.constants), self.place(name)
        try:
            value = use(context, scope, name, operands, attributes, name, _Whole(at), at)
        except Fault as fault:
            report.fault(fault)
        except Poisoned:
            pass
        report.finish()
        return value.results if isinstance(value, Bundle) else (value,)  # type: ignore[return-value]

    def alone(self, name: str, types: Sequence[Type], attributes: Mapping[str, Any]) -> Graph:
        """A graph that applies an operation to inputs of these types. Raises SourceError."""
        spec = self.declared(name)
        names = [*spec.inputs, *(f"in{n}" for n in range(len(spec.inputs), len(types)))]
        inputs = tuple(Node.of(Param(k, t)) for k, t in zip(names, types, strict=False))
        results = self.apply(name, inputs, attributes)
        return Graph(name, inputs, dict(zip(spec.outputs, results, strict=True)))

    def types(
        self, name: str, sizes: Iterator[int], shape: Shape, attributes: Mapping[str, Any]
    ) -> list[Type]:
        """Operand types that the declaration admits: names are bound to `sizes` in the order of
        their occurrence, and `*S` to `shape`. Raises SourceError.
        """
        entry = self.merged.ops[name]
        params = {**self.constants.params, **entry.spec.params, **attributes}
        constants = self.constants.extended(params)
        met: dict[str, Dim] = {}
        types = []
        try:
            for key, text in entry.spec.inputs.items():
                place = entry.place.at("inputs", key)
                dtype, extents, offset = type_parts(text, constants, place)
                found_shape: list[Dim] = []
                for tree in extents[1] if extents else ():
                    if isinstance(tree, ast.Starred):
                        found_shape += shape
                    elif isinstance(tree, ast.Name) and tree.id not in params:
                        if tree.id not in met:
                            met[tree.id] = next(sizes)
                        found_shape.append(met[tree.id])
                    else:
                        assert extents is not None
                        inside = constants.extended({}, met)
                        found_shape.append(extent(extents[0], tree, inside, place, offset))
                types.append(Type(dtype, tuple(found_shape)))
        except Fault as fault:
            raise SourceError(fault.diagnostic) from None
        return types

    def _elaboration(self, report: Report) -> Elaboration:
        merged = self.merged
        stored = Stored(merged.weights, report, self.folder, self.allow_outside)
        return Elaboration(
            report, merged.blocks, merged.ops, Frame(), stored, HANDLERS, self.kernels
        )


@dataclass(frozen=True)
class _Whole:
    """Spans for an application outside of a spec: all parts are at the operation's declaration."""

    at: Span

    def whole(self) -> Span:
        return self.at

    def name(self) -> Span:
        return self.at

    def operand(self, number: int) -> Span:
        return self.at

    def attribute(self, name: str, path: tuple[str | int, ...] = ()) -> Span:
        return self.at
