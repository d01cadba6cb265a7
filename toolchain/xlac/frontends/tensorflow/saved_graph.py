"""What the file of a SavedModel says without TensorFlow: its signatures, and which of their
operations have no form in StableHLO. Nothing is executed; field numbers are those of
saved_model.proto, meta_graph.proto, graph.proto, node_def.proto, function.proto and types.proto.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xlac.support.dependencies import mapped
from xlac.support.file_kinds import SAVED_MODEL
from xlac.support.protobuf import MalformedProtobuf, ProtobufMessage
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.choices import nearest

DEFAULT = "serving_default"
SERVING = "serve"  # the tag of the graph that is loaded
TYPES = {
    1: "f32", 2: "f64", 3: "i32", 4: "u8", 5: "i16", 6: "i8", 7: "text", 8: "c64", 9: "i64",
    10: "bool", 14: "bf16", 17: "u16", 18: "c128", 19: "f16", 20: "resource", 21: "variant",
    22: "u32", 23: "u64",
}  # fmt: skip
"""Names of the element types in DataType."""
TEXT = 7
UNSUPPORTED = {
    "it works on text": """
        StringLength StringSplit StringSplitV2 StringLower StringUpper StringStrip StringToNumber
        StringToHash.* StringNGrams Substr Regex.* StaticRegex.* Unicode.* DecodeBase64 EncodeBase64
    """,
    "it works on a table of text or numbers": """
        HashTable.* MutableHashTable.* LookupTable.* InitializeTable.*
    """,
    "it decodes bytes": """
        ReadFile WriteFile DecodeJpeg DecodePng DecodeImage DecodeCSV DecodeRaw DecodeWav
        ParseExample.* ParseSequenceExample.* ParseSingle.*
    """,
    "it calls Python": "PyFunc.* EagerPyFunc",
}
"""By the reason, patterns of operations that TensorFlow does not lower to StableHLO."""


@dataclass(frozen=True, slots=True)
class SavedSignature:
    """A signature: its inputs and outputs by name, with their types as text, and the names of the
    graph's tensors that are its outputs.
    """

    name: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    texts: tuple[str, ...]  # inputs and outputs that are text
    results: tuple[str, ...]

    def __str__(self) -> str:
        sides = [", ".join(f"{n}: {t}" for n, t in s.items()) for s in (self.inputs, self.outputs)]
        return f"{self.name}({sides[0]}) -> {sides[1]}"


class SavedGraph:
    """The graph of a SavedModel. Raises SourceError for a folder that is not one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            saved = ProtobufMessage(mapped(folder / SAVED_MODEL))
            graphs = saved.messages(2)
            serving = [g for g in graphs if any(SERVING in info.texts(4) for info in g.messages(1))]
            if not graphs:
                raise MalformedProtobuf("it has no graph")
            self._read((serving or graphs)[0])
        except MalformedProtobuf as error:
            raise self._malformed(str(error)) from None
        except OSError as error:
            raise self._malformed(error.strerror or str(error)) from None

    def _read(self, meta: ProtobufMessage) -> None:
        self.signatures = {
            name: _signature(name, entry)
            for name, entry in meta.entries(5).items()
            if not name.startswith("__saved_model")
        }
        self._nodes: dict[str, ProtobufMessage] = {}
        self._functions: dict[str, list[ProtobufMessage]] = {}
        for graph in meta.messages(2):
            self._nodes |= {node.text(1): node for node in graph.messages(1)}
            for library in graph.messages(2):
                for function in library.messages(1):
                    name = next((s.text(1) for s in function.messages(1)), "")
                    self._functions[name] = function.messages(3)

    def signature(self, name: str) -> SavedSignature:
        """A signature by name. Raises SourceError, with the names there are."""
        if name not in self.signatures:
            known = tuple(self.signatures)
            hint = nearest(name, known, f"it has: {', '.join(known) or 'none'}")
            raise SourceError(
                Diagnostic("XL7702", f"{self.folder} has no signature '{name}'", hint=hint)
            )
        return self.signatures[name]

    def check(self, signature: SavedSignature) -> None:
        """Raises SourceError with every operation of the signature that TensorFlow does not lower,
        as far as their names say so, and every input or output that is text.
        """
        problems = [
            Diagnostic("XL7703", f"{signature.name}: '{name}' is text, which has no numbers")
            for name in signature.texts
        ]
        try:
            for node, place in self._reachable(signature.results):
                reason = _unsupported(node.text(2))
                if reason:
                    what = f"operation '{node.text(1)[:200]}' ({node.text(2)[:100]})"
                    problem = f"{signature.name}: {place}{what} is not supported: {reason}"
                    problems.append(Diagnostic("XL7703", problem))
        except MalformedProtobuf as error:
            raise self._malformed(str(error)) from None
        if problems:
            raise SourceError(*problems)

    def _malformed(self, problem: str) -> SourceError:
        what = f"{self.folder} is not a SavedModel: {SAVED_MODEL}: {problem}"
        return SourceError(Diagnostic("XL7702", what))

    def _reachable(self, results: tuple[str, ...]) -> Iterator[tuple[ProtobufMessage, str]]:
        """The operations that some tensors of the graph depend on, and those of the functions that
        these call, each once, with the name of its function.
        """
        seen, called = set(), set()
        nodes, functions = list(map(_node_of, results)), []
        while nodes:
            name = nodes.pop()
            node = self._nodes.get(name)
            if name in seen or node is None:
                continue
            seen.add(name)
            nodes += map(_node_of, node.texts(3))
            functions += _functions_of(node)
            yield node, ""
        while functions:
            name = functions.pop()
            if name in called:
                continue
            called.add(name)
            for node in self._functions.get(name, []):
                functions += _functions_of(node)
                yield node, f"in {name[:100]}: "


def _unsupported(operation: str) -> str:
    """Why TensorFlow does not lower an operation; "" if nothing is known against it."""
    for reason, patterns in UNSUPPORTED.items():
        if any(re.fullmatch(pattern, operation) for pattern in patterns.split()):
            return reason
    return ""


def _signature(name: str, entry: ProtobufMessage) -> SavedSignature:
    sides = [entry.entries(1), entry.entries(2)]
    inputs, outputs = ({key: _type(info) for key, info in sorted(side.items())} for side in sides)
    texts = tuple(key for side in sides for key, info in side.items() if info.number(2) == TEXT)
    return SavedSignature(
        name, inputs, outputs, texts, tuple(info.text(1) for info in sides[1].values())
    )


def _type(info: ProtobufMessage) -> str:
    """The type of a TensorInfo, as `f32[?, 4]`."""
    element = TYPES.get(info.number(2), f"type {info.number(2)}")
    for shape in info.messages(3):
        if shape.number(3):
            return f"{element}[…]"
        sizes = [size.number(1) for size in shape.messages(2)]
        return f"{element}[{', '.join('?' if n < 0 else str(n) for n in sizes)}]"
    return f"{element}[]"


def _node_of(tensor: str) -> str:
    """The name of the node behind a tensor (`a:0`) or a control input (`^a`)."""
    return tensor.removeprefix("^").partition(":")[0]


def _functions_of(node: ProtobufMessage) -> list[str]:
    """The functions that an operation calls: attributes that are functions or lists of them."""
    values = [value for entry in node.messages(5) for value in entry.messages(2)]
    lists = [one for value in values for one in value.messages(1)]
    called = [f for value in values for f in value.messages(10)]
    called += [f for one in lists for f in one.messages(9)]
    return [function.text(1) for function in called]
