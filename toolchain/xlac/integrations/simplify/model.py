"""Simplifies an ONNX model; the operators that remain, names and open sizes are kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto

from xlac.exporters.onnx.tensors import HeldTensor, save, whole
from xlac.exporters.onnx.writer import ELEMENT, declare_bounds
from xlac.frontends.onnx.file.files import Files
from xlac.frontends.onnx.importer import versions_of
from xlac.frontends.onnx.read import Imported, imported
from xlac.integrations.simplify.protos import bodies
from xlac.integrations.simplify.rebuild import Rebuilt
from xlac.integrations.simplify.values import ValueFacts, analysed
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.limits import OPERATIONS, within

INITIALIZED = 4  # the first IR version in which initializers need not be inputs
LARGEST = 64 << 10
"""Bytes of the largest folded constant that is larger than the constants it is computed from."""


@dataclass(frozen=True, slots=True)
class Simplified:
    """A simplified model: `proto` without the data of its tensors, which are in `tensors`. `before`
    and `after` count the operators of the main graph.
    """

    proto: onnx.ModelProto
    tensors: Mapping[str, HeldTensor]
    before: Mapping[str, int]
    after: Mapping[str, int]

    def model(self) -> onnx.ModelProto:
        """The model with the data of its tensors; each call makes a new one."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        return whole(proto, self.tensors)

    def write(self, file: Path, progress: Callable[[int, int], None] | None = None) -> list[Path]:
        """Writes the model, and large tensors to a second file beside it; all or nothing. Returns
        the files.
        """
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        return save(proto, self.tensors, file, progress)


def simplify(
    source: Path | onnx.ModelProto,
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    largest: int = LARGEST,
) -> Simplified:
    """An equivalent model with fewer operators: constants are folded, common subexpressions are
    merged, dead nodes are removed, types and sizes of all values are declared.

    `dims` fixes or narrows open sizes; `params` fixes inputs, which are then removed. `largest`
    bounds, in bytes, a folded constant that is larger than the constants it is computed from.
    Remaining operators are unchanged. Raises SourceError that lists all unsupported nodes.
    """
    if isinstance(source, Path) and source.suffix.lower() != ".onnx":
        raise SourceError(
            Diagnostic(
                "XL3001",
                f"{source} is not an ONNX model: only .onnx files are simplified",
                hint="`xlac export MODEL --to onnx` makes one of other models",
            )
        )
    files = Files(source, allow_outside) if isinstance(source, Path) else Files()
    proto = files.model() if isinstance(source, Path) else source
    with within(operations=OPERATIONS):
        read = imported(proto, files, dims or {}, params or {})
        values = analysed(proto, read)
    opset = versions_of(proto).get("", 0)
    rebuilt = Rebuilt(proto.graph, opset, values, largest)
    proto_now, tensors = _assembled(proto, files, read, values, rebuilt)
    counts = (
        Counter(node.op_type for node in nodes) for nodes in (proto.graph.node, rebuilt.nodes)
    )
    return Simplified(proto_now, tensors, *counts)


