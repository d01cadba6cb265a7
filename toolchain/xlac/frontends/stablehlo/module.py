"""From a file to a model: reading, sizes of inputs, and the conversion of values at the
interface.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import xlac.frontends.stablehlo.ops  # noqa: F401  # fills the table
from xlac.frontends.produced import verified
from xlac.frontends.sizes import known_sizes
from xlac.frontends.stablehlo.bytecode.read import is_bytecode, text_of
from xlac.frontends.stablehlo.importer import StablehloImporter, unsupported
from xlac.frontends.stablehlo.produced import PRODUCED
from xlac.frontends.stablehlo.ranks.exported import with_computations
from xlac.frontends.stablehlo.ranks.gspmd import with_named_axes
from xlac.frontends.stablehlo.scope import Unequal
from xlac.frontends.stablehlo.shardy import divided, sharding_of
from xlac.frontends.stablehlo.sizes import ArgumentSizes, LearnedSizes, StatedSizes
from xlac.frontends.stablehlo.table import REFUSED, TABLE
from xlac.frontends.stablehlo.text.errors import TEXT, MlirSource
from xlac.frontends.stablehlo.text.parser import parse
from xlac.frontends.stablehlo.text.syntax import MlirFunction, Module, TensorType, ValueType
from xlac.frontends.stablehlo.values import Several, Token, TypedTensor, Value
from xlac.ir.dims import Dim, Shape, Sym, Symbol, symbols
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import MeshSection, Model, SaidSharding
from xlac.ops import build
from xlac.ops.tensor.leaf import param
from xlac.support.dependencies import note
from xlac_sdk.host.array_values import as_array
from xlac_sdk.source import Diagnostic, Origin, SourceError, UnsupportedError

EFFECTS = "effects"  # the last output of a program that calls Python functions for their effects
ROUNDS = 1000  # the most sizes that may be unified, each of which restarts the import


def load(
    source: Path | str | bytes, dims: Mapping[str, Any], params: Mapping[str, object]
) -> Model:
    """See `xlac.frontends.stablehlo.load`."""
    read = opened(source)
    module = with_computations(with_named_axes(parse(read)))
    unsupported(read, module, TABLE, REFUSED)
    main = entry(read, module)
    learned = LearnedSizes()
    for _ in range(ROUNDS):
        sizes = ArgumentSizes(read, main.at, dims, learned)
        attempt = Import(read, module, main, sizes, params)
        try:
            model = attempt.model()
        except Unequal as unequal:
            united(learned.equal, unequal, read, main)
            learned.narrow(attempt.importer.asserted)
        except (SourceError, UnsupportedError):
            if not learned.narrow(attempt.importer.asserted):
                raise
        else:
            if not learned.narrow(attempt.importer.asserted):
                if not params:  # else sizes of arguments that are fixed may be given too
                    known_sizes(dims, sizes.met)
                return model
    raise SourceError(
        Diagnostic("XL7212", "its sizes depend on each other in a cycle", read.span(main.at))
    )


def opened(source: Path | str | bytes) -> MlirSource:
    """The text of a file or of bytecode; text itself is returned."""
    if isinstance(source, str):
        return MlirSource(source)
    file = source if isinstance(source, Path) else TEXT
    try:
        data = note(source).read_bytes() if isinstance(source, Path) else source
    except OSError as error:
        raise SourceError(Diagnostic("XL3001", f"cannot read {file}: {error.strerror}")) from None
    if is_bytecode(data):
        return MlirSource(text_of(data, file), TEXT)
    try:
        return MlirSource(data.decode(), file)
    except UnicodeDecodeError as error:
        raise SourceError(
            Diagnostic(
                "XL7201", f"{file} is neither text nor bytecode: byte {error.start} is not UTF-8"
            )
        ) from None


def entry(source: MlirSource, module: Module) -> MlirFunction:
    """The model's function: main, or the only public one."""
    if "main" in module.functions:
        return module.functions["main"]
    public = [function for function in module.functions.values() if not function.private]
    if len(public) != 1:
        source.fail("XL7207", "there is no function 'main', nor one public function", 0)
    return public[0]


def united(equal: dict[str, Dim], unequal: Unequal, source: MlirSource, main: MlirFunction) -> None:
    """Substitutes one symbol of an unsatisfied equation so that the equation holds."""
    first, second = unequal.first, unequal.second
    for one, other in ((first, second), (second, first)):
        alone = lone(one)
        if alone is not None and alone not in symbols(other):
            equal[alone.name] = other
            return
    source.fail(
        "XL7212",
        f"sizes {first} and {second} would have to be equal",
        main.at,
        hint="fix them with dims",
    )


def is_name(info: str) -> bool:
    """Whether the text for a result is a name, as `xlac export` writes it: not JAX's `result`, a
    path in a tree, or a name that results without one have.
    """
    return info.isidentifier() and info != "result" and not re.fullmatch(r"out\d+", info)


def labelled(main: MlirFunction) -> list[tuple[str, ValueType, StatedSizes]]:
    """The arguments of a function: their names, as `xlac.name` states them where all do, their
    types, and what their attributes `xlac.sizes` and `xlac.opt` state.
    """
    # a block of its own in the body may have other arguments than the head
    count = len(main.arguments)
    attributes = [*main.attributes, *[{}] * count][:count]
    stated = [given.get("xlac.name") for given in attributes]
    known = all(isinstance(n, str) and n for n in stated) and len({*stated}) == len(stated)
    return [
        (
            str(name) if known else value.lstrip("%"),
            type,
            StatedSizes(given.get("xlac.sizes"), given.get("xlac.opt")),
        )
        for name, (value, type), given in zip(stated, main.arguments, attributes, strict=True)
    ]


