"""Imports a whole TensorFlow Lite model: inputs, weights, operators, outputs, state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np

import xlac.frontends.tflite.ops  # noqa: F401 - registers the operators
from xlac.frontends.produced import verified
from xlac.frontends.sizes import OPT, DimValue, sized
from xlac.frontends.tflite.file.flatbuffer import MalformedFlatBuffer
from xlac.frontends.tflite.file.model_file import ModelFile, Signature
from xlac.frontends.tflite.file.tensors import COMPLEX, TensorInfo
from xlac.frontends.tflite.importer import MissingTensor, TFLiteImporter
from xlac.frontends.tflite.produced import PRODUCED
from xlac.ir.dims import Dim, Symbol, symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.model import Interface, Model, Undecided
from xlac.ops import build
from xlac_sdk.source import Diagnostic, Origin, SourceError
from xlac_sdk.support.choices import nearest

DEFAULT = "serving_default"  # the signature that is taken where a model has several


def read(path: Path, dims: Mapping[str, DimValue], params: Mapping[str, object]) -> Model:
    """The model. Raises SourceError with every problem, or Undecided if sizes depend on values of
    inputs.
    """
    file = ModelFile(path)
    try:
        return _Reading(file, dims, params).model()
    except MalformedFlatBuffer as error:
        raise SourceError(
            Diagnostic("XL7501", f"{path} is no TensorFlow Lite model: {error}")
        ) from None
    except RecursionError:
        raise SourceError(
            Diagnostic("XL7007", "the model's sub-graphs stand too deep in each other")
        ) from None


class _Reading:
    """The import of one signature of a model."""

    def __init__(
        self, file: ModelFile, dims: Mapping[str, DimValue], params: Mapping[str, object]
    ) -> None:
        self.file, self.given, self.params = file, dims, params
        self.signature = _signature(file)
        self.graph = file.graph(self.signature.graph)
        self.importer = TFLiteImporter(file)
        self.sizes: dict[str, Dim] = {}
        self.made: list[Node] = []

    def model(self) -> Model:
        """The model of the signature."""
        names = {index: name for name, index in self.signature.inputs.items()}
        for name in self.params:
            if name not in self.signature.inputs:
                hint = nearest(
                    name, tuple(names.values()), f"the model has: {', '.join(names.values())}"
                )
                raise SourceError(
                    Diagnostic("XL2015", f"there is no input '{name}' to set", hint=hint)
                )
        inputs = [self._input(names[i], self.graph.tensors[i]) for i in self.graph.inputs]
        importer = self.importer
        outputs: dict[int, Node] = {}
        try:
            results = importer.run(self.graph, inputs)
            outputs = dict(zip(self.graph.outputs, results, strict=True))
        except MissingTensor:
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
                    tuple(self.made), tuple(names.values()), named, frozenset(importer.needed)
                )
            )
        found = {name: outputs[index] for name, index in self.signature.outputs.items()}
        state = importer.variables.state(found)
        held = importer.variables.params
        graph = Graph(_plain(self.file), (*self.made, *held), found)
        return Model(
            verified(graph, PRODUCED, "TensorFlow Lite"),
            importer.weights,
            dims=self._open(),
            doc=self.file.table["description"] or "",
            state=state,
        )

    def _input(self, name: str, info: TensorInfo) -> Node:
        if info.dtype is None:
            raise SourceError(
                Diagnostic("XL7504", f"input '{name}' is of type {info.kind}, which has no numbers")
            )
        shape: tuple[Dim, ...] = tuple(
            self._size(name, axis) if size == -1 else size
            for axis, size in enumerate(info.signature)
        )
        shape = (*shape, 2) if info.kind == COMPLEX else shape
        if name in self.params:
            return build.constant(np.asarray(self.params[name]), info.dtype)
        node = build.param(name, info.dtype, shape, origin=Origin(name))
        self.made.append(node)
        return node

    def _size(self, input: str, axis: int) -> Dim:
        """An open size. Files do not name them: the first axis of every input is the batch."""
        name = "batch" if axis == 0 else f"{_legal(input)}_{axis}"
        if name not in self.sizes:
            given = self.given.get(name)
            self.sizes[name] = symbol(name, opt=OPT) if given is None else sized(name, given)
        return self.sizes[name]

    def _open(self) -> dict[str, Symbol]:
        return {s.name: s for size in self.sizes.values() for s in symbols(size)}


def _signature(file: ModelFile) -> Signature:
    """The signature to import: that of serving, else the first; without any, the first sub-graph
    with its tensors' names. Raises SourceError.
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
    """The signature if it names all inputs and outputs of its sub-graph. Raises SourceError."""
    graph = file.graph(signature.graph)
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


def _plain(file: ModelFile) -> str:
    return _legal(file.path.stem) if file.path is not None else "model"


def _legal(text: str) -> str:
    """The closest name to the text that is legal in a spec."""
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in text).strip("_")[:60]
    return name if name[:1].isalpha() else f"size_{name}"
