"""Complex tensors: pairs of nodes during import, and the builders of operations on them.

An operation that is linear and has real coefficients (views, sums, gathers) is built once for the
real parts and once for the imaginary ones, by its builder for real tensors. The others have
builders of their own here (`families/complex`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from xlac.frontends.torch.errors import NotExpressible
from xlac.frontends.torch.table import AtenCall, Builder
from xlac.ir.dims import Shape
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.parts import Parts
from xlac_sdk.dtypes import DType


@dataclass(frozen=True, slots=True)
class ComplexTensor:
    """A tensor of complex numbers: nodes of one type for the real and the imaginary parts."""

    real: Node
    imaginary: Node

    @property
    def parts(self) -> Parts:
        """Both parts."""
        return self.real, self.imaginary

    @property
    def shape(self) -> Shape:
        """The shape of each part."""
        return self.real.shape

    def each(self, change: Callable[[Node], Node]) -> ComplexTensor:
        """The tensor with both parts changed in the same way."""
        return ComplexTensor(change(self.real), change(self.imaginary))


Number = ComplexTensor | Node | complex | float | int
COMPLEX_BUILDERS: dict[str, Builder] = {}
"""Builders of operations with complex operands or results, by ATen's names. Their arguments are
those of the real builders, with a ComplexTensor for a complex tensor; `AtenCall.type` is that of a
part of the result.
"""
F = TypeVar("F", bound=Builder)

VIEWS = """view _unsafe_view reshape view_copy _reshape_alias squeeze squeeze.dim squeeze.dims
    unsqueeze flatten.using_ints _reshape_copy permute permute_copy t transpose.int expand
    expand_copy slice.Tensor slice_copy.Tensor select.int select_copy.int split_with_sizes
    split_with_sizes_copy split.Tensor unsafe_split.Tensor unsafe_split_with_sizes chunk
    unbind.int cat stack flip roll repeat alias clone detach detach_copy lift lift_fresh
    lift_fresh_copy contiguous diagonal diagonal_copy diag_embed unfold unfold_copy tril triu
    as_strided as_strided_copy""".split()
PLACES = """index.Tensor _unsafe_index.Tensor index_select gather index_put _unsafe_index_put
    scatter.src scatter_add slice_scatter select_scatter diagonal_scatter index_add index_copy
    masked_fill.Tensor where.self copy reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d as_strided_scatter masked_scatter
    put""".split()
SUMS = "neg sum sum.dim_IntList mean mean.dim cumsum trace".split()
ZEROS = """zeros zeros_like new_zeros empty.memory_format empty_like new_empty empty_strided
    new_empty_strided empty_permuted _new_zeros_with_same_feature_meta""".split()
LINEAR = frozenset(
    f"aten.{name}" if "." in name else f"aten.{name}.default"
    for name in (*VIEWS, *PLACES, *SUMS, *ZEROS)
)
"""Operations whose real and imaginary parts are those of their operands."""


def aten_complex(*names: str) -> Callable[[F], F]:
    """Registers a builder under ATen names, as `table.aten` does."""

    def enter(builder: F) -> F:
        for name in names:
            key = f"aten.{name}" if "." in name else f"aten.{name}.default"
            key = name if name.startswith("prims.") else key
            assert key not in COMPLEX_BUILDERS, f"{key} has two builders"
            COMPLEX_BUILDERS[key] = builder
        return builder

    return enter


def holds_complex(value: Any) -> bool:
    """Whether a complex tensor or number is among (nested) arguments."""
    if isinstance(value, tuple | list):
        return any(holds_complex(v) for v in value)
    if isinstance(value, Mapping):
        return any(holds_complex(v) for v in value.values())
    return isinstance(value, ComplexTensor | complex)


def built_complex(
    operation: str, call: AtenCall, builder: Builder | None, args: Sequence[Any], named: Any
) -> Any:
    """The results of an operation with complex operands or results; `builder` is the one for real
    numbers. Raises NotExpressible.
    """
    own = COMPLEX_BUILDERS.get(operation)
    if own is not None:
        return own(call, *args, **named)
    if builder is None or operation not in LINEAR:
        raise NotExpressible("xlac has no counterpart of it for complex numbers")
    real, imaginary = (
        builder(call, *_part(args, number), **_part(named, number)) for number in (0, 1)
    )
    if isinstance(real, Node):
        return ComplexTensor(real, imaginary)
    return [ComplexTensor(a, b) for a, b in zip(real, imaginary, strict=True)]


def _part(value: Any, number: int) -> Any:
    """Arguments with one part of each complex value; the imaginary part of a real tensor is 0.
    Integers and booleans are positions and conditions, which both parts share.
    """
    if isinstance(value, tuple | list):
        return [_part(v, number) for v in value]
    if isinstance(value, Mapping):
        return {name: _part(v, number) for name, v in value.items()}
    if isinstance(value, ComplexTensor):
        return value.parts[number]
    if isinstance(value, complex):
        return (value.real, value.imag)[number]
    if isinstance(value, Node) and value.type.dtype.is_float and number:
        return build.like(0.0, value)
    return value


def as_complex(value: Number, dtype: DType) -> ComplexTensor:
    """A tensor or number as complex, with parts of an element type."""
    if isinstance(value, ComplexTensor):
        return value.each(lambda part: build.cast(part, dtype))
    if isinstance(value, Node):
        real = build.cast(value, dtype)
        return ComplexTensor(real, build.like(0.0, real))
    number = complex(value)
    return ComplexTensor(build.constant(number.real, dtype), build.constant(number.imag, dtype))


def real_of(value: Number, dtype: DType) -> Node | None:
    """A tensor or number that is real, as a node of an element type; None for a complex one."""
    if isinstance(value, ComplexTensor) or (isinstance(value, complex) and value.imag):
        return None
    if isinstance(value, Node):
        return build.cast(value, dtype)
    return build.constant(complex(value).real, dtype)


def together(x: ComplexTensor) -> Node:
    """Both parts along a new last axis: the memory of complex numbers."""
    return build.concat([build.reshape(p, (*p.shape, 1)) for p in x.parts], x.real.type.rank)


def apart(x: Node) -> ComplexTensor:
    """Complex numbers from pairs along the last axis."""
    axis = x.type.rank - 1
    real, imaginary = (build.reshape(build.cut(x, axis, at, at + 1), x.shape[:-1]) for at in (0, 1))
    return ComplexTensor(real, imaginary)