def result_names(main: MlirFunction, count: int) -> list[str]:
    """The names that the text states for results, "" where it states none: all of them as
    `xlac.name`, or some as `jax.result_info`.
    """
    given = main.results if len(main.results) == count else ({},) * count
    names = [each.get("xlac.name") for each in given]
    if all(isinstance(n, str) and n for n in names) and len({*names}) == count:
        return [str(name) for name in names]
    infos = [info if isinstance(info := each.get("jax.result_info"), str) else "" for each in given]
    return [info if is_name(info) and infos.count(info) == 1 else "" for info in infos]


def lone(size: Dim) -> Symbol | None:
    """The symbol that a size consists of; None for other expressions."""
    open_symbols = symbols(size)
    if len(open_symbols) != 1:
        return None
    (only,) = open_symbols
    return only if size == Sym((((only,), 1),)) else None


class Import:
    """One attempt to import; sizes that are known to be equal share one symbol."""

    def __init__(
        self,
        source: MlirSource,
        module: Module,
        main: MlirFunction,
        sizes: ArgumentSizes,
        params: Mapping[str, object],
    ) -> None:
        self.source, self.main = source, main
        self.sizes, self.params = sizes, dict(params)
        self.importer = StablehloImporter(source, module, TABLE)
        self.inputs: list[Node] = []

    def model(self) -> Model:
        """The model of the module's main function. Raises SourceError, UnsupportedError."""
        arguments = [self._argument(*each) for each in labelled(self.main)]
        if self.params:
            name = next(iter(self.params))
            self.source.fail("XL6001", f"there is no input {name!r} to fix", self.main.at)
        results = self.importer.body(self.main, arguments)
        outputs: dict[str, Node] = {}
        names = result_names(self.main, len(results))
        for value, stated in zip(results, names, strict=True):
            for tensor in tensors_in(value):
                name = f"out{len(outputs)}"
                if isinstance(value, TypedTensor) and stated:
                    name = stated
                outputs[fresh(name, outputs)] = self._output(outward(tensor), name)
        if self.importer.effect is not None:
            outputs[fresh(EFFECTS, outputs)] = self.importer.effect
        if not outputs:
            self.source.fail("XL7207", "the function gives no tensor", self.main.at)
        name = self.importer.module.name.strip("@") or "main"
        graph = verified(Graph(name, tuple(self.inputs), outputs), PRODUCED, "StableHLO")
        open_ = {
            s.name: s
            for node in (*graph.nodes(), *graph.inputs)
            for t in node.results
            for size in t.shape
            for s in symbols(size)
        }
        return Model(graph, {}, open_, ranks=self._section())

    def _section(self) -> MeshSection | None:
        """The mesh of the module, and how arguments are divided; None where it has none."""
        mesh = self.importer.mesh
        if mesh is None:
            return None
        said = {}
        inputs = {param(node).name: node for node in self.inputs}
        for (label, type, _), given in zip(labelled(self.main), self.main.attributes, strict=False):
            if label in inputs and isinstance(type, TensorType) and not type.element.complex:
                axes = divided(sharding_of(given), mesh, inputs[label].shape)
                if axes is not None:
                    said[label] = SaidSharding(axes, self.source.span(self.main.at))
        return MeshSection(dict(mesh[1]), said)

    def _output(self, node: Node, name: str) -> Node:
        return node

    def _argument(self, label: str, type: ValueType, stated: StatedSizes) -> Value:
        if isinstance(type, TensorType):
            return self._input(label, type, stated)
        if not hasattr(type, "items"):
            return Token()
        return Several(
            tuple(
                self._argument(f"{label}_{n}", item, StatedSizes())
                for n, item in enumerate(type.items)  # type: ignore[union-attr]
            )
        )

    def _input(self, label: str, type: TensorType, stated: StatedSizes) -> TypedTensor:
        shape = self.sizes.shape(label, type, stated)
        whole: Shape = (*shape, 2) if type.element.complex else shape
        outer = Type(type.element.dtype, whole)
        if label in self.params:
            node = self._fixed(label, outer)
        else:
            node = build.param(
                label, outer.dtype, whole, origin=Origin(label, self.source.span(self.main.at))
            )
            self.inputs.append(node)
        return inward(node, type)

    def _fixed(self, label: str, type: Type) -> Node:
        array = as_array(self.params.pop(label), type.dtype)
        if np.iscomplexobj(array):
            array = np.stack([array.real, array.imag], -1)
        if array.shape != type.shape or array.dtype != type.dtype.numpy:
            self.source.fail(
                "XL6003",
                f"input {label!r} is {type}, not {array.dtype}{list(array.shape)}",
                self.main.at,
            )
        return build.constant(array)


def fresh(name: str, taken: Mapping[str, Node]) -> str:
    """A name that no output has."""
    while name in taken:
        name += "_"
    return name


def inward(node: Node, type: TensorType) -> TypedTensor:
    """Converts an input from the caller's representation: a complex one is split into parts."""
    if not type.element.complex:
        return TypedTensor(type.element, (node,))
    last = node.type.rank - 1
    parts = (build.reshape(build.cut(node, last, n, n + 1), node.shape[:-1]) for n in (0, 1))
    return TypedTensor(type.element, tuple(parts))


def outward(value: TypedTensor) -> Node:
    """Converts a result to the caller's representation: parts of complex numbers along a
    last axis.
    """
    if not value.element.complex:
        return value.node
    return build.concat(
        [build.reshape(part, (*part.shape, 1)) for part in value.parts], len(value.shape)
    )


def tensors_in(value: Value) -> list[TypedTensor]:
    """The tensors of a value, including those in tuples."""
    if isinstance(value, Several):
        return [tensor for item in value.items for tensor in tensors_in(item)]
    return [value] if isinstance(value, TypedTensor) else []
