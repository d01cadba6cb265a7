"""An ONNX model as ours: inputs, weights, nodes, outputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import xlac.frontends.onnx.ops  # noqa: F401 - registers the operators
from xlac.frontends.onnx.importer import Importer, typed
from xlac.frontends.onnx.values import Coded
from xlac.ir.dims import Dim, symbol
from xlac.ir.dims import symbols as dim_symbols
from xlac.ir.graph import Graph, Node
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.source import Diagnostic, Origin, SourceError


def read(source: Path | Any, dims: Mapping[str, int | str], params: Mapping[str, object], allow_outside: bool) -> Model:
    import onnx

    folder = source.parent if isinstance(source, Path) else None
    proto = onnx.load_model(source, load_external_data=False) if isinstance(source, Path) else source
    importer = Importer(proto, folder)
    graph = proto.graph
    importer.initializers(graph)
    inputs: list[Node] = []
    symbols: dict[str, Dim] = _Symbols(dims)
    for info in graph.input:
        if info.name in importer.scope.values:
            continue  # an initializer with a declared type
        dtype, shape, code = typed(info, symbols)
        if info.name in params:
            node = build.constant(np.asarray(params[info.name]), dtype)
        else:
            node = build.param(info.name, dtype, shape, origin=Origin(info.name))
            inputs.append(node)
        importer.scope.values[info.name] = Coded(node, code) if code else node
    importer.run(graph.node)
    if importer.problems:
        raise SourceError(*importer.problems)
    if importer.needed:
        names = ", ".join(sorted(importer.needed))
        raise SourceError(Diagnostic("XL7006", f"sizes depend on the value of {names}", hint="give it with --set"))
    outputs: dict[str, Node] = {}
    for info in graph.output:
        value = importer.scope.find(info.name)
        outputs[info.name] = value.node if isinstance(value, Coded) else value  # type: ignore[assignment]
    open_dims = {s.name: s for size in symbols.values() for s in dim_symbols(size)}
    return Model(Graph(graph.name or "model", tuple(inputs), outputs), importer.weights, dims=open_dims)


class _Symbols(dict[str, Dim]):
    """Symbolic sizes by name, made when first asked for; fixed where the caller fixed them."""

    def __init__(self, fixed: Mapping[str, int | str]) -> None:
        super().__init__()
        self.fixed = fixed

    def __missing__(self, name: str) -> Dim:
        fixed = self.fixed.get(name)
        self[name] = fixed if isinstance(fixed, int) else symbol(name)
        return self[name]
