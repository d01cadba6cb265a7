"""Modules, functions, regions and operations in MLIR text."""

from __future__ import annotations

from typing import Any

from xlac.frontends.stablehlo.text.errors import Source
from xlac.frontends.stablehlo.text.pretty import FORMS, Pretty, renamed, typed
from xlac.frontends.stablehlo.text.reader import Reader
from xlac.frontends.stablehlo.text.syntax import (
    Function,
    FunctionType,
    Module,
    Operation,
    Region,
    ValueType,
)

DIALECTS = ("stablehlo.", "chlo.", "func.", "sdy.")


def parse(source: Source) -> Module:
    """The module that a text holds: `module { ... }`, or functions alone. Raises SourceError,
    LimitError.
    """
    return Parser(source).module()


class Parser(Reader):
    """Recursive descent; what it reads of an operation's pretty form is said in `pretty`."""

    def module(self) -> Module:
        self._read_resources()
        self.found = Module("main", {})
        while self.kind != "end":
            if self.text == "{-#":
                break
            self._top()
        return self.found

    def _read_resources(self) -> None:
        """`{-# dialect_resources: {builtin: {name: "0x..."}} #-}` at the end, which constants
        before it name.
        """
        at = self.all.rfind("{-#")
        if at < 0:
            return
        self.seek(at)
        while self.kind != "end":
            name = self.next().strip('"')
            if self.text == ":":
                self.next()
                if self.kind == "string" and self.text.startswith('"0x'):
                    data = self._trying(lambda: bytes.fromhex(self.text[3:-1]), self.at)
                    self.resources[name] = data[4:]  # after the alignment
        self.seek(0)

    def _top(self) -> None:
        if self.kind == "alias":
            name = self.next()
            self.expect("=")
            value = self.type() if name.startswith("!") else self.attribute()
            self.aliases[name] = value
        elif self.text in ("module", "builtin.module"):
            self._module()
        elif self.text in ("func.func", "func"):
            self._function()
        elif self.text.startswith("sdy.") and self.kind == "word":  # meshes of devices
            self._skip_line()
        elif self.kind in ("string", "value"):
            self._generic_top(self.operation())
        else:
            self.unexpected("a module or a function")

    def _skip_line(self) -> None:
        end = self.all.find("\n", self.at)
        self.seek(len(self.all) if end < 0 else end)

    def _module(self) -> None:
        self.next()
        if self.kind == "symbol":
            self.found.name = self.symbol().name
        if self.accept("attributes"):
            self.found.attributes = self.attributes()
        self.expect("{")
        with self.deeper():
            while not self.accept("}"):
                if self.kind == "end":
                    self.unexpected("'}'")
                self._top()
        self._location()

    def _location(self) -> None:
        if self.text == "loc" and self.kind == "word":
            self.location()

    def _add(self, function: Function) -> None:
        if function.name in self.found.functions:
            self.source.fail(
                "XL7204", f"there are two functions called {function.name[:80]!r}", function.at
            )
        self.found.functions[function.name] = function

    def _function(self) -> None:
        at = self.at
        self.next()
        private = self.text in ("private", "nested")
        if self.text in ("public", "private", "nested"):
            self.next()
        name = self.symbol().name
        self.expect("(")
        listed = self.listed(")", self._argument)
        gives: tuple[ValueType, ...] = ()
        if self.accept("->"):
            gives = self._gives()
        if self.accept("attributes"):
            self.attributes()
        if self.text != "{":
            self.source.fail("XL7202", f"function {name[:80]!r} has no body", at)
        body = self.region([(name, type) for name, type, _ in listed])
        self._location()
        self._add(
            Function(
                name, body.arguments, [given for _, _, given in listed], gives, body, at, private
            )
        )

    def _argument(self) -> tuple[str, ValueType, dict[str, Any]]:
        name = self.take("value", "an argument")
        self.expect(":")
        type = self.type()
        given = self.attributes() if self.text == "{" else {}
        self._location()
        return name, type, given

    def _gives(self) -> tuple[ValueType, ...]:
        def one() -> ValueType:
            type: ValueType = self.type()
            if self.text == "{":
                self.attributes()
            return type

        return tuple(self.listed(")", one)) if self.accept("(") else (self.type(),)

    def _generic_top(self, operation: Operation) -> None:
        """`"builtin.module"() ({...})`, and in it `"func.func"() <{...}> ({...})`."""
        given = operation.attributes
        name = given.get("sym_name", "main")
        if operation.name == "builtin.module" and operation.regions:
            self.found.name, self.found.attributes = name, given
            for inner in operation.regions[0].operations:
                self._generic_top(inner)
            return
        type = given.get("function_type")
        if (
            operation.name != "func.func"
            or not operation.regions
            or not isinstance(type, FunctionType)
        ):
            self.source.fail(
                "XL7201", f"expected a function, found {operation.name[:60]}", operation.at
            )
        body = operation.regions[0]
        named = given.get("arg_attrs") or [{}] * len(body.arguments)
        self._add(
            Function(
                name,
                body.arguments,
                named,
                type.gives,
                body,
                operation.at,
                given.get("sym_visibility") == "private",
            )
        )

    # ---- regions and operations
    # --------------------------------------------------------------------

    def region(self, arguments: list[tuple[str, ValueType]] | None = None) -> Region:
        """`{ operations }`, or `{ ^bb0(%a: type): operations }`."""
        at = self.at
        self.expect("{")
        given = list(arguments or ())
        with self.deeper():
            if self.kind == "block":
                self.next()
                if self.accept("("):
                    given += [(name, type) for name, type, _ in self.listed(")", self._argument)]
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
        return Region(given, operations, at)

    def operation(self) -> Operation:
        """One operation in either form."""
        results, at = self._results(), self.at
        operation = self._generic() if self.kind == "string" else self._pretty(at, len(results))
        self._location()
        if len(results) != len(operation.types) and not (operation.name == "return" or not results):
            message = f"{operation.name} has {len(operation.types)} results, and {len(results)} names for them"
            self.source.fail("XL7204", message, at, len(operation.name))
        operation.results = results
        return operation

    def _results(self) -> list[str]:
        found: list[str] = []
        while self.kind == "value":
            name = self.next()
            if self.accept(":"):
                count = self.take("number", "a number of results")
                if not count.isdigit() or not 0 < int(count[:9]) <= 100_000:
                    self.source.fail("XL7201", f"{count[:20]} results", self.at)
                found += [f"{name}#{n}" for n in range(int(count))] if int(count) > 1 else [name]
            else:
                found.append(name)
            if not self.accept(","):
                self.expect("=")
                break
        return found

    def _generic(self) -> Operation:
        at, width = self.at, len(self.text)
        name = self.string()
        self.expect("(")
        operands = self.listed(")", lambda: self.take("value", "an operand"))
        attributes: dict[str, Any] = {}
        if self.accept("<"):
            attributes |= self.attributes()
            self.expect(">")
        regions: list[Region] = []
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
            found = Pretty(name)
            FORMS.get(name, Parser._plain)(self, found)
            types = found.types if found.types is not None else self._types(found)
        attributes = renamed(name, found)
        return Operation(
            name,
            found.operands,
            [],
            attributes,
            found.regions,
            typed(name, types, count),
            at,
            width,
        )

    def _types(self, found: Pretty) -> FunctionType | list[ValueType]:
        """What follows the colon: a function type, or a list of types. An operation without types
        has no colon.
        """
        if not self.accept(":"):
            return []
        if self.text == "(":
            return self.function_type()
        listed = [self.type()]
        while self.accept(","):
            listed.append(self.type())
        return FunctionType(tuple(listed), self.results()) if self.accept("->") else listed

    def _plain(self, found: Pretty) -> None:
        """Operands, `name = value`s and words in any order, up to the colon."""
        closed = not self.accept("(")
        while (
            self.text != ":"
            and self.kind not in ("end", "block")
            and self.text != "}"
            and not self._begins()
        ):
            if self.kind == "value":
                found.operands.append(self.next())
            elif self.text == "{":
                found.named |= self.attributes()
            elif self.text == "<":
                self.next()
                found.named |= self.attributes()
                self.expect(">")
            elif self.kind == "word":
                self._keyword(found)
            elif self.kind == "symbol":
                found.words.append(self.symbol())
            elif self.kind == "string":
                found.words.append(self.string())
            elif self.text == "[":
                found.words.append(self.attribute())
            elif not closed and self.accept(")"):
                closed = True
            elif not self.accept(","):
                self.unexpected("an operand, an attribute or ':'")

    def _begins(self) -> bool:
        """Whether the next word begins another operation: this one ended without types."""
        return self.kind == "word" and (
            self.text in ("return", "call", "loc") or self.text.startswith(DIALECTS)
        )

    def _keyword(self, found: Pretty) -> None:
        word = self.next()
        if not self.accept("="):
            found.words.append(word)
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
        found.named[word] = value


def shortened(name: str) -> str:
    """The name of an operation without `stablehlo.`; those of other dialects keep their prefix,
    except calls and returns.
    """
    if name in ("func.call", "call", "stablehlo.return", "func.return", "return"):
        return name.rpartition(".")[2]
    return name.removeprefix("stablehlo.")
