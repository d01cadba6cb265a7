"""The configuration of a model: JSON is checked, and becomes layers and their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from xlac.frontends.keras.file.malformed import MalformedKerasFile

LAYERS = 20_000  # the most layers of one model
LAMBDAS = ("TFOpLambda", "SlicingOpLambda")
"""The layers that Keras 2 makes of functions of TensorFlow."""


@dataclass(frozen=True, slots=True)
class TensorRef:
    """One result of one call of a layer: its name, the numbers of the call and the result."""

    layer: str
    call: int
    result: int

    def before(self) -> TensorRef:
        """The same result of the call before: of an inner model, whose first call is its making."""
        return replace(self, call=max(self.call - 1, 0))


@dataclass(frozen=True, slots=True)
class CallConfig:
    """The arguments of a call of a layer: TensorRefs, numbers, texts, slices and lists of them."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def counted(self, inner: set[str]) -> CallConfig:
        """The call with the calls of inner models counted from 0; Keras 2 counts from 1."""

        def moved(value: Any) -> Any:
            if isinstance(value, TensorRef):
                return value.before() if value.layer in inner else value
            return [moved(part) for part in value] if isinstance(value, list) else value

        kwargs = {name: moved(value) for name, value in self.kwargs.items()}
        return CallConfig(tuple(moved(value) for value in self.args), kwargs)

    def refs(self) -> list[TensorRef]:
        """All tensors among the arguments, in order."""
        refs: list[TensorRef] = []
        rest: list[Any] = [*self.args, *self.kwargs.values()][::-1]
        while rest:
            value = rest.pop()
            if isinstance(value, TensorRef):
                refs.append(value)
            elif isinstance(value, list | tuple):
                rest += value[::-1]
        return refs


@dataclass(frozen=True, slots=True)
class LayerConfig:
    """A layer: its class, where the class is defined ("" in old files), its own configuration."""

    kind: str
    module: str
    registered: str
    name: str
    config: Mapping[str, Any]
    calls: tuple[CallConfig, ...] = ()
    old: bool = False  # written by Keras 2

    @property
    def custom(self) -> bool:
        """Whether its class is not Keras's own."""
        home = self.module.partition(".")[0]
        homes = ("", "keras", "keras_core", "tf_keras", "tensorflow")
        return home not in homes or ">" in self.registered

    @property
    def operation(self) -> bool:
        """Whether it is a function of keras.ops, not a layer."""
        if self.kind in LAMBDAS:
            return True
        if self.module:
            return ".ops." in self.module or self.module.startswith("keras.ops")
        return "trainable" not in self.config and "dtype" not in self.config

    @property
    def model(self) -> bool:
        """Whether it consists of layers."""
        return self.kind in ("Functional", "Sequential", "Model") and "layers" in self.config


def layer_of(value: Any, place: str, old: bool = False) -> LayerConfig:
    """A layer or model from JSON. Raises MalformedKerasFile; `place` says where it is, `old`
    whether Keras 2 wrote it.
    """
    if not isinstance(value, dict) or not isinstance(value.get("class_name"), str):
        raise MalformedKerasFile(f"{place} is not a layer")
    config = value.get("config")
    if value["class_name"] == "Sequential" and isinstance(config, list):  # of Keras 2
        config = {"name": "sequential", "layers": config}
    if not isinstance(config, dict):
        raise MalformedKerasFile(f"{place} has no configuration")
    name = value.get("name") or config.get("name") or value["class_name"].lower()
    inbound = value.get("inbound_nodes") or []
    if not isinstance(name, str) or not isinstance(inbound, list) or len(inbound) > LAYERS:
        raise MalformedKerasFile(f"{place} has no name, or calls that are not a list")
    module, registered = value.get("module") or "", value.get("registered_name") or ""
    return LayerConfig(
        value["class_name"],
        str(module),
        str(registered),
        name,
        config,
        tuple(_call(call, f"{place} '{name}'") for call in inbound),
        old,
    )


def layers_of(model: LayerConfig, place: str) -> list[LayerConfig]:
    """The layers of a model, whose names differ. Raises MalformedKerasFile."""
    listed = model.config["layers"]
    if not isinstance(listed, list) or not 0 < len(listed) <= LAYERS:
        raise MalformedKerasFile(f"{place} has no list of 1 to {LAYERS} layers")
    layers = [layer_of(v, f"{place}, layer {n},", model.old) for n, v in enumerate(listed)]
    if len({layer.name for layer in layers}) < len(layers):
        raise MalformedKerasFile(f"{place} has two layers with the same name")
    if not model.old:
        return layers
    inner = {layer.name for layer in layers if layer.model}
    return [replace(layer, calls=tuple(c.counted(inner) for c in layer.calls)) for layer in layers]


