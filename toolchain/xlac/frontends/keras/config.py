"""The configuration of a model: JSON is checked, and becomes layers and their calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlac.frontends.keras.file.malformed import MalformedKerasFile

LAYERS = 20_000  # the most layers of one model


@dataclass(frozen=True, slots=True)
class TensorRef:
    """One result of one call of a layer: its name, the numbers of the call and the result."""

    layer: str
    call: int
    result: int


@dataclass(frozen=True, slots=True)
class CallConfig:
    """The arguments of a call of a layer: TensorRefs, numbers, texts, slices and lists of them."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

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

    @property
    def custom(self) -> bool:
        """Whether its class is not Keras's own."""
        home = self.module.partition(".")[0]
        return home not in ("", "keras", "keras_core", "tensorflow") or ">" in self.registered

    @property
    def operation(self) -> bool:
        """Whether it is a function of keras.ops, not a layer."""
        if self.module:
            return ".ops." in self.module or self.module.startswith("keras.ops")
        return "trainable" not in self.config and "dtype" not in self.config

    @property
    def model(self) -> bool:
        """Whether it consists of layers."""
        return self.kind in ("Functional", "Sequential", "Model") and "layers" in self.config


def layer_of(value: Any, place: str) -> LayerConfig:
    """A layer or model from JSON. Raises MalformedKerasFile; `place` says where it is."""
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
    )


def layers_of(model: LayerConfig, place: str) -> list[LayerConfig]:
    """The layers of a model, whose names differ. Raises MalformedKerasFile."""
    listed = model.config["layers"]
    if not isinstance(listed, list) or not 0 < len(listed) <= LAYERS:
        raise MalformedKerasFile(f"{place} has no list of 1 to {LAYERS} layers")
    layers = [layer_of(value, f"{place}, layer {n},") for n, value in enumerate(listed)]
    if len({layer.name for layer in layers}) < len(layers):
        raise MalformedKerasFile(f"{place} has two layers with the same name")
    return layers


def ends_of(model: LayerConfig, side: str, place: str) -> list[TensorRef]:
    """The `input_layers` or `output_layers` of a model, in order. Raises MalformedKerasFile."""
    refs: list[TensorRef] = []

    def collect(value: Any) -> None:
        if _is_ref(value):
            refs.append(TensorRef(value[0], value[1], value[2]))
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
    listed = [value] if _is_ref(value) else value
    if not isinstance(listed, list) or not all(map(_is_ref, listed)):
        raise MalformedKerasFile(f"{place} has a call that is not a list of tensors")
    refs = [TensorRef(*ref[:3]) for ref in listed]
    others = [ref[3] for ref in listed if len(ref) == 4 and isinstance(ref[3], dict)]
    kwargs = {
        str(k): TensorRef(*a[:3]) if _is_ref(a) else _argument(a, place)
        for other in others
        for k, a in other.items()
    }
    return CallConfig((refs[0] if len(refs) == 1 else refs,), kwargs)


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
