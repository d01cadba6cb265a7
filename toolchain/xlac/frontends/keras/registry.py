"""Registry of builders: of Keras's layers, its activations and the functions of keras.ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from xlac.ir.graph import Node

if TYPE_CHECKING:
    from xlac.frontends.keras.call import LayerCall

Results = Node | tuple[Node, ...]
Builder = Callable[["LayerCall"], Results]
B = TypeVar("B", bound=Callable[..., Any])  # so that decorators keep a function's type

LAYERS: dict[str, Builder] = {}
"""Layers by the names of their classes."""
OPERATIONS: dict[str, Callable[..., Results]] = {}
"""Functions of keras.ops by the names of their classes; they take the arguments of Keras's."""
ACTIVATIONS: dict[str, Callable[[Node], Node]] = {}
"""Activations by name."""
OLD_ACTIVATIONS: dict[str, Callable[[Node], Node]] = {}
"""Those that are other functions in Keras 2."""
LAMBDAS: dict[str, Callable[..., Results]] = {}
"""Functions of TensorFlow, which models of Keras 2 call, by name; they take its arguments."""


def _registered(table: dict[str, Any], names: tuple[str, ...], builder: B) -> B:
    for name in names:
        if name in table:
            raise ValueError(f"{name} is registered twice")
        table[name] = builder
    return builder


def layer(*names: str) -> Callable[[B], B]:
    """Registers the builder of layers."""
    return lambda builder: _registered(LAYERS, names, builder)


def operation(*names: str) -> Callable[[B], B]:
    """Registers functions of keras.ops."""
    return lambda builder: _registered(OPERATIONS, names, builder)


def activation(*names: str) -> Callable[[B], B]:
    """Registers activations."""
    return lambda builder: _registered(ACTIVATIONS, names, builder)


def old_activation(*names: str) -> Callable[[B], B]:
    """Registers activations of Keras 2."""
    return lambda builder: _registered(OLD_ACTIVATIONS, names, builder)


def function_of_tensorflow(*names: str) -> Callable[[B], B]:
    """Registers functions of TensorFlow."""
    return lambda builder: _registered(LAMBDAS, names, builder)
