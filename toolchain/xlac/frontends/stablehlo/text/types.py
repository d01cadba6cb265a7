"""Parser of types in MLIR text."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, TypeVar

from xlac.frontends.stablehlo.quantization import quantized
from xlac.frontends.stablehlo.text.elements import ELEMENTS, complex_of
from xlac.frontends.stablehlo.text.errors import DEPTH, MlirSource
from xlac.frontends.stablehlo.text.lexer import Lexer
from xlac.frontends.stablehlo.text.syntax import (
    Element,
    FunctionType,
    Raw,
    TensorType,
    TokenType,
    TupleType,
    ValueType,
)
from xlac.ir.types import RANK

T = TypeVar("T")
SIMPLE = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(\w+|complex<\w+>)>")
SIZES = re.compile(r"\s*((?:(?:\d+|\?)\s*x\s*)*)")
OPENING, CLOSING = "([{<", ")]}>"


class TypeReader(Lexer):
    """Parses types; `aliases` are the `#name = ...` and `!name = ...` defined so far.

    Encodings of tensors are attributes, which the subclass `Reader` parses, and constants have
    types.
    """

    def __init__(self, source: MlirSource) -> None:
        self.aliases: dict[str, Any] = {}
        self.resources: dict[str, bytes] = {}
        self._known: dict[str, TensorType] = {}
        self._depth = 0
        super().__init__(source)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """A context for nested syntax, which limits the depth."""
        self._depth += 1
        if self._depth > DEPTH:
            self.source.too_much(f"nested more than {DEPTH} deep", self.at)
        yield
        self._depth -= 1

    def listed(self, close: str, item: Callable[[], T]) -> list[T]:
        """Items separated by commas up to a closing delimiter, which is consumed."""
        items: list[T] = []
        while not self.accept(close):
            if items:
                self.expect(",")
            items.append(item())
        return items

    @abstractmethod
    def attribute(self) -> Any:
        """An attribute value; `: type` after a number is consumed."""

    def trying(self, read: Callable[[], T], at: int) -> T:
        """Calls `read` and reports its ValueError at a place in the text."""
        try:
            return read()
        except (ValueError, OverflowError) as error:
            self.source.fail("XL7201", str(error), at)

    def balanced(self) -> str:
        """The unparsed text between matching delimiters."""
        start, open_ = self.end, []
        while True:
            if self.kind == "end":
                self.source.fail("XL7201", "a bracket is not closed", start)
            if self.kind == "mark" and self.text in OPENING:
                open_.append(CLOSING[OPENING.index(self.text)])
            elif (
                self.kind == "mark"
                and self.text in CLOSING
                and (not open_ or open_.pop() != self.text)
            ):
                self.unexpected("the bracket that closes")
            end = self.at
            self.next()
            if not open_:
                return self.all[start:end]

    def type(self) -> Any:
        """The type of a value, or an element type."""
        if self.text == "tensor":
            return self._tensor()
        with self.deeper():
            if self.text == "tuple":
                self.next()
                self.expect("<")
                return TupleType(tuple(self.listed(">", self.type)))
            if self.text == "(":
                return self.function_type()
            if self.kind == "alias" and self.text in ("!stablehlo.token", "!mhlo.token"):
                self.next()
                return TokenType()
            if self.kind == "alias" and self.text in self.aliases:
                return self.aliases[self.next()]
            return self.element()

    def _tensor(self) -> TensorType:
        simple = SIMPLE.match(self.all, self.at)
        if simple is None:
            return self._any_tensor()
        tensor = self._known.get(simple.group())
        if tensor is None:
            element = self._named(simple.group(2))
            if element is None:
                return self._any_tensor()
            sizes = tuple(
                None if n == "?" else self.size(n) for n in simple.group(1).split("x")[:-1]
            )
            tensor = self._known[simple.group()] = self._checked(TensorType(element, sizes))
        self.seek(simple.end())
        return tensor

    def _named(self, name: str) -> Element | None:
        if name.startswith("complex<"):
            part = ELEMENTS.get(name[8:-1])
            return complex_of(part) if part and part.text in ("f32", "f64") else None
        return ELEMENTS.get(name)

    def _any_tensor(self) -> TensorType:
        """Other tensors: with bounds, with quantised elements, or malformed."""
        self.next()
        if self.text != "<":
            self.unexpected("'<'")
        sizes = SIZES.match(self.all, self.end)
        assert sizes is not None
        shape = tuple(
            None if n.strip() == "?" else self.size(n.strip())
            for n in sizes.group(1).split("x")[:-1]
        )
        self.seek(sizes.end())
        element = self.element()
        bounds: tuple[int | None, ...] = ()
        if self.accept(","):
            bounds = self._bounds(self.attribute(), len(shape))
        self.expect(">")
        return self._checked(TensorType(element, shape, bounds))

    def _bounds(self, encoding: Any, rank: int) -> tuple[int | None, ...]:
        """`#stablehlo.bounds<8, ?>`, and its former spelling `#stablehlo.type_extensions<bounds =
        [8, ?]>`.
        """
        text = encoding.text if isinstance(encoding, Raw) else str(encoding)
        bounds = re.findall(r"-?\d+|\?", text)
        if len(bounds) != rank:
            self.source.fail(
                "XL7201", f"bounds of {len(bounds)} sizes for a tensor of rank {rank}", self.at
            )
        return tuple(None if n == "?" or n.startswith("-") else int(n) for n in bounds)

    def size(self, text: str) -> int:
        """The size of an axis, in digits."""
        if len(text) > 18:
            self.source.too_much(f"a size of {len(text)} digits", self.at)
        if not text.isdecimal():
            self.source.fail("XL7201", f"{text!r} is not a size", self.at)
        return int(text)

    def _checked(self, type: TensorType) -> TensorType:
        if len(type.shape) > RANK:
            self.source.too_much(
                f"a tensor of rank {len(type.shape)}; at most {RANK} axes are supported", self.at
            )
        if prod(n or 1 for n in type.shape) * type.element.dtype.nbytes >= 1 << 62:
            self.source.too_much(f"{type} is too large for any memory", self.at)
        return type

    def element(self) -> Element:
        """An element type."""
        if self.kind == "alias" and self.text == "!quant.uniform":
            at = self.at
            self.next()
            return self.trying(lambda: quantized(self.balanced(), ELEMENTS), at)
        if self.kind == "alias" and isinstance(self.aliases.get(self.text), Element):
            return self.aliases[self.next()]  # type: ignore[no-any-return]
        if self.text == "complex":
            self.next()
            self.expect("<")
            part = self.element()
            self.expect(">")
            if part.text not in ("f32", "f64"):
                self.source.fail(
                    "XL7201", f"complex numbers have parts of f32 or f64, not {part.text}", self.at
                )
            return complex_of(part)
        if self.text == "index":
            self.next()
            return ELEMENTS["i64"]
        if self.text in ELEMENTS:
            return ELEMENTS[self.next()]
        self.unexpected("a type that StableHLO has")

    def function_type(self) -> FunctionType:
        """`(types) -> types`, and `type -> types` as chlo writes it."""
        self.expect("(")
        takes = tuple(self.listed(")", self.type))
        self.expect("->")
        return FunctionType(takes, self.results())

    def results(self) -> tuple[ValueType, ...]:
        """The result types of a function: in parentheses, or a single one."""
        if self.accept("("):
            return tuple(self.listed(")", self.type))
        return (self.type(),)
