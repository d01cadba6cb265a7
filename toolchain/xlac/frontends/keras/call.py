"""One call of a layer, as its builder sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from xlac.frontends.keras.config import LayerConfig, layer_of, sequence
from xlac.frontends.keras.file.malformed import MalformedKerasFile
from xlac.frontends.keras.file.weights import Fits, WeightStore
from xlac.frontends.keras.masks import Mask
from xlac.frontends.keras.registry import ACTIVATIONS, LAYERS, OLD_ACTIVATIONS
from xlac.ir.dims import Dim
from xlac.ir.graph import Node
from xlac.ir.op import Array, ShapeError
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.support.choices import nearest

if TYPE_CHECKING:
    from xlac.frontends.keras.importer import KerasImporter

FLOATS = {"float32": DType.F32, "float64": DType.F64, "float16": DType.F16, "bfloat16": DType.BF16}
Transform = Callable[[Array], Array]


class UnsupportedLayer(ShapeError):
    """A layer, or a form of one, that is not imported."""


@dataclass
class LayerCall:
    """The configuration, weights and arguments of one call of a layer.

    `path` names the layer in its model (`encoder.dense`); its weights are called after it.
    """

    layer: LayerConfig
    path: str
    store: WeightStore
    inputs: tuple[Node, ...]
    kwargs: Mapping[str, Any]
    importer: KerasImporter
    masks: tuple[Mask, ...] = ()  # of the inputs, as the layer is given them
    _next: int = field(default=0)

    @property
    def x(self) -> Node:
        """The only input."""
        if len(self.inputs) != 1:
            self.fail(f"it takes one tensor, and is called with {len(self.inputs)}")
        return self.inputs[0]

    @property
    def mask(self) -> Mask:
        """Which steps of the first input count; None where all do."""
        return self.masks[0] if self.masks else None

    @property
    def policy(self) -> Any:
        """The name of the types that the layer computes in."""
        policy = self.layer.config.get("dtype") or "float32"
        if isinstance(policy, dict):
            inner = policy.get("config")
            policy = inner.get("name") if isinstance(inner, dict) else None
        return policy

    @property
    def dtype(self) -> DType:
        """The type that the layer computes in. Raises ShapeError for policies of two types."""
        policy = self.policy
        if policy not in FLOATS:
            self.unsupported(f"the dtype policy {policy!r} is not supported")
        return FLOATS[policy]

    def floats(self, x: Node) -> Node:
        """x in the type that the layer computes in."""
        return build.cast(x, self.dtype)

    # ---- configuration ---------------------------------------------------------------------------

    def fail(self, problem: str, hint: str = "") -> NoReturn:
        """Raises ShapeError: its configuration, inputs or weights do not fit."""
        raise ShapeError(problem, hint=hint)

    def unsupported(self, problem: str, hint: str = "") -> NoReturn:
        """Raises UnsupportedLayer."""
        raise UnsupportedLayer(problem, hint=hint)

    def get(self, name: str, default: Any = None) -> Any:
        """A value of the configuration as JSON has it; the default where it is missing or null."""
        value = self.layer.config.get(name)
        return default if value is None else value

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value of the configuration."""
        value = self.get(name, default)
        if not isinstance(value, bool):
            self.fail(f"{name} is {value!r}, not true or false")
        return value

    def integer(self, name: str, default: int | None = None, least: int = 1) -> int:
        """An integer of the configuration."""
        value = self.get(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 1 << 31:
            self.fail(f"{name} is {value!r}, not an integer from {least} on")
        return value

    def whole(self, name: str) -> int | None:
        """A number of 64 bits; None where there is none."""
        value = self.layer.config.get(name)
        if value is not None and (
            not isinstance(value, int) or isinstance(value, bool) or not -1 << 63 <= value < 1 << 63
        ):
            self.fail(f"{name} is {value!r}"[:100] + ", not an integer of 64 bits")
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A number of the configuration."""
        value = self.get(name, default)
        if isinstance(value, dict):  # an array of one number
            inner = value.get("config")
            value = inner.get("value") if isinstance(inner, dict) else value
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(f"{name} is {value!r}, not a number")
        return float(value)

    def integers(
        self, name: str, count: int, default: int | None = None, least: int = 1
    ) -> tuple[int, ...]:
        """A list of integers, or one number for all."""
        value = self.get(name, default)
        listed = list(value) if isinstance(value, list | tuple) else [value] * count
        if len(listed) != count or not all(
            isinstance(n, int) and not isinstance(n, bool) and least <= n < 1 << 31 for n in listed
        ):
            self.fail(f"{name} is {value!r}, not {count} integers from {least} on")
        return tuple(listed)

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """A text that is one of several. Raises UnsupportedLayer for others."""
        value = self.get(name, default)
        if value not in choices:
            self.unsupported(f"{name} {value!r} is not supported", f"one of {', '.join(choices)}")
        return str(value)

    @property
    def channels_last(self) -> bool:
        """Whether the last axis is that of channels."""
        return (
            self.choice("data_format", ("channels_last", "channels_first"), "channels_last")
            == "channels_last"
        )

    def axis(self, name: str, rank: int, default: int) -> int:
        """An axis of the configuration, counted from the start."""
        value = self.get(name, default)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        if not isinstance(value, int) or not -rank <= value < rank:
            self.fail(f"{name} is {value!r}, and x has {rank} axes")
        return value % rank

    def activated(self, x: Node, name: str = "activation") -> Node:
        """x after the activation that the configuration names."""
        return self.activation(name)(x)

    def activation(self, name: str = "activation") -> Callable[[Node], Node]:
        """The activation of the configuration: a name, or a layer."""
        named = self.get(name, "linear")
        if isinstance(named, dict):
            inner, module = named.get("config"), str(named.get("module") or "builtins")
            if isinstance(inner, str) and module.partition(".")[0] in ("keras", "builtins"):
                named = inner
            else:
                layer = layer_of(named, name, self.layer.old)
                return lambda x: self.importer.one(layer, self.path, self.store, x)
        if named not in ACTIVATIONS:
            hint = nearest(str(named), tuple(ACTIVATIONS), "see docs/KERAS.md")
            self.unsupported(f"the {name} {named!r} is not supported", hint)
        if self.layer.old and named in OLD_ACTIVATIONS:
            return OLD_ACTIVATIONS[named]
        return ACTIVATIONS[named]

    # ---- weights ---------------------------------------------------------------------------------

    def weight(
        self, name: str, shape: Sequence[Dim | None], transform: Transform | None = None
    ) -> Node:
        """The next weight of the layer, of a shape in which None fits any size; transformed to how
        our operations have it.
        """
        number = self._next
        self._next += 1
        key = f"{self.path}.{name}"
        known = self.importer.held.get(key)
        if known is not None:
            return known
        array = self.store.array(number, name)
        if array is None:
            self.fail(f"its weight '{name}' is missing")
        if len(array.shape) != len(shape) or any(
            want not in (None, size) for want, size in zip(shape, array.shape, strict=True)
        ):
            wanted = ", ".join("?" if size is None else str(size) for size in shape)
            self.fail(f"its weight '{name}' has shape {list(array.shape)}, and should [{wanted}]")
        if array.dtype.kind == "f":
            array = array.astype(self.dtype.numpy, copy=False)
        kept = np.asarray(array if transform is None else transform(array), order="C")
        return self.importer.hold(key, kept)

    def skip(self, count: int = 1) -> None:
        """Passes over weights that inference does not need."""
        self._next += count

    def biased(self, x: Node, shape: Sequence[Dim | None], name: str = "bias") -> Node:
        """x plus a bias, if the layer has one."""
        return build.add(x, self.weight(name, shape)) if self.flag(f"use_{name}", True) else x

    # ---- layers inside ---------------------------------------------------------------------------

    def inner(self, name: str = "layer") -> LayerConfig:
        """A layer of the configuration."""
        try:
            return layer_of(self.get(name), f"its {name}", self.layer.old)
        except MalformedKerasFile as error:
            self.fail(str(error))

    def child(self, name: str, attribute: str, fits: Fits, **config: Any) -> LayerCall:
        """The call of a layer inside this one, with another configuration and its own weights."""
        return replace(
            self,
            layer=replace(self.layer, name=name, config={**self.layer.config, **config}),
            path=f"{self.path}.{name}",
            store=self.store.child(attribute, fits),
            _next=0,
        )

    def within(
        self,
        layer: LayerConfig,
        attribute: str,
        inputs: Sequence[Node],
        fits: Fits | None = None,
        mask: Mask = None,
    ) -> tuple[Node, ...]:
        """The results of another layer inside this one."""
        store = self.store.child(attribute, fits or (lambda name: name == layer.name))
        return self.importer.called(
            layer, f"{self.path}.{attribute.rpartition('/')[2]}", store, inputs, {"mask": mask}
        )

    @property
    def known(self) -> bool:
        """Whether there is a builder for the layer."""
        return self.layer.kind in LAYERS


def listed(value: Any) -> list[int]:
    """A value as a list of integers. Raises ShapeError."""
    integers = list(sequence(value))
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in integers):
        raise ShapeError(f"{value!r} is not a list of integers")
    return integers
