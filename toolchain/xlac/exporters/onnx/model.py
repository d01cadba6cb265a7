"""Exports a whole ONNX model: inputs, outputs, and tensors inside it or in a separate file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import onnx
from onnx import helper

from xlac.exporters.left_out import warn_left_out
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
from xlac.exporters.onnx.tensors import HeldTensor, save, whole
from xlac.exporters.onnx.writer import OnnxWriter, declare_bounds, value_info
from xlac.exporters.unsaid import refuse
from xlac.ir.graph import Node
from xlac.ir.op import Array
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac_sdk.dtypes import DType

# importing them registers the rules
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
IR_VERSION = 10  # the version of the format that belongs to the operator set

Tensors = Mapping[str, HeldTensor]


def proto(model: Model) -> onnx.ModelProto:
    """The model with its tensors inside. Raises UnsupportedError naming every node that ONNX cannot
    express.
    """
    return whole(*structure(model))


def write(
    model: Model, file: Path, progress: Callable[[int, int], None] | None = None
) -> list[Path]:
    """Writes a file, and one of tensors beside it where they are large; all or nothing. Returns the
    files.

    `progress` gets the bytes of tensors written and those in all. Raises UnsupportedError naming
    every node that ONNX cannot say. Warns of what is left out: LeftOutWarning.
    """
    warn_left_out(model, "ONNX")
    return save(*structure(model), file, progress)


def structure(model: Model) -> tuple[onnx.ModelProto, Tensors]:
    """The model without its tensors, and the tensors. An output with the name of an input is
    renamed to NAME.out.
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
    graph_proto = helper.make_graph(
        renamed(writer.nodes, graph.outputs), model.name, inputs, outputs, doc_string=model.doc
    )
    opsets = [helper.make_opsetid("", writer.opset)]
    tensors: dict[str, HeldTensor] = {}
    for node in graph.nodes():
        if node.op.mnemonic == "param" and node not in graph.inputs:
            name = param(node).name
            read: Callable[[], Array] = partial(model.weights.__getitem__, name)
            tensors[name] = HeldTensor.of(name, node.type, read)
    for name, array in writer.initializers.items():
        type = Type(DType.of(array.dtype), array.shape)
        tensors[name] = HeldTensor.of(name, type, lambda array=array: array)  # type: ignore[misc]
    file = helper.make_model(
        graph_proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="xlac"
    )
    declare_bounds(file, model.dims)
    return file, tensors


def renamed(nodes: list[onnx.NodeProto], outputs: Mapping[str, Node]) -> list[onnx.NodeProto]:
    """The nodes, with results renamed to the outputs that they are, where only an identity lies
    between.
    """
    makers = {result: node for node in nodes for result in node.output}
    last = {n.output[0]: n for n in nodes[len(nodes) - len(outputs) :]}
    better: dict[str, str] = {}
    for name, node in last.items():
        if node.input[0] in makers and node.input[0] not in last and node.input[0] not in better:
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
