"""Converts the layers of a Keras model to xlac's graph, one call after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import xlac.frontends.keras.keras2
import xlac.frontends.keras.layers  # noqa: F401 - registers the builders
from xlac.frontends.importing.model_importer import MissingValue, ModelImporter
from xlac.frontends.importing.state_variables import StateVariables
from xlac.frontends.keras.arguments import check_arguments
from xlac.frontends.keras.call import LayerCall, UnsupportedLayer
from xlac.frontends.keras.config import LAMBDAS as OF_TENSORFLOW
from xlac.frontends.keras.config import CallConfig, LayerConfig, TensorRef, ends_of, layers_of
from xlac.frontends.keras.file.malformed import MalformedKerasFile, UnsafeKerasFile
from xlac.frontends.keras.file.weights import WeightStore
from xlac.frontends.keras.masks import Masks
from xlac.frontends.keras.order import ordered
from xlac.frontends.keras.refused import reason
from xlac.frontends.keras.registry import LAMBDAS, LAYERS, OPERATIONS
from xlac.frontends.keras.snake_case import snake_case
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.source import Diagnostic, LimitError, Origin, SourceError
from xlac_sdk.support.limits import within

OPERATIONS_OF_ONE = 100_000  # the most xlac nodes that one layer may become
CALLS = 100_000  # the most calls of layers, those inside models counted at each use
DEPTH = 50  # the deepest nesting of models


class KerasImporter(ModelImporter):
    """State shared by all layers: weights, problems, the depth of models, the number of calls."""

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[str, Node] = {}  # the nodes of weights, which several calls may share
        self.masks = Masks()
        self.variables = StateVariables()
        self.calls = 0
        self.depth = 0

    def hold(self, name: str, array: Array) -> Node:
        """A weight as a node of the graph, which later calls of its layer use too."""
        self.held[name] = self.weight(name, array, Origin(name))
        return self.held[name]

    def run(
        self, model: LayerConfig, path: str, store: WeightStore, inputs: Sequence[Node]
    ) -> list[Node]:
        """The results of a model. Raises MissingValue if one could not be made."""
        if self.depth >= DEPTH:
            raise MalformedKerasFile("its models are nested too deeply")
        self.depth += 1
        try:
            if model.kind == "Sequential":
                return self._sequence(model, path, store, inputs)
            return self._graph(model, path, store, inputs)
        finally:
            self.depth -= 1

    def one(self, layer: LayerConfig, path: str, store: WeightStore, x: Node) -> Node:
        """The only result of a layer of one input."""
        (result,) = self.called(layer, path, store, [x], {})
        return result

    def _sequence(
        self, model: LayerConfig, path: str, store: WeightStore, inputs: Sequence[Node]
    ) -> list[Node]:
        place = f"model '{path or model.name}'"
        values: list[Node] | None = list(inputs)
        for layer, at in _placed(layers_of(model, place), store):
            if layer.kind != "InputLayer":
                values = self.layer_results(layer, _joined(path, layer.name), at, values, {})
        if values is None:
            raise MissingValue
        return values

    def _graph(
        self, model: LayerConfig, path: str, store: WeightStore, inputs: Sequence[Node]
    ) -> list[Node]:
        place = f"model '{path or model.name}'"
        layers = {layer.name: (layer, at) for layer, at in _placed(layers_of(model, place), store)}
        values: dict[tuple[str, int], list[Node] | None] = {}
        entries = ends_of(model, "input_layers", place)
        if len(entries) != len(inputs):
            raise ShapeError(f"it takes {len(entries)} tensors, and is called with {len(inputs)}")
        for ref, node in zip(entries, inputs, strict=True):
            values[ref.layer, ref.call] = [node]
        ends = ends_of(model, "output_layers", place)
        listed = [layer for layer, _ in layers.values()]
        for name, number in ordered(listed, set(values), ends, place):
            if (name, number) not in values:
                layer, at = layers[name]
                call = layer.calls[number]
                args, kwargs = self._arguments(call, values)
                values[name, number] = self.layer_results(
                    layer, _joined(path, name), at, args, kwargs
                )
        for ref in ends:
            if (ref.layer, ref.call) not in values:
                raise MalformedKerasFile(
                    f"{place} gives a result of '{ref.layer}', which the model does not have"
                )
        results = [_value(ref, values) for ref in ends]
        if any(result is None for result in results):
            raise MissingValue
        return [result for result in results if result is not None]

    def _arguments(
        self, call: CallConfig, values: Mapping[tuple[str, int], list[Node] | None]
    ) -> tuple[list[Any] | None, dict[str, Any]]:
        """The arguments of a call with nodes; None if one could not be made."""
        if any(_value(ref, values) is None for ref in call.refs()):
            return None, {}

        def with_nodes(value: Any) -> Any:
            if isinstance(value, TensorRef):
                return _value(value, values)
            return [with_nodes(part) for part in value] if isinstance(value, list) else value

        return [with_nodes(a) for a in call.args], {
            name: with_nodes(a) for name, a in call.kwargs.items()
        }

    def layer_results(
        self,
        layer: LayerConfig,
        path: str,
        store: WeightStore,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any],
    ) -> list[Node] | None:
        """The results of a call; None, and a problem reported, if it cannot be imported. Where an
        argument is missing (None), a layer that is not supported is reported all the same.
        """

        def build_call() -> list[Node]:
            if args is not None:
                return list(self.called(layer, path, store, args, kwargs))
            raise MissingValue if _is_known(layer) else self._unknown(layer)

        return self.attempt(lambda: f"layer '{path}' ({layer.kind})", build_call)

    def record(self, place: str, error: Exception) -> None:
        """Adds to the problems what a layer raised. Raises LimitError, which ends the import."""
        if isinstance(error, LimitError):
            raise error
        if isinstance(error, SourceError):
            self.problems += error.diagnostics
            return
        code, hint = "XL7603", ""
        if isinstance(error, UnsafeKerasFile):
            code = "XL7604"
        elif isinstance(error, UnsupportedLayer):
            code = "XL7602"
        if isinstance(error, ShapeError):
            hint = error.hint
        elif not isinstance(error, MalformedKerasFile):
            error = ShapeError(f"its configuration is invalid: {error!r}"[:300])
        problem = Diagnostic(code, f"{place}: {error}", hint=hint)
        if problem not in self.problems:
            self.problems.append(problem)

    def called(
        self,
        layer: LayerConfig,
        path: str,
        store: WeightStore,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> tuple[Node, ...]:
        """The results of a call of a layer, model or function. Raises ShapeError and others."""
        self.calls += 1
        if self.calls > CALLS:
            raise SourceError(Diagnostic("XL7007", f"the model calls more than {CALLS} layers"))
        if not _is_known(layer):
            raise self._unknown(layer)
        if layer.model:
            tensors = _flat(args)
            if kwargs.get("mask") is not None:
                for x, mask in zip(tensors, self.masks.given(args, tensors, kwargs), strict=False):
                    self.masks.set(x, mask)
            return tuple(self.run(layer, path, store, tensors))
        with within(operations=OPERATIONS_OF_ONE):
            if layer.operation:
                function, options = _function(layer), _options(layer, kwargs)
                check_arguments(function, args, options)
                return _results(function(*args, **options))
            tensors = _flat(args)
            # a model predicts whatever `training` its layers were called with
            asked = {k: v for k, v in kwargs.items() if k not in ("training", "mask")}
            given = tuple(self.masks.given(args, tensors, kwargs))
            if any(mask is not None for mask in given):
                before = list(given)
            else:
                before = [self.masks.of(x) for x in tensors]
            call = LayerCall(layer, path, store, tuple(tensors), asked, self, given)
            results = [self._placed(y, path) for y in _results(LAYERS[layer.kind](call))]
            return self.masks.hand_on(layer, tensors, before, results)

    def _placed(self, result: Node, path: str) -> Node:
        """A result that is called after its layer, with the mask that the layer gave it."""
        placed = build.placed(result, Origin(path))
        if placed is not result:
            self.masks.set(placed, self.masks.of(result))
        return placed

    def _unknown(self, layer: LayerConfig) -> UnsupportedLayer:
        if layer.custom:
            known = f"{layer.module}.{layer.kind}" if layer.module else layer.kind
            return UnsupportedLayer(
                f"the class {known} is not Keras's own, and its code is not in the file",
                hint="export the model instead: model.export('model', format='tf_saved_model'), "
                "or to ONNX",
            )
        said = reason(layer.kind)
        return UnsupportedLayer(
            said or "no such layer is known", hint="docs/KERAS.md lists what is supported"
        )


def _is_known(layer: LayerConfig) -> bool:
    """Whether it is a layer, function or model of Keras that is imported."""
    return not layer.custom and (layer.kind in LAYERS or layer.operation or layer.model)


def _function(layer: LayerConfig) -> Any:
    if layer.kind in OF_TENSORFLOW:
        name = layer.config.get("function", "__operators__.getitem")
        if name in LAMBDAS:
            return LAMBDAS[name]
        raise UnsupportedLayer(
            f"the function tf.{name} is not supported", hint="docs/KERAS.md lists what is"
        )
    if layer.kind not in OPERATIONS:
        raise UnsupportedLayer(
            f"the function {layer.kind} of keras.ops is not supported",
            hint="docs/KERAS.md lists what is",
        )
    return OPERATIONS[layer.kind]


def _options(layer: LayerConfig, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a function: of its configuration, without a policy, and of its call."""
    if layer.kind in OF_TENSORFLOW:
        return dict(kwargs)
    given = {k: v for k, v in layer.config.items() if k != "name"}
    if not isinstance(given.get("dtype"), str):
        given.pop("dtype", None)
    return given | dict(kwargs)


def _results(value: Node | tuple[Node, ...]) -> tuple[Node, ...]:
    return value if isinstance(value, tuple) else (value,)


def _flat(args: Sequence[Any]) -> list[Node]:
    """The tensors among arguments, in order."""
    tensors: list[Node] = []
    for value in args:
        if isinstance(value, Node):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors += _flat(value)
    return tensors


def _value(ref: TensorRef, values: Mapping[tuple[str, int], list[Node] | None]) -> Node | None:
    results = values.get((ref.layer, ref.call))
    if results is not None and ref.result >= len(results):
        raise MalformedKerasFile(f"layer '{ref.layer}' has no result {ref.result}")
    return None if results is None else results[ref.result]


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _placed(
    layers: Sequence[LayerConfig], store: WeightStore
) -> Iterator[tuple[LayerConfig, WeightStore]]:
    """Each layer with its weights, which files find by a number among layers of one class."""
    seen: Counter[str] = Counter()
    for layer in layers:
        if layer.operation and not layer.model:
            yield layer, store
            continue
        kind = snake_case(layer.kind)
        number = seen[kind]
        seen[kind] += 1
        yield layer, store.layer(layer.name, f"{kind}_{number}" if number else kind)
