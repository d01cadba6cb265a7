"""A TensorFlow Lite file: its sub-graphs, operators and signatures, checked as they are read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from xlac.frontends.tflite.file.flatbuffer import FlatBuffer, FlatBufferTable, MalformedFlatBuffer
from xlac.frontends.tflite.file.schema import schema
from xlac.frontends.tflite.file.tensors import TensorInfo, buffers, tensors
from xlac.ir.op import ShapeError
from xlac.support.dependencies import mapped
from xlac_sdk.source import Diagnostic, SourceError

IDENTIFIER = b"TFL3"
VERSION = 3
CUSTOM = "CUSTOM"


class OperatorEntry:
    """An operator of a sub-graph; fields are cached, as a sub-graph may be used often."""

    def __init__(self, table: FlatBufferTable) -> None:
        self.table = table

    @cached_property
    def inputs(self) -> list[int]:
        """The numbers of its inputs; -1 where one is omitted."""
        numbers: list[int] = self.table["inputs"]
        return numbers

    @cached_property
    def outputs(self) -> list[int]:
        """The numbers of its outputs."""
        numbers: list[int] = self.table["outputs"]
        return numbers

    @cached_property
    def options(self) -> FlatBufferTable | None:
        """Its options."""
        return self.table.union("builtin_options", "BuiltinOptions")


@dataclass(frozen=True)
class SubGraph:
    """A sub-graph: its tensors, the numbers of its inputs and outputs, its operators."""

    index: int
    name: str
    tensors: list[TensorInfo]
    inputs: list[int]
    outputs: list[int]
    operators: list[OperatorEntry]


@dataclass(frozen=True)
class Signature:
    """A named way to call a sub-graph: names of its inputs and outputs, with their tensors."""

    key: str
    graph: int
    inputs: dict[str, int]
    outputs: dict[str, int]


class ModelFile:
    """The model of a file. Raises SourceError for one that is malformed."""

    def __init__(self, path: Path | None, data: memoryview | None = None) -> None:
        self.path = path
        name = str(path) if path is not None else "the model"
        try:
            if data is None:
                assert path is not None
                data = mapped(path)
            if len(data) < 8 or bytes(data[4:8]) != IDENTIFIER:
                raise MalformedFlatBuffer("it does not begin with the identifier TFL3")
            self._file = FlatBuffer(data)
            self.table = self._file.root("Model")
            if self.table["version"] != VERSION:
                raise MalformedFlatBuffer(
                    f"it is of version {self.table['version']}; {VERSION} is read"
                )
            self.codes: list[FlatBufferTable] = self.table["operator_codes"]
            data_of = buffers(self._file, self.table)
            tables = self.table["subgraphs"]
            self.graphs = [_graph(number, graph, data_of) for number, graph in enumerate(tables)]
            if not self.graphs:
                raise MalformedFlatBuffer("it has no sub-graph")
            _ = self.signatures
        except (MalformedFlatBuffer, ShapeError) as error:
            raise SourceError(
                Diagnostic("XL7501", f"{name} is not a TensorFlow Lite model: {error}")
            ) from None
        except OSError as error:
            raise SourceError(
                Diagnostic("XL3001", f"{name} cannot be read: {error.strerror}")
            ) from None

    @cached_property
    def signatures(self) -> list[Signature]:
        """The signatures, in the file's order. Raises MalformedFlatBuffer."""
        signatures = []
        for table in self.table["signature_defs"]:
            names: list[dict[str, int]] = []
            for side in ("inputs", "outputs"):
                entries = [(entry["name"] or "", entry["tensor_index"]) for entry in table[side]]
                names.append(dict(entries))
                if len(names[-1]) != len(entries):
                    raise MalformedFlatBuffer(f"two {side} of a signature have one name")
            key, graph = table["signature_key"] or "", table["subgraph_index"]
            self.graph(graph)
            signatures.append(Signature(key, graph, names[0], names[1]))
        return signatures

    def graph(self, index: int) -> SubGraph:
        """A sub-graph by its number. Raises MalformedFlatBuffer."""
        if not 0 <= index < len(self.graphs):
            raise MalformedFlatBuffer(f"it names sub-graph {index} of {len(self.graphs)}")
        return self.graphs[index]

    def operator_name(self, operator: FlatBufferTable) -> tuple[str, bytes | None]:
        """The name of an operator, and for a custom one its options, otherwise None. Raises
        ShapeError.
        """
        index = operator["opcode_index"]
        if index >= len(self.codes):
            raise ShapeError(f"it is of kind {index}, and the model has {len(self.codes)}")
        code = self.codes[index]
        # files from before 2020 have the code in a byte; later files have 127 there if it is larger
        number = max(code["builtin_code"], code["deprecated_builtin_code"])
        name = schema().enums["BuiltinOperator"].get(number)
        if name is None:
            raise ShapeError(f"operator number {number} is unknown")
        if name != CUSTOM:
            return name, None
        start, size = operator["large_custom_options_offset"], operator["large_custom_options_size"]
        options = operator.bytes("custom_options")
        if start > 1:
            self._file.within(start, size)
            options = self._file.data[start : start + size]
        return code["custom_code"] or "", bytes(options) if options is not None else b""


def _graph(number: int, table: FlatBufferTable, data: list[memoryview | None]) -> SubGraph:
    graph = SubGraph(
        number,
        table["name"] or f"graph{number}",
        tensors(table, data),
        table["inputs"],
        table["outputs"],
        [OperatorEntry(operator) for operator in table["operators"]],
    )
    for index in (*graph.inputs, *graph.outputs):
        if not 0 <= index < len(graph.tensors):
            raise ShapeError(
                f"'{graph.name}' has tensor {index} as input or output, of {len(graph.tensors)}"
            )
    return graph
