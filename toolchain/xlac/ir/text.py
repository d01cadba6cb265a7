"""Graphs as text, and back.

    graph softmax {
      x = param(name="x", type=f32[2, 3], kind="input")
      %1 = reduce(x) axes=(1,) combine="max" : f32[2]
      …
      return y=%5
    }

A graph's bodies come before it, `graph @1 name {…}`, and are named so in attributes. Values are
called as their origin where that is unique, else numbered. Arrays of more than eight elements are
written `@hash`, and kept in a table at the end, `@hash = f32[…] base64`. Symbolic sizes are
declared first: `dim B min=1 max=64 opt=32 multiple_of=1`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from xlac.ir import dims
from xlac.ir.dims import Sym, Symbol
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import Array
from xlac.ir.parse import Parser
from xlac.ir.types import Type
from xlac_sdk.dtypes import DType

INLINE = 8  # elements of an array that are written where it is used
PLAIN = re.compile(r"[A-Za-z_][\w.]*")


def show(graph: Graph, arrays: bool = True) -> str:
    """The text of a graph. Without `arrays` the table of large constants is left out (and it does
    not parse).
    """
    return Printer(arrays).document(graph)


def parse(text: str) -> Graph:
    """The graph of a text. Raises ValueError saying which line is wrong."""
    return Parser(text).document()


class Printer:
    """One graph being printed: its bodies, its large constants and its symbolic sizes are collected
    on the way.
    """

    def __init__(self, arrays: bool) -> None:
        self.arrays = arrays
        self.bodies: dict[Graph, int] = {}
        self.table: dict[str, Array] = {}
        self.symbols: dict[str, Symbol] = {}
        self.blocks: list[str] = []

    def document(self, graph: Graph) -> str:
        """Symbols, bodies, the graph, and the arrays too large to be written inline."""
        body = self.graph(graph, "")
        lines = [
            f"dim {s.name} min={s.min} max={s.max} opt={s.opt} multiple_of={s.multiple_of}"
            for _, s in sorted(self.symbols.items())
        ]
        lines += [*self.blocks, body]
        if self.arrays:
            for key, array in self.table.items():
                kept = Type(DType.of(array.dtype), array.shape)
                lines.append(
                    f"@{key} = {kept} "
                    f"{base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()}"
                )
        return "\n".join(lines) + "\n"

    def graph(self, graph: Graph, mark: str) -> str:
        """A graph from its head to its closing brace."""
        names = named(graph)
        lines = [f"graph {mark}{quoted(graph.name)} {{"]
        lines += [
            f"  {self.node(node, names)}" for node in walk((*graph.inputs, *graph.outputs.values()))
        ]
        lines.append(f"  inputs {' '.join(names[i] for i in graph.inputs)}".rstrip())
        lines.append(
            f"  return {' '.join(f'{quoted(k)}={names[v]}' for k, v in graph.outputs.items())}"
        )
        return "\n".join([*lines, "}"])

    def node(self, node: Node, names: Mapping[Node, str]) -> str:
        """One node on one line; attributes that are their defaults are left out."""
        kept = []
        for f in fields(node.op):
            value = getattr(node.op, f.name)
            default = f.default_factory() if f.default_factory is not MISSING else f.default
            if (
                isinstance(value, np.ndarray)
                or type(value) is not type(default)
                or value != default
            ):
                kept.append(f"{f.name}={self.value(value)}")
        for x in node.results:
            self.seen(x.shape)
        types = (
            str(node.types)
            if isinstance(node.types, Type)
            else f"({', '.join(map(str, node.types))})"
        )
        inputs = ", ".join(names[i] for i in node.inputs)
        origin = f" # {quoted(node.name)}" if node.name and names[node] != node.name else ""
        return (
            f"{names[node]} = {node.op.mnemonic}({inputs}) {' '.join([*kept, ''])}: {types}{origin}"
        )

    def value(self, value: Any) -> str:
        """An attribute. All but arrays and graphs are parsed by their form alone."""
        match value:
            case np.ndarray():
                return self.array(value)
            case Graph():
                if value not in self.bodies:
                    text = self.graph(value, f"@{len(self.bodies) + 1} ")
                    self.bodies[value] = len(self.bodies) + 1
                    self.blocks.append(text.replace(text.split()[1], f"@{self.bodies[value]}", 1))
                return f"@{self.bodies[value]}"
            case tuple():
                return f"({', '.join(map(self.value, value))}{',' if len(value) == 1 else ''})"
            case str():
                return quoted(value, always=True)
            case Sym():
                self.seen((value,))
                return f"[{value}]"
            case Type():
                self.seen(value.shape)
                return f"<{value}>"
            case DType():
                return value.value
            case bool() | int() | float() | None:
                return repr(value)
        if callable(value):  # of this process: for people to read
            return quoted(repr(value), always=True)
        raise TypeError(f"no text for an attribute {value!r}")

    def array(self, array: Array) -> str:
        """A small array with its elements, any other as the hash of its data."""
        kind = Type(DType.of(array.dtype), array.shape)
        if array.size <= INLINE:
            wide = array.astype(np.float64) if kind.dtype.is_float else array
            # decimal text would lose a NaN's bits
            if not (kind.dtype.is_float and np.isnan(wide).any()):
                return f"{{{kind} {' '.join(repr(v) for v in wide.reshape(-1).tolist())}}}"
        data = np.ascontiguousarray(array).tobytes()
        key = hashlib.sha256(f"{kind}".encode() + data).hexdigest()[:16]
        self.table[key] = array
        return f"@{key}"

    def seen(self, shape: dims.Shape) -> None:
        """Collects the symbols of a shape, to be declared by the document."""
        for size in shape:
            for s in dims.symbols(size):
                self.symbols[s.name] = s


def quoted(text: str, always: bool = False) -> str:
    """A name as it is where it is plain, else as a quoted string with escapes."""
    if not always and PLAIN.fullmatch(text) and text.isascii():
        return text
    inner = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\#' else f"\\u{{{ord(c):x}}}"
        for c in text
    )
    return f'"{inner}"'


def named(graph: Graph) -> dict[Node, str]:
    """A stable name for every node: its path in the model where only one node has it, else a
    number.
    """
    nodes = list(walk((*graph.inputs, *graph.outputs.values())))
    wanted: dict[str, int] = {}
    for node in nodes:
        wanted[node.name] = wanted.get(node.name, 0) + 1
    names: dict[Node, str] = {}
    for node in nodes:
        plain = (
            bool(PLAIN.fullmatch(node.name))
            and node.name.isascii()
            and node.name not in ("inputs", "return")
        )
        names[node] = node.name if plain and wanted[node.name] == 1 else f"%{len(names)}"
    return names
