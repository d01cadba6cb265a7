"""A whole ONNX model: inputs, outputs, tensors inside it or in a file of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import numpy as np
import onnx
from onnx import TensorProto, helper

from xlac.exporters.onnx import (
    comparisons,
    composites,
    contractions,
    control,
    convert,
    dynamic_slices,
    indexing,
    order,
    reductions,
    scalars,
    views,
)
from xlac.exporters.onnx.writer import ELEMENT, OnnxWriter, value_info
from xlac.exporters.unsaid import refuse
from xlac.ir.dims import static
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac.support.whole_files import replacing, together
from xlac_sdk.dtypes import DType

# they fill RULES
FAMILIES = (
    comparisons,
    composites,
    contractions,
    control,
    convert,
    dynamic_slices,
    indexing,
    order,
    reductions,
    scalars,
    views,
)
INSIDE = 64 * 2**20  # bytes of tensors that are kept in the model's own file
SMALL = 1024  # bytes of a tensor that always is: runtimes read shapes before they open other files
ALIGN = 4096  # of a tensor in a file of tensors, so that it can be mapped
IR_VERSION = 10  # of the format, as old as the operators

Tensors = Mapping[str, tuple[Type, Callable[[], Array]]]


def proto(model: Model) -> onnx.ModelProto:
    """The model with its tensors inside. Raises UnsupportedError naming every node that ONNX cannot
    say.
    """
    made, tensors = structure(model)
    for name, (type, read) in tensors.items():
        made.graph.initializer.append(tensor(name, type, read()))
    return made


def write(
    model: Model, file: Path, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Writes a file, and one of tensors beside it where they are large; all or nothing. Returns the
    files.

    `progress` gets the bytes of tensors written and those in all. Raises UnsupportedError naming
    every node that ONNX cannot say.
    """
    made, tensors = structure(model)
    total = sum(type.nbytes for type, _ in tensors.values())
    if total <= INSIDE:
        for name, (type, read) in tensors.items():
            made.graph.initializer.append(tensor(name, type, read()))
        with replacing(file) as path:
            path.write_bytes(made.SerializeToString())
        return [file]
    data = file.with_name(f"{file.name}.data")
    with together(data, file) as (beside, path):
        with beside.open("wb") as out:
            for name, (type, read) in tensors.items():
                small = type.nbytes < SMALL
                made.graph.initializer.append(
                    tensor(name, type, read())
                    if small
                    else outside(out, data.name, name, type, read())
                )
                if progress is not None:
                    progress(out.tell(), total)
        path.write_bytes(made.SerializeToString())
    return [file, data]


def structure(model: Model) -> tuple[onnx.ModelProto, Tensors]:
    """The model without its tensors, and what they are. An output that is called as an input is
    gets `.out` behind it.
    """
    graph = model.graph
    writer = OnnxWriter(graph)
    values = {node: param(node).name for node in graph.inputs}
    names: dict[Node, str] = {}
    for node in graph.nodes():
        if node not in values:
            values[node] = writer.node(node, values)
        names[node] = values[node]
    refuse(writer.problems, "XL7401", "ONNX")
    writer.hint = ""
    given = {param(node).name for node in graph.nodes() if node.op.mnemonic == "param"}
    called = {
        name: writer.fresh(f"{name}.out") if name in given else name for name in graph.outputs
    }
    for name, node in graph.outputs.items():
        writer.nodes.append(
            helper.make_node("Identity", [names[node]], [called[name]], name=called[name])
        )
    inputs = [value_info(param(n).name, n.type) for n in graph.inputs]
    outputs = [value_info(called[name], n.type) for name, n in graph.outputs.items()]
    made = helper.make_graph(
        renamed(writer.nodes, graph.outputs), model.name, inputs, outputs, doc_string=model.doc
    )
    opsets = [helper.make_opsetid("", writer.opset)]
    tensors: dict[str, tuple[Type, Callable[[], Array]]] = {}
    for node in graph.nodes():
        if node.op.mnemonic == "param" and node not in graph.inputs:
            name = param(node).name
            tensors[name] = (node.type, lambda name=name: model.weights[name])  # type: ignore[misc]
    for name, array in writer.initializers.items():
        tensors[name] = (Type(DType.of(array.dtype), array.shape), lambda array=array: array)  # type: ignore[misc]
    return helper.make_model(
        made, opset_imports=opsets, ir_version=IR_VERSION, producer_name="xlac"
    ), tensors


def renamed(nodes: list[onnx.NodeProto], outputs: Mapping[str, Node]) -> list[onnx.NodeProto]:
    """The nodes with results called as the outputs that they are, where nothing but an identity
    stood between.
    """
    made = {result: node for node in nodes for result in node.output}
    last = {n.output[0]: n for n in nodes[len(nodes) - len(outputs) :]}
    better: dict[str, str] = {}
    for name, node in last.items():
        if node.input[0] in made and node.input[0] not in last and node.input[0] not in better:
            better[node.input[0]] = name
    gone = {id(last[name]) for name in better.values()}
    kept = [n for n in nodes if id(n) not in gone]
    _rename(kept, better)
    return kept


def _rename(nodes: list[onnx.NodeProto], better: Mapping[str, str]) -> None:
    for node in nodes:
        for fields in (node.input, node.output):
            for number, name in enumerate(fields):
                if name in better:
                    fields[number] = better[name]
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename(list(attribute.g.node), better)


def tensor(name: str, type: Type, array: Array) -> TensorProto:
    """A tensor with its elements."""
    raw = np.ascontiguousarray(array).tobytes()
    return TensorProto(
        name=name, data_type=ELEMENT[type.dtype], dims=static(type.shape), raw_data=raw
    )


def outside(out: IO[bytes], location: str, name: str, type: Type, array: Array) -> TensorProto:
    """A tensor whose elements are written to a file of tensors."""
    out.write(b"\0" * (-out.tell() % ALIGN))
    found = TensorProto(
        name=name,
        data_type=ELEMENT[type.dtype],
        dims=static(type.shape),
        data_location=TensorProto.EXTERNAL,
    )
    for key, value in (("location", location), ("offset", out.tell()), ("length", type.nbytes)):
        entry = found.external_data.add()
        entry.key, entry.value = key, str(value)
    out.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found
