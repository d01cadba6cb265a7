"""The syntax tree: types, operations, regions and functions, not yet resolved.

The pretty and the generic form of an operation give the same `Operation`, with the attribute names
of the generic form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class Quantization:
    """Affine quantization: (q - zero point) * scale, per tensor or per entry of `axis`."""

    expressed: Element
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Element:
    """An element type: its text, and its storage type `dtype`. A complex number is two of `dtype`.

    `format` names a minifloat, stored as its code; `bits` is the width of an integer narrower than
    its storage.
    """

    text: str
    dtype: DType
    complex: bool = False
    format: str = ""
    bits: int = 0
    quantization: Quantization | None = None

    @property
    def plain(self) -> bool:
        """Whether xlac has the same element type."""
        return not (self.complex or self.format or self.bits or self.quantization)


@dataclass(frozen=True, slots=True)
class TensorType:
    """`shape` has None for dynamic sizes; `bounds` may limit them."""

    element: Element
    shape: tuple[int | None, ...] = ()
    bounds: tuple[int | None, ...] = ()

    def __str__(self) -> str:
        sizes = "".join(f"{'?' if n is None else n}x" for n in self.shape)
        return f"tensor<{sizes}{self.element.text}>"


@dataclass(frozen=True, slots=True)
class TokenType:
    """The type of tokens, which order side effects and carry no value."""


@dataclass(frozen=True, slots=True)
class TupleType:
    """`tuple<types>`."""

    items: tuple[ValueType, ...]


@dataclass(frozen=True, slots=True)
class FunctionType:
    """`(types) -> types`."""

    takes: tuple[ValueType, ...]
    gives: tuple[ValueType, ...]


ValueType = TensorType | TokenType | TupleType | FunctionType


@dataclass(frozen=True, slots=True)
class MlirSymbol:
    """`@name`, a reference to a function."""

    name: str


@dataclass(frozen=True, slots=True)
class Raw:
    """A dialect attribute that is kept unparsed: `#stablehlo.conv<...>`."""

    name: str
    text: str


@dataclass(slots=True)
class Operation:
    """`operands` and `results` are names, `%3#1` for the second result of `%3`; `at` is the offset
    in the text.
    """

    name: str
    operands: list[str]
    results: list[str]
    attributes: Mapping[str, Any]
    regions: list[MlirRegion]
    types: tuple[ValueType, ...]
    at: int
    width: int = 1


@dataclass(slots=True)
class MlirRegion:
    """A region of one block: the names and types of its arguments, and its operations, of which the
    last is the terminator.
    """

    arguments: list[tuple[str, ValueType]]
    operations: list[Operation]
    at: int


@dataclass(slots=True)
class MlirFunction:
    """A function of the module; `attributes` are those of each argument, `results` those of
    each result.
    """

    name: str
    arguments: list[tuple[str, ValueType]]
    attributes: list[Mapping[str, Any]]
    gives: tuple[ValueType, ...]
    body: MlirRegion
    at: int
    private: bool = False
    results: tuple[Mapping[str, Any], ...] = ()


@dataclass(slots=True)
class Module:
    """The functions of a text by name, the module's attributes, and its device meshes: the text of
    their axes, by name.
    """

    name: str
    functions: dict[str, MlirFunction]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    meshes: dict[str, str] = field(default_factory=dict)
