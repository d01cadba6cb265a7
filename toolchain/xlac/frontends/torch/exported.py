"""Programs of `torch.export` as models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from xlac.frontends.produced import verified
from xlac.frontends.torch.complex_tensors import ComplexTensor, apart, together
from xlac.frontends.torch.decompositions import export_decompositions
from xlac.frontends.torch.errors import NotExpressible, UnsupportedNode, refused
from xlac.frontends.torch.fx_nodes import inputs_of, output_of
from xlac.frontends.torch.importer import FxImporter
from xlac.frontends.torch.produced import PRODUCED
from xlac.frontends.torch.sizes import Sizes
from xlac.frontends.torch.table import BUILDERS
from xlac.frontends.torch.tensors import array_of
from xlac.ir.graph import Graph, Node
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.source import Diagnostic, Origin, SourceError


@dataclass(frozen=True, slots=True)
class Exported:
    """A model, and what its inputs and outputs correspond to in the exported program."""

    model: Model
    inputs: tuple[str, ...]  # the user's tensor inputs, in order
    # a buffer or input that the program mutates -> the output with its new value
    buffers: Mapping[str, str]
    # the user's outputs: names of model outputs, or constants
    outputs: tuple[str | int | float | bool | None, ...]
    seeded: bool  # whether there is an input `seed` for random numbers
    complex: frozenset[str]  # parameters and outputs of complex numbers: a last axis of 2 for parts


def imported(
    program: ExportedProgram, name: str = "main", names: Mapping[str, str] | None = None
) -> Exported:
    """A program as a model. Raises SourceError that lists everything that xlac does not support.

    Parameters and buffers become weights that share the memory of their tensors. A buffer that the
    program mutates becomes an input of its name, and an output `NAME.next`.
    """
    try:
        taken_apart = program.run_decompositions(export_decompositions())
    except Exception as error:
        # decomposition retraces the program, and may raise any exception
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(
            Diagnostic("XL7306", f"PyTorch cannot decompose {name} into ATen operations: {said}")
        ) from error
    return _Import(taken_apart, name, names).result()


class _Import:
    def __init__(
        self, program: ExportedProgram, name: str, names: Mapping[str, str] | None
    ) -> None:
        self.program, self.name = program, name
        self.importer = FxImporter(program.graph_module, Sizes(names))
        self.weights: dict[str, Array] = {}
        self.inputs: list[Node] = []
        self.asked: list[str] = []
        self.complex: set[str] = set()
        self.taken: set[str] = set()

    def result(self) -> Exported:
        signature = self.program.graph_signature
        changed = {s.target for s in signature.output_specs if s.kind is OutputKind.BUFFER_MUTATION}
        places = {n.name: n for n in inputs_of(self.program.graph)}
        given: dict[Any, Any] = {}
        for spec in signature.input_specs:
            given[places[spec.arg.name]] = self._input(spec, places[spec.arg.name], changed)
        values = self.importer.run(given)
        if self.importer.unsupported:
            raise refused(self.importer.unsupported, sorted(BUILDERS))
        outputs: dict[str, Node] = {}
        buffers: dict[str, str] = {}
        results: list[Any] = []
        for spec, fx in zip(
            signature.output_specs, output_of(self.program.graph_module), strict=True
        ):
            if spec.kind is OutputKind.TOKEN:  # it only orders effects
                continue
            value = values[fx] if isinstance(fx, torch.fx.Node) else fx
            complex = isinstance(value, ComplexTensor)
            value = together(value) if isinstance(value, ComplexTensor) else value
            if not isinstance(value, Node):
                results.append(value)
                continue
            if spec.kind is OutputKind.USER_OUTPUT:
                results.append(self._named(outputs, f"output_{len(results)}", value, complex))
            else:
                target = spec.target or ""
                buffers[target] = self._named(outputs, f"{target}.next", value, complex)
        seed = self.importer.random.seed
        graph = Graph(self.name, (*self.inputs, *([seed] if seed else [])), outputs)
        if not outputs:
            raise SourceError(Diagnostic("XL7303", f"{self.name} returns no tensor"))
        graph = verified(graph, PRODUCED, "PyTorch")
        model = Model(graph, self.weights, self.importer.sizes.symbols)
        asked, known = tuple(self.asked), frozenset(self.complex)
        return Exported(model, asked, buffers, tuple(results), seed is not None, known)

    def _named(self, outputs: dict[str, Node], name: str, value: Node, complex: bool) -> str:
        outputs[name] = value
        if complex:
            self.complex.add(name)
        return name

    def _input(self, spec: Any, place: Any, changed: set[str | None]) -> Any:
        if spec.kind is InputKind.TOKEN:
            return None
        if spec.kind is InputKind.USER_INPUT:
            meta = place.meta.get("val")
            if not isinstance(meta, torch.Tensor):
                return None
            try:
                node = self._param(place.name, meta)
            except NotExpressible as error:
                self.importer.unsupported.append(UnsupportedNode(place, "input", str(error), True))
                return None
            self.asked.append(place.name)
            return node
        tensor = self._tensor(spec)
        if spec.target in changed:
            return self._param(spec.target, tensor)
        if spec.target not in self.weights:
            self.weights[spec.target] = array_of(tensor)
        return self._param(spec.target, tensor, "weight")

    def _param(self, name: str, tensor: torch.Tensor, kind: str = "input") -> Any:
        """A parameter of the graph for a tensor; a complex one is real with a last axis of 2, the
        same memory. Raises NotExpressible.
        """
        type = self.importer.type_of(tensor)
        shape = (*type.shape, 2) if tensor.is_complex() else type.shape
        node = build.param(name, type.dtype, shape, kind, Origin(name))
        if kind == "input":
            self.inputs.append(node)
        if not tensor.is_complex():
            return node
        self.complex.add(name)
        return apart(node)

    def _tensor(self, spec: Any) -> torch.Tensor:
        if (
            spec.kind in (InputKind.PARAMETER, InputKind.BUFFER)
            and spec.target in self.program.state_dict
        ):
            tensor = self.program.state_dict[spec.target]
        else:
            tensor = self.program.constants.get(spec.target)
        if not isinstance(tensor, torch.Tensor):
            raise SourceError(
                Diagnostic(
                    "XL7304",
                    f"input '{spec.arg.name}' of the program is a {spec.kind.name.lower()}",
                )
            )
        return tensor
