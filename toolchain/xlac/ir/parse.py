"""Reads the text of graphs: see `text`, which writes it."""

from __future__ import annotations

import base64
import re
from importlib import import_module
from typing import Any

import numpy as np

from xlac.ir import dims
from xlac.ir.dims import Dim, Symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import OPS, Array, frozen_array
from xlac.ir.types import Type, Types
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

TOKEN = re.compile(
    r'\s+|"[^"]*"|@\w+|%\d+|[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|inf|nan)(?![\w.])|[A-Za-z_][\w.]*|//|[^\s]'
)


class Parser:
    """A cursor over the tokens of one line at a time."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.number = 0
        self.tokens: list[str] = []
        self.symbols: dict[str, Symbol] = {}
        self.bodies: dict[str, Graph] = {}
        self.table: dict[str, Array] = {}

    def document(self) -> Graph:
        """The graph of the whole text. Raises ValueError with the line of a mistake."""
        import_module("xlac.ops")  # registers the operations; nothing of it is used by name
        try:
            return self._document()
        except (ValueError, KeyError, IndexError, TypeError, AssertionError) as error:
            raise ValueError(f"line {self.number}: {error}") from error

    def _document(self) -> Graph:
        for line in self.lines:
            if line.startswith("@"):
                key, _, rest = line.partition(" = ")
                kind, _, data = rest.rpartition(" ")
                self._line(kind)
                wanted = self.type()
                array = np.frombuffer(base64.b64decode(data), wanted.dtype.numpy)
                self.table[key] = frozen_array(array.reshape(dims.static(wanted.shape)))
        document = None
        while (head := self._next()) is not None:
            if head.startswith("dim "):
                words = head.split()
                known = {k: int(v) for k, v in (w.split("=") for w in words[2:])}
                self.symbols[words[1]] = Symbol(words[1], **known)
            elif head.startswith("graph "):
                document = self.graph(head)
        if document is None:
            raise ValueError("there is no graph")
        return document

    def _next(self) -> str | None:
        while self.number < len(self.lines):
            line = self.lines[self.number].strip()
            self.number += 1
            if line and not line.startswith("@"):
                return line
        return None

    def _line(self, text: str) -> None:
        self.tokens = [t for t in TOKEN.findall(text) if not t.isspace()]

    def peek(self) -> str:
        """The next token of the line, "" at its end."""
        return self.tokens[0] if self.tokens else ""

    def take(self, wanted: str = "") -> str:
        """The next token of the line, which must be `wanted` where that is given. Raises ValueError
        otherwise.
        """
        if not self.tokens or (wanted and self.tokens[0] != wanted):
            raise ValueError(
                f"expected {wanted or 'more'}, found {self.peek() or 'the end of the line'}"
            )
        return self.tokens.pop(0)

    def graph(self, head: str) -> Graph:
        """A graph, from its head line to its closing brace."""
        self._line(head.removeprefix("graph "))
        mark = self.take() if self.peek().startswith("@") else ""
        name = unquoted(self.take())
        values: dict[str, Node] = {}
        inputs: tuple[Node, ...] = ()
        outputs: dict[str, Node] = {}
        while (line := self._next()) != "}":
            if line is None:
                raise ValueError(f"graph {name!r} does not end")
            self._line(line)
            if line == "inputs" or line.startswith("inputs "):
                inputs = tuple(values[t] for t in self.tokens[1:])
            elif line.startswith("return "):
                self.take("return")
                while self.tokens:
                    key = unquoted(self.take())
                    self.take("=")
                    outputs[key] = values[self.take()]
            else:
                self.node(values)
        graph = Graph(name, inputs, outputs)
        if mark:
            self.bodies[mark] = graph
        return graph

    def node(self, values: dict[str, Node]) -> None:
        """Parses a line `name = mnemonic(inputs) attributes : types` and enters the node in
        `values`.
        """
        name = self.take()
        self.take("=")
        cls = OPS[self.take()]
        self.take("(")
        inputs = []
        while self.peek() != ")":
            inputs.append(values[self.take()])
            if self.peek() == ",":
                self.take()
        self.take(")")
        attributes = {}
        while self.peek() != ":":
            key = self.take()
            self.take("=")
            attributes[key] = self.value()
        self.take(":")
        types = self.types()
        origin = Origin(name) if not name.startswith("%") else None
        if self.peek() == "#":
            self.take()
            origin = Origin(unquoted(self.take()))
        values[name] = Node(cls(**attributes), tuple(inputs), types, origin)

    def value(self) -> Any:
        """An attribute: a number, text, dtype, tuple, size, array or body."""
        token = self.take()
        if token.startswith('"'):
            return unquoted(token)
        if token.startswith("@"):
            return self.bodies[token] if token in self.bodies else self.table[token]
        if token == "(":
            items = []
            while self.peek() != ")":
                items.append(self.value())
                if self.peek() == ",":
                    self.take()
            self.take(")")
            return tuple(items)
        if token == "[":
            size = self.size()
            self.take("]")
            return size
        if token == "<":
            type_ = self.type()
            self.take(">")
            return type_
        if token == "{":
            return self.array()
        if token in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[token]
        if token in {d.value for d in DType}:
            return DType(token)
        return number(token)

    def array(self) -> Array:
        """The elements of a small array, after its opening brace."""
        kind = self.type()
        items = []
        while self.peek() != "}":
            token = self.take()
            items.append(token == "True" if token in ("True", "False") else number(token))
        self.take("}")
        with np.errstate(all="ignore"):
            held = np.array(items, kind.dtype.compute.numpy).astype(kind.dtype.numpy)
        return frozen_array(held.reshape(dims.static(kind.shape)))

    def types(self) -> Types:
        """One type, or several in parentheses."""
        if self.peek() != "(":
            return self.type()
        self.take("(")
        types = []
        while self.peek() != ")":
            types.append(self.type())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return tuple(types)

    def type(self) -> Type:
        """`f32[2,n]`."""
        dtype = DType(self.take())
        self.take("[")
        shape = []
        while self.peek() != "]":
            shape.append(self.size())
            if self.peek() == ",":
                self.take()
        self.take("]")
        return Type(dtype, tuple(shape))

    def size(self) -> Dim:
        """A sum of products of numbers, symbols and quotients."""
        total = self.product()
        while self.peek() and self.peek()[0] in "+-":
            sign = self.tokens[0]
            if sign in "+-":
                self.take()
                term = self.product()
                total = total + term if sign == "+" else total - term
            else:
                total = total + self.product()  # the sign belongs to the number
        return total

    def product(self) -> Dim:
        """Factors of a size with `*` between them."""
        product = self.factor()
        while self.peek() == "*":
            self.take()
            product = product * self.factor()
        return product

    def factor(self) -> Dim:
        """A number, a symbol, or a size in parentheses that `//` may divide."""
        token = self.take()
        if token == "(":
            inner = self.size()
            if self.peek() == "//":
                self.take()
                inner = inner // int(self.take())
            self.take(")")
            return inner
        if re.fullmatch(r"[-+]?\d+", token):
            return int(token)
        known = self.symbols[token]
        return dims.symbol(known.name, known.min, known.max, known.opt, known.multiple_of)


def number(token: str) -> int | float:
    """The number that a token is."""
    return int(token) if re.fullmatch(r"[-+]?\d+", token) else float(token)


def unquoted(token: str) -> str:
    """The text of a token without quotes and escapes."""
    if not token.startswith('"'):
        return token
    return re.sub(r"\\u\{([0-9a-f]+)\}", lambda m: chr(int(m[1], 16)), token[1:-1])