def _assembled(
    proto: Any, files: Files, read: Imported, values: ValueFacts, rebuilt: Rebuilt
) -> tuple[onnx.ModelProto, dict[str, HeldTensor]]:
    """The model of the remaining nodes, and its tensors."""
    assembled = onnx.ModelProto.FromString(proto.SerializeToString())
    assembled.ir_version = max(assembled.ir_version, INITIALIZED)
    graph = assembled.graph
    initializers = {t.name: t for t in graph.initializer}
    sparse = {t.values.name: t for t in graph.sparse_initializer}
    tensors: dict[str, HeldTensor] = {}
    for name in rebuilt.live():
        if name in initializers:
            tensors[name] = _given(initializers[name], files)
        elif name not in sparse:
            array = rebuilt.array(name)
            assert array is not None
            type = Type(DType.of(array.dtype), array.shape)
            tensors[name] = HeldTensor.of(name, type, lambda array=array: np.asarray(array))  # type: ignore[misc]
    live = set(rebuilt.live())
    declared = _Declared(read)
    inputs = [declared.interface(info, rebuilt, values) for info in graph.input]
    outputs = [declared.interface(info, rebuilt, values) for info in graph.output]
    kept = [
        info for info in inputs if info.name in rebuilt.inputs and info.name not in declared.set
    ]
    for field in (
        "node",
        "initializer",
        "input",
        "output",
        "value_info",
        "quantization_annotation",
    ):
        graph.ClearField(field)
    del graph.sparse_initializer[:]
    graph.sparse_initializer.extend(t for name, t in sparse.items() if name in live)
    graph.node.extend(onnx.NodeProto.FromString(n.SerializeToString()) for n in rebuilt.nodes)
    graph.input.extend(kept)
    graph.output.extend(outputs)
    graph.value_info.extend(declared.between(rebuilt, values))
    declare_bounds(assembled, {n: s for n, s in read.symbols.open().items() if n in declared.texts})
    used = _called(graph.node, assembled.functions)
    functions = [f for f in assembled.functions if (f.domain, f.name) in used]
    del assembled.functions[:]
    assembled.functions.extend(functions)
    for tensor in _inner_tensors(assembled):
        if tensor.data_location == TensorProto.EXTERNAL:
            data = bytes(files.external(tensor))
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = data
    return assembled, tensors


def _given(tensor: TensorProto, files: Files) -> HeldTensor:
    """A tensor of the model as it is, without decoding its elements."""
    header = TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    if tensor.data_location == TensorProto.EXTERNAL:
        data = files.external(tensor)
        return HeldTensor(header, len(data), lambda: data)
    if tensor.HasField("raw_data"):
        return HeldTensor(header, len(tensor.raw_data), lambda: tensor.raw_data)
    raw = onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name).raw_data
    return HeldTensor(header, len(raw), lambda: raw)


class _Declared:
    """Declares types and sizes of values; open sizes keep the model's names."""

    def __init__(self, read: Imported) -> None:
        self.texts = {str(size): text for text, size in read.symbols.items()}
        self.set = {*read.inputs.params}
        self._read = read.importer.scope.values

    def interface(
        self, info: ValueInfoProto, rebuilt: Rebuilt, values: ValueFacts
    ) -> ValueInfoProto:
        """An input or output with all of its sizes."""
        node = values.nodes.get(info.name)
        if node is not None and info.type.WhichOneof("value") in (None, "tensor_type"):
            self._fill(info, node)
        return info

    def between(self, rebuilt: Rebuilt, values: ValueFacts) -> Iterator[ValueInfoProto]:
        """The values between nodes."""
        originals = {new: old for old, new in rebuilt.better.items()}
        for node in rebuilt.nodes:
            for name in node.output:
                original = originals.get(name, name)
                value = values.nodes.get(original, self._read.get(original))  # random ones too
                if name and isinstance(value, Node) and name not in rebuilt.outputs:
                    info = ValueInfoProto(name=name)
                    self._fill(info, value)
                    yield info

    def _fill(self, info: ValueInfoProto, node: Node) -> None:
        tensor = info.type.tensor_type
        tensor.elem_type = ELEMENT[node.type.dtype]
        tensor.shape.ClearField("dim")
        tensor.shape.SetInParent()
        for size in node.shape:
            dim = tensor.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = self.texts.get(str(size), str(size))


def _called(nodes: Any, functions: Any) -> set[tuple[str, str]]:
    """The functions of the model that nodes call, directly or through other functions and
    bodies.
    """
    known = {(f.domain, f.name): f for f in functions}
    used: set[tuple[str, str]] = set()
    pending = list(nodes)
    while pending:
        node = pending.pop()
        pending += [inner for graph in bodies(node) for inner in graph.node]
        key = (node.domain, node.op_type)
        if key in known and key not in used:
            used.add(key)
            pending += known[key].node
    return used


def _inner_tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """All tensors in attributes and bodies."""
    pending: list[Any] = [*model.graph.node, *(n for f in model.functions for n in f.node)]
    yield from (t for s in model.graph.sparse_initializer for t in (s.values, s.indices))
    while pending:
        node = pending.pop()
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for graph in bodies(node):
            yield from graph.initializer
            pending += graph.node