def ends_of(model: LayerConfig, side: str, place: str) -> list[TensorRef]:
    """The `input_layers` or `output_layers` of a model, in order. Raises MalformedKerasFile."""
    refs: list[TensorRef] = []
    kinds = ("Functional", "Model", "Sequential") if model.old else ("Functional", "Model")
    inner = {
        layer.get("name") or (layer.get("config") or {}).get("name")
        for layer in model.config["layers"]
        if isinstance(layer, dict) and layer.get("class_name") in kinds
    }

    def collect(value: Any) -> None:
        if _is_ref(value):
            ref = TensorRef(value[0], value[1], value[2])
            refs.append(ref.before() if ref.layer in inner else ref)
        elif isinstance(value, list | dict):
            for part in value.values() if isinstance(value, dict) else value:
                collect(part)
        else:
            raise MalformedKerasFile(f"{place} has invalid {side}")

    collect(model.config.get(side))
    if not refs:
        raise MalformedKerasFile(f"{place} has no {side}")
    return refs


def _is_ref(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) in (3, 4)
        and isinstance(value[0], str)
        and all(isinstance(n, int) and n >= 0 for n in value[1:3])
    )


def _call(value: Any, place: str) -> CallConfig:
    if isinstance(value, dict):
        args, kwargs = value.get("args"), value.get("kwargs")
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise MalformedKerasFile(f"{place} has a call without arguments")
        return CallConfig(
            tuple(_argument(a, place) for a in args),
            {str(k): _argument(a, place) for k, a in kwargs.items()},
        )
    # of Keras 2: a list of [layer, call, result, other arguments], or one of them
    if _is_constant(value):
        return CallConfig((value[2],), _others(value[3], place))
    listed = [value] if _is_ref(value) else value
    if not isinstance(listed, list) or not all(map(_is_ref, listed)):
        raise MalformedKerasFile(f"{place} has a call that is not a list of tensors")
    refs = [TensorRef(*ref[:3]) for ref in listed]
    others = [ref[3] for ref in listed if len(ref) == 4 and isinstance(ref[3], dict)]
    kwargs = {k: a for other in others for k, a in _others(other, place).items()}
    return CallConfig((refs[0] if len(refs) == 1 else refs,), kwargs)


def _is_constant(value: Any) -> bool:
    """Whether the first argument of a call of Keras 2 is no tensor."""
    return (
        isinstance(value, list)
        and len(value) == 4
        and value[:2] == ["_CONSTANT_VALUE", -1]
        and isinstance(value[3], dict)
    )


def _others(value: dict[Any, Any], place: str) -> dict[str, Any]:
    """The other arguments of a call of Keras 2."""

    def made(part: Any) -> Any:
        if _is_ref(part):
            return TensorRef(*part[:3])
        return [made(p) for p in part] if isinstance(part, list) else _argument(part, place)

    return {str(name): made(part) for name, part in value.items()}


def _argument(value: Any, place: str) -> Any:
    """An argument as Keras writes it."""
    if isinstance(value, list):
        return [_argument(part, place) for part in value]
    if not isinstance(value, dict):
        return value
    kind, config = value.get("class_name"), value.get("config")
    if kind == "__keras_tensor__" and isinstance(config, dict):
        history = config.get("keras_history")
        if _is_ref(history):
            assert isinstance(history, list)
            return TensorRef(history[0], history[1], history[2])
    if kind == "__slice__" and isinstance(config, dict):
        parts = [_argument(config.get(name), place) for name in ("start", "stop", "step")]
        return slice(*parts)
    if kind == "__ellipsis__":
        return ...
    if kind in ("__tensor__", "__numpy__") and isinstance(config, dict):
        return config.get("value")
    if kind is None:
        return {str(k): _argument(part, place) for k, part in value.items()}
    raise MalformedKerasFile(f"{place} has an argument of class {kind}, which is not supported")


def sequence(value: Any) -> Sequence[Any]:
    """A value as a list of one, unless it is a list."""
    return value if isinstance(value, list | tuple) else [value]
