"""Parser of regions and operations in MLIR text."""

from __future__ import annotations

from typing import Any

from xlac.frontends.stablehlo.text.pretty import FORMS, Pretty, renamed, typed
from xlac.frontends.stablehlo.text.reader import Reader
from xlac.frontends.stablehlo.text.syntax import FunctionType, MlirRegion, Operation, ValueType

DIALECTS = ("stablehlo.", "chlo.", "func.", "sdy.")


class OperationReader(Reader):
    """Recursive descent; `pretty` has the operations whose pretty form needs its own rule."""

    def argument(self) -> tuple[str, ValueType, dict[str, Any]]:
        """`%name: type {attributes} loc(…)`: name, type and attributes."""
        name = self.take("value", "an argument")
        self.expect(":")
        type = self.type()
        given = self.attributes() if self.text == "{" else {}
        self._location()
        return name, type, given

    def _location(self) -> None:
        if self.text == "loc" and self.kind == "word":
            self.location()

    def region(self, arguments: list[tuple[str, ValueType]] | None = None) -> MlirRegion:
        """`{ operations }`, or `{ ^bb0(%a: type): operations }`."""
        at = self.at
        self.expect("{")
        given = list(arguments or ())
        with self.deeper():
            if self.kind == "block":
                self.next()
                if self.accept("("):
                    given += [(name, type) for name, type, _ in self.listed(")", self.argument)]
                self.expect(":")
            operations: list[Operation] = []
            while not self.accept("}"):
                if self.kind == "block":
                    self.source.fail(
                        "XL7202",
                        "a region of several blocks: xlac reads structured control flow only",
                        self.at,
                    )
                operations.append(self.operation())
        return MlirRegion(given, operations, at)

    def operation(self) -> Operation:
        """An operation in generic or pretty form."""
        results, at = self._results(), self.at
        operation = self._generic() if self.kind == "string" else self._pretty(at, len(results))
        self._location()
        if len(results) != len(operation.types) and not (operation.name == "return" or not results):
            message = (
                f"{operation.name} has {len(operation.types)} results, and {len(results)} names "
                "for them"
            )
            self.source.fail("XL7204", message, at, len(operation.name))
        operation.results = results
        return operation

    def _results(self) -> list[str]:
        names: list[str] = []
        while self.kind == "value":
            name = self.next()
            if self.accept(":"):
                count = self.take("number", "a number of results")
                if not count.isdigit() or not 0 < int(count[:9]) <= 100_000:
                    self.source.fail("XL7201", f"{count[:20]} results", self.at)
                names += [f"{name}#{n}" for n in range(int(count))] if int(count) > 1 else [name]
            else:
                names.append(name)
            if not self.accept(","):
                self.expect("=")
                break
        return names

    def _generic(self) -> Operation:
        at, width = self.at, len(self.text)
        name = self.string()
        self.expect("(")
        operands = self.listed(")", lambda: self.take("value", "an operand"))
        attributes: dict[str, Any] = {}
        if self.accept("<"):
            attributes |= self.attributes()
            self.expect(">")
        regions: list[MlirRegion] = []
        if self.accept("("):
            regions = self.listed(")", self.region)
        if self.text == "{":
            attributes |= self.attributes()
        self.expect(":")
        type = self.function_type()
        return Operation(shortened(name), operands, [], attributes, regions, type.gives, at, width)

    def _pretty(self, at: int, count: int) -> Operation:
        width = len(self.text)
        name = shortened(self.take("word", "an operation"))
        with self.deeper():
            parsed = Pretty(name)
            FORMS.get(name, OperationReader._plain)(self, parsed)
            types = parsed.types if parsed.types is not None else self._types(parsed)
        attributes = renamed(name, parsed)
        return Operation(
            name,
            parsed.operands,
            [],
            attributes,
            parsed.regions,
            typed(name, types, count),
            at,
            width,
        )

    def _types(self, parsed: Pretty) -> FunctionType | list[ValueType]:
        """The types after the colon: a function type, or a list. An operation without types has no
        colon.
        """
        if not self.accept(":"):
            return []
        if self.text == "(":
            return self.function_type()
        listed = [self.type()]
        while self.accept(","):
            listed.append(self.type())
        return FunctionType(tuple(listed), self.results()) if self.accept("->") else listed

    def _plain(self, parsed: Pretty) -> None:
        """Operands, `name = value` pairs and keywords in any order, up to the colon."""
        closed = not self.accept("(")
        while (
            self.text != ":"
            and self.kind not in ("end", "block")
            and self.text != "}"
            and not self._begins()
        ):
            if self.kind == "value":
                parsed.operands.append(self.next())
            elif self.text == "{":
                parsed.named |= self.attributes()
            elif self.text == "<":
                self.next()
                parsed.named |= self.attributes()
                self.expect(">")
            elif self.kind == "word":
                self._keyword(parsed)
            elif self.kind == "symbol":
                parsed.words.append(self.symbol())
            elif self.kind == "string":
                parsed.words.append(self.string())
            elif self.text == "[":
                parsed.words.append(self.attribute())
            elif not closed and self.accept(")"):
                closed = True
            elif not self.accept(","):
                self.unexpected("an operand, an attribute or ':'")

    def _begins(self) -> bool:
        """Whether the next token begins another operation, so that this one ended without types."""
        return self.kind == "word" and (
            self.text in ("return", "call", "loc") or self.text.startswith(DIALECTS)
        )

    def _keyword(self, parsed: Pretty) -> None:
        word = self.next()
        if not self.accept("="):
            parsed.words.append(word)
            return
        value: Any
        if self.text == "<":
            self.next()
            value = dict(self.listed(">", self.entry))
        elif self.kind == "number":  # a colon after it begins the operation's types
            value = self.number(self.at, self.next())
        else:
            value = self.attribute()
        if self.text == "x" and self.kind == "word":
            self.next()
            value = (value, self.attribute())
        parsed.named[word] = value


def shortened(name: str) -> str:
    """An operation's name without `stablehlo.`; other dialects keep their prefix, except for calls
    and returns.
    """
    if name in ("func.call", "call", "stablehlo.return", "func.return", "sdy.return", "return"):
        return name.rpartition(".")[2]
    return name.removeprefix("stablehlo.")
