"""Parser of attributes in MLIR text: numbers, strings, lists, constants."""

from __future__ import annotations

import re
from math import prod
from typing import Any

from xlac.frontends.stablehlo.text import literals
from xlac.frontends.stablehlo.text.elements import ELEMENTS
from xlac.frontends.stablehlo.text.errors import ELEMENTS as MOST_ELEMENTS
from xlac.frontends.stablehlo.text.syntax import Element, MlirSymbol, Raw, TensorType
from xlac.frontends.stablehlo.text.types import TypeReader
from xlac.ir.op import Array

WORDS = re.compile(r"\w+")


class Reader(TypeReader):
    """Parses types and attributes."""

    def attributes(self) -> dict[str, Any]:
        """`{name = value, flag}`."""
        self.expect("{")
        return dict(self.listed("}", self.entry))

    def entry(self) -> tuple[str, Any]:
        """`name = value`, or a name alone, whose value is True."""
        if self.kind not in ("word", "string"):
            self.unexpected("the name of an attribute")
        name = self.string() if self.kind == "string" else self.next()
        return name, self.attribute() if self.accept("=") else True

    def attribute(self) -> Any:
        """An attribute value; `: type` after a number is consumed."""
        with self.deeper():
            return self._attribute()

    def _attribute(self) -> Any:
        at = self.at
        match self.kind:
            case "string":
                text = self.string()
                if self.accept(":"):
                    self.type()
                return text
            case "number":
                return self._number()
            case "symbol":
                return self.symbol()
            case "alias":
                return self._dialect()
        if self.accept("["):
            return self.listed("]", self.attribute)
        if self.text == "{":
            return self.attributes()
        if self.text in ("true", "false"):
            return self.next() == "true"
        if self.text in ("dense", "dense_resource"):
            return self.dense()[0]
        if self.text == "array":
            return self._array()
        if self.text == "loc":
            return self.location()
        if self.text in ("affine_map", "affine_set", "opaque", "sparse", "distinct", "strided"):
            name = self.next()
            return Raw(name, self.balanced())
        if self.text == "unit":
            self.next()
            return True
        if self.text in ("tensor", "tuple", "(", "complex", "index") or self.text in ELEMENTS:
            return self.type()
        if self.kind == "word":
            return self.next()
        self.source.fail("XL7201", f"expected an attribute, found {self.text[:60]!r}", at)

    def symbol(self) -> MlirSymbol:
        """`@name`; for `@outer::@inner` the last name."""
        text = self.take("symbol", "a symbol")[1:]
        while self.accept("::"):
            text = self.take("symbol", "a symbol")[1:]
        return MlirSymbol(text[1:-1] if text.startswith('"') else text)

    def _number(self) -> Any:
        at, text = self.at, self.next()
        element = None
        if self.accept(":"):
            stated = self.type()
            element = stated if isinstance(stated, Element) else None
        if element is not None and element.dtype.is_float and not element.complex:
            return self.trying(lambda: float(literals.numbers([text], element)[0]), at)
        return self.number(at, text)

    def number(self, at: int, text: str) -> int | float:
        """The value of a number token."""
        if len(text) > 60:
            self.source.too_much(f"a number of {len(text)} digits", at)
        return (
            float(text)
            if set(text) & set(".eE") and "x" not in text
            else int(text, 0)
            if "x" in text
            else int(text)
        )

    def dense(self) -> tuple[Array, TensorType]:
        """`dense<numbers> : type`, `dense<"0x...">` and `dense_resource<name>`; an array of the
        stored type.
        """
        at, word = self.at, self.next()
        if self.text != "<":
            self.unexpected("'<'")
        if word == "dense_resource":
            self.expect("<")
            name = self.next()
            self.expect(">")
            type, shape = self._typed(at)
            data = self.resources.get(name.strip('"'))
            if data is None:
                self.source.fail("XL7204", f"there is no resource {name[:60]}", at)
            return self.trying(lambda: literals.raw(data, type.element, shape), at), type
        start = self.end
        close = self.all.find(">", start)
        if close < 0:
            self.source.fail("XL7201", "dense<…> is not closed", at)
        inside = self.all[start:close]
        self.seek(close + 1)
        type, shape = self._typed(at)
        if inside.lstrip().startswith('"'):
            return self.trying(
                lambda: literals.raw(
                    literals.hexadecimal(inside.strip()[1:-1].removeprefix("0x")),
                    type.element,
                    shape,
                ),
                at,
            ), type
        return self.trying(lambda: literals.dense(inside, type.element, shape), at), type

    def _typed(self, at: int) -> tuple[TensorType, tuple[int, ...]]:
        self.expect(":")
        type = self.type()
        if not isinstance(type, TensorType) or None in type.shape:
            self.source.fail("XL7201", "a constant needs a tensor type of known size", at)
        if prod(n or 0 for n in type.shape) > MOST_ELEMENTS:
            self.source.too_much(f"a constant of type {type}", at)
        return type, tuple(n or 0 for n in type.shape)

    def _array(self) -> list[Any]:
        """`array<i64: 1, 2>` as a list."""
        self.next()
        self.expect("<")
        element = self.element()
        if self.accept(">"):
            return []
        if element.complex:
            self.source.fail(
                "XL7201", "an array has integers or floats, not complex numbers", self.at
            )
        self.expect(":")
        items = self.listed(">", self.next)
        return self.trying(lambda: literals.numbers(items, element).tolist(), self.at)

    def _dialect(self) -> Any:
        """`#alias`, `#stablehlo<kind WORD>` (the word), `#stablehlo.name<key = value>` (a dict), or
        else raw text.
        """
        name = self.next()
        if self.text != "<":
            return self.aliases.get(name, Raw(name, ""))
        start = self.at
        if name in ("#stablehlo", "#chlo", "#vhlo", "#mhlo"):
            text = self.balanced()
            words = WORDS.findall(text)
            return words[1] if len(words) == 2 else Raw(name, text)
        text = self.balanced()
        end = self.at
        if not re.match(r"\s*\w+\s*=", text):
            return Raw(name, text)
        self.seek(start)
        self.expect("<")
        fields = dict(self.listed(">", self.entry))
        self.seek(end)
        return fields

    def location(self) -> None:
        """`loc(...)`, which is skipped."""
        self.expect("loc")
        if self.text != "(":
            self.unexpected("'('")
        self.balanced()
