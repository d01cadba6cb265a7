"""Parser of modules and functions in MLIR text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xlac.frontends.stablehlo.text import literals
from xlac.frontends.stablehlo.text.errors import MlirSource
from xlac.frontends.stablehlo.text.operations import OperationReader
from xlac.frontends.stablehlo.text.syntax import (
    FunctionType,
    MlirFunction,
    Module,
    Operation,
    Raw,
    ValueType,
)


def parse(source: MlirSource) -> Module:
    """Parses a text: `module { ... }`, or functions alone. Raises SourceError, LimitError."""
    return ModuleParser(source).module()


class ModuleParser(OperationReader):
    """Parses a whole module, whose functions hold regions of operations."""

    def module(self) -> Module:
        """The whole text."""
        self._read_resources()
        self.parsed = Module("main", {})
        while self.kind != "end":
            if self.text == "{-#":
                break
            self._top()
        return self.parsed

    def _read_resources(self) -> None:
        """`{-# dialect_resources: {builtin: {name: "0x..."}} #-}` at the end of the text, which
        constants before it refer to.
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
                    data = self.trying(lambda: literals.hexadecimal(self.text[3:-1]), self.at)
                    self.resources[name] = data[4:]  # the first four bytes are the alignment
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
        elif self.text == "sdy.mesh" and self.kind == "word":
            self._mesh()
        elif self.text.startswith("sdy.") and self.kind == "word":
            self._skip_line()
        elif self.kind in ("string", "value"):
            self._generic_top(self.operation())
        else:
            self.unexpected("a module or a function")

    def _mesh(self) -> None:
        """`sdy.mesh @mesh = <["data"=2, "model"=4]>`, which attributes may follow."""
        self.next()
        name = self.symbol().name
        self.expect("=")
        if self.text != "<":
            self.unexpected("'<'")
        self.parsed.meshes[name] = self.balanced()
        if self.text == "{":
            self.attributes()
        self._location()

    def _skip_line(self) -> None:
        end = self.all.find("\n", self.at)
        self.seek(len(self.all) if end < 0 else end)

    def _module(self) -> None:
        self.next()
        if self.kind == "symbol":
            self.parsed.name = self.symbol().name
        if self.accept("attributes"):
            self.parsed.attributes = self.attributes()
        self.expect("{")
        with self.deeper():
            while not self.accept("}"):
                if self.kind == "end":
                    self.unexpected("'}'")
                self._top()
        self._location()

    def _add(self, function: MlirFunction) -> None:
        if function.name in self.parsed.functions:
            self.source.fail(
                "XL7204", f"there are two functions called {function.name[:80]!r}", function.at
            )
        self.parsed.functions[function.name] = function

    def _function(self) -> None:
        at = self.at
        self.next()
        private = self.text in ("private", "nested")
        if self.text in ("public", "private", "nested"):
            self.next()
        name = self.symbol().name
        self.expect("(")
        listed = self.listed(")", self.argument)
        results: list[tuple[ValueType, dict[str, Any]]] = []
        if self.accept("->"):
            results = self._typed_results()
        if self.accept("attributes"):
            self.attributes()
        if self.text != "{":
            self.source.fail("XL7202", f"function {name[:80]!r} has no body", at)
        body = self.region([(name, type) for name, type, _ in listed])
        self._location()
        self._add(
            MlirFunction(
                name,
                body.arguments,
                [given for _, _, given in listed],
                tuple(type for type, _ in results),
                body,
                at,
                private,
                tuple(given for _, given in results),
            )
        )

    def _typed_results(self) -> list[tuple[ValueType, dict[str, Any]]]:
        """The types of a function's results, each with its attributes."""

        def one() -> tuple[ValueType, dict[str, Any]]:
            type: ValueType = self.type()
            return type, self.attributes() if self.text == "{" else {}

        return self.listed(")", one) if self.accept("(") else [(self.type(), {})]

    def _generic_top(self, operation: Operation) -> None:
        """`"builtin.module"() ({...})`, and in it `"func.func"() <{...}> ({...})`."""
        given = operation.attributes
        name = given.get("sym_name", "main")
        if operation.name == "builtin.module" and operation.regions:
            self.parsed.name, self.parsed.attributes = name, given
            for inner in operation.regions[0].operations:
                self._generic_top(inner)
            return
        type = given.get("function_type")
        if operation.name == "sdy.mesh":
            mesh = given.get("mesh")
            self.parsed.meshes[name] = mesh.text if isinstance(mesh, Raw) else ""
            return
        if (
            operation.name != "func.func"
            or not operation.regions
            or not isinstance(type, FunctionType)
        ):
            self.source.fail(
                "XL7201", f"expected a function, found {operation.name[:60]}", operation.at
            )
        body = operation.regions[0]
        named, results = (dicts(given.get(key)) for key in ("arg_attrs", "res_attrs"))
        self._add(
            MlirFunction(
                name,
                body.arguments,
                named,
                type.gives,
                body,
                operation.at,
                given.get("sym_visibility") == "private",
                tuple(results),
            )
        )


def dicts(given: object) -> list[Mapping[str, Any]]:
    """Attributes of each argument or result, as an attribute lists them; none for what is no
    dictionary.
    """
    listed = given if isinstance(given, list) else []
    return [each if isinstance(each, dict) else {} for each in listed]
