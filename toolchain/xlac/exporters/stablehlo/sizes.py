"""Exports open sizes: each symbol is read from an axis of an argument, and what is known of it is
asserted as `jax.export` does, so refinement with known sizes checks it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlac.exporters.open_sizes import SizeWriter, held
from xlac.exporters.unsaid import Unsaid
from xlac.ir.dims import UNBOUNDED, Dim, Sym, Symbol
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops.tensor.leaf import param
from xlac.spec.text.write import quoted
from xlac_sdk.dtypes import DType

if TYPE_CHECKING:
    from xlac.exporters.stablehlo.writer import SsaValue, StableHloWriter

WHOLE = Type(DType.I64)


class WrittenSizes(SizeWriter["SsaValue"]):
    """The sizes of one function as scalars of i64, which every region of it may use."""

    def __init__(self, writer: StableHloWriter) -> None:
        self.writer = writer
        self._symbols: dict[str, SsaValue] = {}

    # ---- what sizes are ----------------------------------------------------------------------

    def declare(self, dims: Mapping[str, Symbol], arguments: Mapping[Node, SsaValue]) -> None:
        """Writes every symbol that an argument holds, then assertions: its bounds, and that axes of
        equal size are equal.
        """
        inputs, plain = list(arguments), set()
        for name, symbol in dims.items():
            try:
                at = held(symbol, inputs)
            except Unsaid:  # its use is refused
                continue
            size = self.axis(arguments[at.node], at.axis)
            size = self.added(size, self.number(-at.rest)) if at.rest else size
            self.writer.hint = name
            self._symbols[name] = size = (
                self._op("divide", size, self.number(at.factor)) if at.factor != 1 else size
            )
            self.writer.hint = ""
            if (at.factor, at.rest) == (1, 0):
                plain.add((at.node, at.axis))
            self._bounded(symbol, size)
        for node, value in arguments.items():
            for axis, extent in enumerate(node.shape):
                if isinstance(extent, Sym) and (node, axis) not in plain:
                    try:
                        self._equal(node, value, axis, extent)
                    except Unsaid as reason:
                        self.writer.problems.setdefault(node, str(reason))

    def _equal(self, node: Node, value: SsaValue, axis: int, extent: Sym) -> None:
        have, want = self.axis(value, axis), self.value(extent)
        text = f"axis {axis} of {param(node).name} is {{0}}, not {extent} = {{1}}"
        self._asserted("EQ", have, want, text, (have, want))

    def _bounded(self, symbol: Symbol, size: SsaValue) -> None:
        name = symbol.name
        if symbol.min > 0:
            text = f"size {name} is {{0}}, and at least {symbol.min} is needed"
            self._asserted("GE", size, self.number(symbol.min), text, (size,))
        if symbol.max < UNBOUNDED:
            text = f"size {name} is {{0}}, and at most {symbol.max} is possible"
            self._asserted("LE", size, self.number(symbol.max), text, (size,))
        if symbol.multiple_of != 1:
            rest = self._op("remainder", size, self.number(symbol.multiple_of))
            text = f"size {name} is {{0}}, which is no multiple of {symbol.multiple_of}"
            self._asserted("EQ", rest, self.number(0), text, (size,))

    def _asserted(
        self, direction: str, x: SsaValue, y: SsaValue, text: str, shown: Sequence[SsaValue]
    ) -> None:
        w = self.writer
        given = f"comparison_direction = #stablehlo<comparison_direction {direction}>"
        holds = w.op("compare", [x, y], Type(DType.BOOL), given)
        names = ", ".join(v.name for v in (holds, *shown))
        types = ", ".join(["tensor<i1>", *["tensor<i64>"] * len(shown)])
        w.lines.append(
            f'{w.indent}"stablehlo.custom_call"({names}) <{{call_target_name = "shape_assertion", '
            f"has_side_effect = true}}> {{error_message = {quoted(text)}}} : ({types}) -> ()"
        )

    # ---- sizes as operands -------------------------------------------------------------------

    def axis(self, x: SsaValue, axis: int) -> SsaValue:
        """The size of an axis of a value."""
        given = f"dimension = {axis} : i64"
        size = self.writer.op("get_dimension_size", [x], Type(DType.I32), given)
        return self.writer.op("convert", [size], WHOLE)

    def vector(self, sizes: Sequence[Dim]) -> SsaValue:
        """Sizes as a vector of i64, as operations with sizes as operands take them."""
        w = self.writer
        hint, w.hint = w.hint, ""
        parts: list[SsaValue] = []
        numbers: list[int] = []
        for size in sizes:
            if isinstance(size, Sym):
                parts += self._numbers(numbers)
                parts.append(w.op("reshape", [self.value(size)], Type(DType.I64, (1,))))
                numbers = []
            else:
                numbers.append(size)
        parts += self._numbers(numbers)
        if not parts:
            parts = [w.stored(np.zeros(0, np.int64), DType.I64)]
        if len(parts) > 1:
            whole = Type(DType.I64, (len(sizes),))
            parts = [w.op("concatenate", parts, whole, "dimension = 0 : i64")]
        w.hint = hint
        return parts[0]

    def _numbers(self, numbers: Sequence[int]) -> list[SsaValue]:
        return [self.writer.stored(np.array(numbers, np.int64), DType.I64)] if numbers else []

    # ---- arithmetic --------------------------------------------------------------------------

    def number(self, value: int) -> SsaValue:
        return self.writer.constant(value, DType.I64)

    def symbol(self, symbol: Symbol) -> SsaValue:
        if symbol.name not in self._symbols:
            raise Unsaid(f"no input has an axis of size {symbol.name}")
        return self._symbols[symbol.name]

    def added(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._op("add", x, y)

    def multiplied(self, x: SsaValue, y: SsaValue) -> SsaValue:
        return self._op("multiply", x, y)

    def divided(self, x: SsaValue, by: int) -> SsaValue:
        return self._op("divide", x, self.number(by))

    def _op(self, name: str, x: SsaValue, y: SsaValue) -> SsaValue:
        return self.writer.op(name, [x, y], WHOLE)
