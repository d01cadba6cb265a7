"""Imports a whole TensorFlow Lite model: inputs, weights, operators, outputs, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import xlac.frontends.tflite.ops  # noqa: F401 - registers the operators
from xlac.frontends.importing.model_importer import MissingValue
from xlac.frontends.importing.model_inputs import ModelInputs
from xlac.frontends.produced import verified
from xlac.frontends.sizes import DimValue, plain
from xlac.frontends.tflite.file.flatbuffer import MalformedFlatBuffer
from xlac.frontends.tflite.file.model_file import ModelFile, Signature
from xlac.frontends.tflite.file.tensors import COMPLEX, TensorInfo
from xlac.frontends.tflite.importer import TFLiteImporter
from xlac.frontends.tflite.produced import PRODUCED
from xlac.ir.dims import Dim
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.model import Interface, Model, Undecided
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest

DEFAULT = "serving_default"  # the signature that is imported where a model has several


def read(
    path: Path, dims: Mapping[str, DimValue], params: Mapping[str, object], signature: str = ""
) -> Model:
    """The model of a signature, "" for the default one. Raises SourceError with every problem, or
    Undecided if sizes depend on values of inputs.
    """
    file = ModelFile(path)
    try:
        return _Reading(file, dims, params, signature).model()
    except MalformedFlatBuffer as error:
        raise SourceError(
            Diagnostic("XL7501", f"{path} is not a TensorFlow Lite model: {error}")
        ) from None
    except RecursionError:
        raise SourceError(
            Diagnostic("XL7007", "the model's sub-graphs are nested too deeply")
        ) from None


class _Reading:
    """The import of one signature of a model."""

    def __init__(
        self,
        file: ModelFile,
        dims: Mapping[str, DimValue],
        params: Mapping[str, object],
        signature: str,
    ) -> None:
        self.file = file
        self.signature = _named(file, signature) if signature else _signature(file)
        self.graph = file.graph(self.signature.graph)
        self.importer = TFLiteImporter(file, self.graph)
        self.inputs = ModelInputs(dims, params)

    def model(self) -> Model:
        """The model of the signature."""
        names = {index: name for name, index in self.signature.inputs.items()}
        self.inputs.check(tuple(names.values()))
        inputs = [self._input(names[i], self.graph.tensors[i]) for i in self.graph.inputs]
        importer = self.importer
        importer.reserved |= set(names.values())
        outputs: dict[int, Node] = {}
        try:
            results = importer.run(self.graph, inputs)
            outputs = dict(zip(self.graph.outputs, results, strict=True))
        except MissingValue:
            pass
        except ShapeError as error:
            place = f"sub-graph '{self.graph.name}'"
            importer.problems.append(Diagnostic("XL7503", f"{place}: {error}", hint=error.hint))
        if importer.problems:
            raise SourceError(*importer.problems)
        named = tuple(self.signature.outputs)
        if importer.needed:
            raise Undecided(
                Interface(
                    tuple(self.inputs.nodes),
                    tuple(names.values()),
                    named,
                    frozenset(importer.needed),
                )
            )
        by_name = {name: outputs[index] for name, index in self.signature.outputs.items()}
        state = importer.variables.state(by_name)
        held = importer.variables.params
        graph = Graph(_name_of(self.file), (*self.inputs.nodes, *held), by_name)
        return Model(
            verified(graph, PRODUCED, "TensorFlow Lite"),
            importer.weights,
            dims=self.inputs.sizes.open(),
            doc=self.file.table["description"] or "",
            state=state,
        )

    def _input(self, name: str, info: TensorInfo) -> Node:
        if info.dtype is None:
            raise SourceError(
                Diagnostic("XL7504", f"input '{name}' is of type {info.kind}, which has no numbers")
            )
        shape: tuple[Dim, ...] = tuple(
            self.inputs.size(name, axis) if size == -1 else size
            for axis, size in enumerate(info.signature)
        )
        shape = (*shape, 2) if info.kind == COMPLEX else shape
        return self.inputs.node(name, info.dtype, shape)


def _named(file: ModelFile, name: str) -> Signature:
    """The signature of this name. Raises SourceError, with the names there are."""
    known = {signature.key: signature for signature in file.signatures}
    if name not in known:
        hint = nearest(name, tuple(known), f"it has: {', '.join(known) or 'none'}")
        raise SourceError(
            Diagnostic("XL7505", f"the model has no signature '{name[:200]}'", hint=hint)
        )
    return _complete(file, known[name])


def _signature(file: ModelFile) -> Signature:
    """The signature to import: serving_default, else the first; without signatures, the first
    sub-graph with its tensors' names. Raises SourceError.
    """
    for wanted in (DEFAULT, None):
        for signature in file.signatures:
            if wanted in (signature.key, None):
                return _complete(file, signature)
    graph = file.graph(0)
    sides = []
    for indices in (graph.inputs, graph.outputs):
        names = [graph.tensors[index].name for index in indices]
        repeated = Counter(names)
        sides.append(
            {
                name if repeated[name] == 1 else f"{name}.{number}": index
                for number, (name, index) in enumerate(zip(names, indices, strict=True))
            }
        )
    return _complete(file, Signature("", 0, *sides))


def _complete(file: ModelFile, signature: Signature) -> Signature:
    """The signature, which must name all inputs and outputs of its sub-graph. Raises
    SourceError.
    """
    graph = file.graph(signature.graph)
    if len(set(graph.inputs)) < len(graph.inputs):
        problem = f"sub-graph '{graph.name}' has one tensor as several inputs"
        raise SourceError(Diagnostic("XL7501", problem))
    missing = set(graph.inputs) - set(signature.inputs.values())
    strange = set(signature.outputs.values()) - set(graph.outputs)
    if missing or strange or not graph.outputs:
        raise SourceError(
            Diagnostic(
                "XL7501",
                f"signature '{signature.key}' does not fit its sub-graph '{graph.name}': its "
                "inputs and outputs differ",
            )
        )
    return signature


def _name_of(file: ModelFile) -> str:
    return plain(file.path.stem) if file.path is not None else "model"
