"""Imports a whole Keras model: inputs, layers, outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.frontends.importing.model_importer import MissingValue
from xlac.frontends.importing.model_inputs import ModelInputs
from xlac.frontends.keras.config import LayerConfig, ends_of, layer_of, layers_of
from xlac.frontends.keras.file.archive import opened
from xlac.frontends.keras.file.malformed import MalformedKerasFile, UnsafeKerasFile
from xlac.frontends.keras.file.weights import WeightStore
from xlac.frontends.keras.importer import KerasImporter
from xlac.frontends.keras.produced import PRODUCED
from xlac.frontends.produced import verified
from xlac.frontends.sizes import DimValue, plain
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.model import Model
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError

DTYPES = {
    "float16": DType.F16, "bfloat16": DType.BF16, "float32": DType.F32, "float64": DType.F64,
    "int8": DType.I8, "int16": DType.I16, "int32": DType.I32, "int64": DType.I64,
    "uint8": DType.U8, "uint16": DType.U16, "uint32": DType.U32, "bool": DType.BOOL,
}  # fmt: skip


def read(path: Path, dims: Mapping[str, DimValue], params: Mapping[str, object]) -> Model:
    """The model. Raises SourceError with every problem."""
    try:
        config, store, old = opened(path)
        return _KerasReading(path, layer_of(config, "the model", old), store, dims, params).model()
    except UnsafeKerasFile as error:
        raise SourceError(Diagnostic("XL7604", f"{path}: {error}")) from None
    except MalformedKerasFile as error:
        raise SourceError(Diagnostic("XL7601", f"{path} is not a Keras model: {error}")) from None
    except RecursionError:
        raise SourceError(
            Diagnostic("XL7007", "the model's configuration is nested too deep")
        ) from None


class _KerasReading:
    """The import of one model."""

    def __init__(
        self,
        path: Path,
        config: LayerConfig,
        store: WeightStore,
        dims: Mapping[str, DimValue],
        params: Mapping[str, object],
    ) -> None:
        self.path, self.config, self.store = path, config, store
        self.importer = KerasImporter()
        self.inputs = ModelInputs(dims, params)

    def model(self) -> Model:
        """The model."""
        if not self.config.model:
            raise SourceError(
                Diagnostic(
                    "XL7602",
                    f"{self.path}: {self.config.kind} is a class of its own (a subclass of "
                    "keras.Model), and its code is not in the file",
                    hint="models of keras.Sequential and of keras.Model(inputs, outputs) are "
                    "imported; export others to ONNX: model.export('model.onnx', format='onnx')",
                )
            )
        layers = layers_of(self.config, "the model")
        asked = self._asked({layer.name: layer for layer in layers})
        self.inputs.check(tuple(asked))
        inputs = [self._input(name, config) for name, config in asked.items()]
        importer = self.importer
        results: list[Node] = []
        try:
            results = importer.run(self.config, "", self.store, inputs)
        except MissingValue:
            pass
        except ShapeError as error:
            importer.problems.append(Diagnostic("XL7603", str(error), hint=error.hint))
        if importer.problems:
            raise SourceError(*importer.problems)
        outputs = dict(zip(self._named(len(results)), results, strict=True))
        state = importer.variables.state(outputs)
        nodes = (*self.inputs.nodes, *importer.variables.params)
        graph = verified(Graph(plain(self.path.stem), nodes, outputs), PRODUCED, "Keras")
        return Model(graph, importer.weights, dims=self.inputs.sizes.open(), state=state)

    def _asked(self, layers: Mapping[str, LayerConfig]) -> dict[str, Mapping[str, Any]]:
        """The inputs by name, each with its configuration."""
        if self.config.kind != "Sequential":
            refs = ends_of(self.config, "input_layers", "the model")
            missing = [ref.layer for ref in refs if ref.layer not in layers]
            if missing:
                raise MalformedKerasFile(f"there is no layer '{missing[0]}'")
            return {ref.layer: layers[ref.layer].config for ref in refs}
        first = next(iter(layers.values()))
        if first.kind == "InputLayer":
            return {first.name: first.config}
        for config in (first.config, {"batch_shape": self.config.config.get("build_input_shape")}):
            if any(config.get(name) for name in ("batch_shape", "batch_input_shape")):
                return {"input": config}
        raise SourceError(
            Diagnostic(
                "XL7603",
                f"{self.path}: the model does not say the shape of its input",
                hint="give it a keras.Input, call it once or build it before it is saved",
            )
        )

    def _input(self, name: str, config: Mapping[str, Any]) -> Node:
        kind = config.get("dtype") or "float32"
        if isinstance(kind, dict):
            kind = (kind.get("config") or {}).get("name")
        if kind not in DTYPES or config.get("sparse") or config.get("ragged"):
            what = "sparse or ragged" if kind in DTYPES else f"of type {kind}"
            raise SourceError(
                Diagnostic("XL7602", f"input '{name}' is {what}, which is not supported")
            )
        wanted = config.get("batch_shape") or config.get("batch_input_shape")
        if not isinstance(wanted, list) or not all(
            size is None or (isinstance(size, int) and 0 <= size < 1 << 31) for size in wanted
        ):
            raise MalformedKerasFile(f"input '{name}' has no shape, but {wanted!r}")
        shape = tuple(
            self.inputs.size(name, axis) if size is None else size
            for axis, size in enumerate(wanted)
        )
        return self.inputs.node(name, DTYPES[kind], shape)

    def _named(self, count: int) -> list[str]:
        """The names of the outputs: those of their layers, numbered where a layer gives more."""
        if self.config.kind == "Sequential":
            names = [layers_of(self.config, "the model")[-1].name] * count
        else:
            refs = ends_of(self.config, "output_layers", "the model")
            names = [ref.layer for ref in refs]
        repeated, seen, distinct = Counter(names), Counter[str](), []
        for name in names:
            distinct.append(name if repeated[name] == 1 else f"{name}.{seen[name]}")
            seen[name] += 1
        return distinct
