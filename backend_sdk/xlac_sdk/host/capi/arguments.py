"""The parameters of C functions: arrays, and the sizes of a call."""

from __future__ import annotations

from dataclasses import dataclass

from xlac_sdk.dims import Symbol
from xlac_sdk.dtypes import DType
from xlac_sdk.emit.cdialect import comment
from xlac_sdk.emit.cfunctions import TYPES
from xlac_sdk.programs.program import Slot

# all others are `int32_t` and the like
RUST = {"float": "f32", "double": "f64", "unsigned char": "u8"}
KINDS = {DType.F64: "f8", DType.F32: "f4", DType.F16: "f2", DType.BF16: "V2", DType.BOOL: "b1"}


@dataclass(frozen=True, slots=True)
class ArrayArgument:
    """An input or an output: its C name and type."""

    slot: Slot
    name: str
    written: bool

    @property
    def type(self) -> str:
        """Its element type in C."""
        return TYPES[self.slot.dtype]

    @property
    def shape(self) -> str:
        """Its extents for comments, such as `[2, 3]`."""
        return f"[{', '.join(map(str, self.slot.shape))}]"

    @property
    def about(self) -> str:
        """A comment: the user's name, element type and shape."""
        return f"'{comment(self.slot.name)}', {self.slot.dtype}{self.shape}"

    @property
    def count(self) -> int:
        """The number of elements; an upper bound where sizes are open."""
        return self.slot.size

    @property
    def rust(self) -> str:
        """The element type in Rust."""
        return RUST.get(self.type) or ("u" if self.type.startswith("u") else "i") + "".join(
            filter(str.isdigit, self.type)
        )

    @property
    def npy(self) -> str:
        """The element type in .npy files."""
        dtype = self.slot.dtype
        kind = KINDS.get(dtype) or f"{'i' if dtype.is_signed else 'u'}{dtype.nbytes}"
        return f"{'<' if dtype.nbytes > 1 else '|'}{kind}"

    @property
    def tuple(self) -> str:
        """The shape in .npy files, without the parentheses."""
        return ", ".join(map(str, self.slot.shape)) + ("," if len(self.slot.shape) == 1 else "")

    @property
    def parameter(self) -> str:
        """Its declaration in C."""
        return f"{'' if self.written else 'const '}{self.type} *{self.name}"


@dataclass(frozen=True, slots=True)
class SizeArgument:
    """A size chosen by each call, within bounds: its C name, and the user's name, safe in a
    comment.
    """

    symbol: Symbol
    name: str

    @property
    def title(self) -> str:
        """The user's name of the size, safe in a comment."""
        return comment(self.symbol.name)

    @property
    def refused(self) -> str:
        """The C condition under which the value in `sizes` is rejected."""
        value, multiple = f"sizes->{self.name}", self.symbol.multiple_of
        rest = f" || {value} % {multiple} != 0" if multiple > 1 else ""
        return f"{value} < {self.symbol.min} || {value} > {self.symbol.max}{rest}"
