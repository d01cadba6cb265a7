"""Compiles a graph of supported ATen operations to a function of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx import Node as FxNode

from xlac.api import compile
from xlac.frontends.produced import verified
from xlac.frontends.torch.aliases import viewed
from xlac.frontends.torch.complex_tensors import ComplexTensor, apart, together
from xlac.frontends.torch.errors import NotExpressible, UnsupportedNode
from xlac.frontends.torch.fx_nodes import inputs_of, output_of
from xlac.frontends.torch.importer import FxImporter
from xlac.frontends.torch.layout import is_dense, order, usual
from xlac.frontends.torch.produced import PRODUCED
from xlac.frontends.torch.sizes import Sizes
from xlac.frontends.torch.tensors import array_of
from xlac.integrations.torch.program import (
    Output,
    PassedArgument,
    Result,
    TensorProgram,
    TorchInput,
    ViewOfMemory,
    dense,
)
from xlac.integrations.torch.views import ViewGeometry, overlaps, shared
from xlac.ir.dims import Dim, Sym, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.ir.permutations import inverse
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.programs.sizes import determined
from xlac_sdk.source import Diagnostic, Origin, UnsupportedError


@dataclass(frozen=True, slots=True)
class Options:
    """The options of `torch.compile(…, backend="xlac", options={…})`, and what `backend` adds."""

    target: str = "cpu"
    threads: int | None = None
    precision: str = "default"
    fallback: bool = True
    checked: bool | str | None = None
    allow_kernels: bool | None = None
    max_compile_seconds: float | None = None
    max_compile_memory: int | None = None
    tune: float | bool | None = None
    freeze: bool = False
    name: str = "graph"
    visible: frozenset[int] | None = None  # numbers of the results that the user gets; None: all
    # the values of arguments that are constants of the program, by position
    frozen: Mapping[int, torch.Tensor] = field(default_factory=dict)


class Subgraph:
    """An imported graph. `unsupported` lists the nodes that cannot be compiled; `sizes` fixes the
    values of open sizes, by PyTorch's symbol, or says which other they equal.
    """

    def __init__(
        self, module: GraphModule, options: Options, sizes: Mapping[Any, Any] | None = None
    ) -> None:
        self.module, self.options = module, options
        self.importer = FxImporter(module, Sizes(values=sizes))
        self.inputs: list[TorchInput] = []
        self.params: list[Node] = []
        self.weights: dict[str, Array] = {}
        values: dict[FxNode, Node | ComplexTensor | None] = {}
        self.places = inputs_of(module.graph)
        for position, place in enumerate(self.places):
            values[place] = self._input(position, place)
        self.values = self.importer.run(values)
        self.unsupported: list[UnsupportedNode] = self.importer.unsupported

    def _input(self, position: int, place: FxNode) -> Node | ComplexTensor | None:
        meta = place.meta.get("val")
        if not isinstance(meta, torch.Tensor):
            return None
        try:
            type = self.importer.type_of(meta)
        except NotExpressible:  # reported at the nodes that read it
            return None
        perm = order(meta)
        name = f"{place.name}"
        shape = type.shape if perm is None else tuple(type.shape[axis] for axis in perm)
        held = (*shape, 2) if meta.is_complex() else shape
        value = self.options.frozen.get(position)
        kind = "input" if value is None else "weight"
        node = build.param(name, type.dtype, held, kind, Origin(name))
        if value is None:
            symbolic = any(isinstance(d, Sym) for d in shape)
            self.params.append(node)
            self.inputs.append(TorchInput(position, name, perm, symbolic))
        else:
            self.weights[name] = array_of(dense(value, perm))
        if meta.is_complex():
            back = range(len(shape)) if perm is None else inverse(perm)
            return apart(node).each(partial(build.transpose, perm=back))
        return node if perm is None else build.transpose(node, inverse(perm))

    @property
    def undetermined_sizes(self) -> list[str]:
        """The open sizes that no tensor argument's shape determines: arguments that are numbers."""
        known = determined(node.shape for node in self.params)
        return [name for name in self.importer.sizes.symbols if name not in known]

    def results(self) -> tuple[dict[str, Node], list[Result]]:
        """The outputs of the model by name, and the graph's results in terms of these."""
        outputs: dict[str, Node] = {}
        every, visible = output_of(self.module), self.options.visible
        seen = [fx for number, fx in enumerate(every) if visible is None or number in visible]
        views = shared(seen)
        nodes = [fx for fx in seen if isinstance(fx, FxNode)]
        results = {
            fx: self._view(fx, views[fx], outputs)
            if fx in views
            else self._result(fx, outputs, True)
            for fx in nodes
        }
        return outputs, [
            results[fx] if isinstance(fx, FxNode) and fx in results else self._result(fx, outputs)
            for fx in every
        ]

    def program(self) -> TensorProgram:
        """Compiles the graph, which must have nothing unsupported. Raises UnsupportedError where no
        argument determines an open size.
        """
        outputs, results = self.results()
        if self.undetermined_sizes:
            raise UnsupportedError(
                Diagnostic(
                    "XL5010", f"size {self.undetermined_sizes[0]} is determined by no argument"
                )
            )
        seed = self.importer.random.seed
        used = set(Graph("", (), outputs).nodes())
        kept = [n for n in self.params if n in used or self._sizes_needed(n)]
        graph = Graph(self.options.name, (*kept, *([seed] if seed else [])), outputs)
        graph = verified(graph, PRODUCED, "PyTorch")
        model = Model(graph, self.weights, self.importer.sizes.symbols)
        model = replace(model, precision=self.options.precision)
        names = {n.name for n in kept}
        given = self.options
        compiled = compile(
            model,
            given.target,
            threads=given.threads,
            checked=given.checked,
            max_compile_seconds=given.max_compile_seconds,
            max_compile_memory=given.max_compile_memory,
            allow_kernels=given.allow_kernels,
            tune=given.tune,
        )
        return TensorProgram(
            model,
            compiled,
            [i for i in self.inputs if i.name in names],
            results,
            self.importer.random.name if seed else "",
        )

    def _sizes_needed(self, node: Node) -> bool:
        return any(symbols(d) for d in node.shape)

    def _view(self, fx: FxNode, base: FxNode, outputs: dict[str, Node]) -> Result:
        """A result as a view of another; computed by itself where the strides are no expressions of
        open sizes.
        """
        geometry, strides = self._geometry(fx.meta["val"]), self._geometry(base.meta["val"])
        of = self._result(base, outputs) if geometry and strides else None
        if geometry is None or strides is None or not isinstance(of, Output | PassedArgument):
            return self._result(fx, outputs)
        if isinstance(of, PassedArgument):  # relative to where the argument begins
            geometry = replace(geometry, offset=geometry.offset - strides.offset)
        return ViewOfMemory(of, strides.strides, geometry)

    def _geometry(self, tensor: torch.Tensor) -> ViewGeometry | None:
        sizes = self.importer.sizes
        try:
            return ViewGeometry(
                sizes.shape(tensor.shape),
                sizes.shape(tensor.stride()),
                sizes.dim(tensor.storage_offset()),
            )
        except NotExpressible:
            return None

    def _result(self, fx: Any, outputs: dict[str, Node], seen: bool = False) -> Result:
        if not isinstance(fx, FxNode):
            return fx  # type: ignore[no-any-return]
        if fx in self.places:
            return PassedArgument(self.places.index(fx))
        value = self.values[fx]
        if not isinstance(value, Node | ComplexTensor):
            return value  # type: ignore[no-any-return]
        perm, complex = order(fx.meta["val"]), isinstance(value, ComplexTensor)
        if perm is not None:
            turned = partial(build.transpose, perm=perm)
            value = value.each(turned) if isinstance(value, ComplexTensor) else turned(value)
        dims: tuple[Dim, ...] = value.shape
        outputs[fx.name] = held = together(value) if isinstance(value, ComplexTensor) else value
        meta = fx.meta["val"]
        back = None if perm is None else inverse(perm)
        output = Output(fx.name, held.type.dtype, dims, back, complex=complex)
        if not seen or (place := self._geometry(meta)) is None:
            return output
        if is_dense(meta):  # strides of axes of one element may be any
            return (
                output if usual(meta, perm) else ViewOfMemory(output, (), replace(place, offset=0))
            )
        return (
            replace(output, place=place)
            if viewed(fx) is not None and not overlaps(meta)
            else output
        )
