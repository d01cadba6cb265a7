"""Registry of builders of TensorFlow Lite's operators, by their names in the schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from xlac.ir.graph import Node

if TYPE_CHECKING:
    from xlac.frontends.tflite.call import TFLiteCall

Results = Node | tuple[Node, ...]
Builder = Callable[["TFLiteCall"], Results]
B = TypeVar("B", bound=Builder)  # a type variable, so that decorators keep the function's type


@dataclass(frozen=True, slots=True)
class Operator:
    """The builder of an operator, and the schema's table of its options ("" without any)."""

    builder: Builder
    options: str


OPERATORS: dict[str, Operator] = {}
"""Operators by their names in BuiltinOperator; custom ones by their own names."""
OF_COMPLEX = frozenset(("RFFT2D", "REAL", "IMAG", "COMPLEX_ABS", "RESHAPE", "CALL", "IF", "WHILE"))
"""Operators that may have complex numbers as operands; others would take the last axis, of real and
imaginary parts, for one of the tensor's own.
"""


def operator(name: str, options: str = "") -> Callable[[B], B]:
    """Registers the builder of an operator, with the name of its options' table in the schema."""

    def register(builder: B) -> B:
        if name in OPERATORS:
            raise ValueError(f"{name} is registered twice")
        OPERATORS[name] = Operator(builder, options)
        return builder

    return register
