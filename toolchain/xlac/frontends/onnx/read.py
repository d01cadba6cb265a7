"""Imports a whole ONNX model: inputs, weights, nodes, outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import xlac.frontends.onnx.ops  # noqa: F401 - registers the operators
from xlac.frontends.onnx.file.files import Files
from xlac.frontends.onnx.graph.interface import Inputs, Outputs
from xlac.frontends.onnx.importer import OnnxImporter
from xlac.frontends.onnx.problems import check_text, check_versions, unknown
from xlac.frontends.onnx.produced import PRODUCED
from xlac.frontends.produced import verified
from xlac.frontends.sizes import Symbols
from xlac.ir.graph import Graph
from xlac.model import Interface, Model, Undecided
from xlac_sdk.source import Diagnostic, LimitError, SourceError
from xlac_sdk.support.limits import within

BOUNDS = "xlac.size."  # keys of metadata that bound sizes, as `xlac export` writes them
TRIED = (1, 2, 3, 4, 8)
# the most operations that are made to try sizes: some, and more for each node of the file, so that
# at least one set of sizes is tried of any model
TRIED_OPERATIONS, FOR_EACH_NODE = 100_000, 30


def read(
    source: Path | Any,
    dims: Mapping[str, int | str],
    params: Mapping[str, object],
    allow_outside: bool,
) -> Model:
    """The model. Raises SourceError with every problem, or Undecided if sizes depend on values of
    inputs.
    """
    files = Files(source, allow_outside) if isinstance(source, Path) else Files()
    proto = files.model() if isinstance(source, Path) else source
    try:
        return _read(proto, files, dims, params)
    except RecursionError:
        raise SourceError(
            Diagnostic("XL7007", "the model's graphs and functions are nested too deeply")
        ) from None


@dataclass(frozen=True, slots=True)
class Imported:
    """A model whose nodes are all built: `importer.scope.values` has the values of all names of its
    main graph.
    """

    importer: OnnxImporter
    inputs: Inputs
    symbols: Symbols
    results: tuple[str, ...]


def _read(
    proto: Any, files: Files, dims: Mapping[str, int | str], params: Mapping[str, object]
) -> Model:
    read = imported(proto, files, dims, params)
    outputs = Outputs()
    for name in read.results:
        outputs.add(name, read.importer.scope.find(name))
    graph = proto.graph
    imported_graph = Graph(graph.name or "model", tuple(read.inputs.nodes), outputs.nodes)
    return Model(
        verified(imported_graph, PRODUCED, "ONNX"),
        read.importer.weights,
        dims=read.symbols.open(),
        doc=graph.doc_string or proto.doc_string,
        extents=outputs.extents,
        forms=outputs.forms if outputs.formed else {},
    )


def imported(
    proto: Any, files: Files, dims: Mapping[str, int | str], params: Mapping[str, object]
) -> Imported:
    """Builds every node of a model's graph. Raises as `read`."""
    check_versions(proto)
    importer = OnnxImporter(proto, files)
    graph = proto.graph
    importer.initializers(graph)
    asked = [info for info in graph.input if info.name not in importer.scope.values]
    symbols = Symbols(dims, _ranges(proto))
    inputs = Inputs(params, symbols)
    names = tuple(info.name for info in asked)
    results = tuple(info.name for info in graph.output)
    check_text(*names, *results, graph.name, graph.doc_string, proto.doc_string)
    unknown(params, names)
    for kind, listed in (("inputs", names), ("outputs", results)):
        if twice := [name for name, n in Counter(listed).items() if n > 1]:
            raise SourceError(Diagnostic("XL7008", f"two {kind} are called '{twice[0]}'"))
    if not results:
        raise SourceError(Diagnostic("XL7001", "the graph has no outputs"))
    for info in asked:
        importer.scope.values[info.name] = inputs.value(info)
    if not params:  # else sizes of inputs that are fixed may be given too
        symbols.check()
    importer.run(graph.node)
    missing = [name for name in results if name not in importer.scope.values]
    importer.problems += [
        Diagnostic("XL7004", f"the output '{name}' is not a value of the graph") for name in missing
    ]
    if (
        importer.problems
        and symbols.open()
        and _sizes_decide(proto, files, dims, params, list(symbols.open()), importer.problems)
    ):
        raise Undecided(
            Interface(tuple(inputs.nodes), names, results, formed=frozenset(inputs.formed)),
            [importer.problems[0].message],
        )
    if importer.problems:
        raise SourceError(*importer.problems)
    if importer.needed or inputs.undecided:
        interface = Interface(
            tuple(inputs.nodes),
            names,
            results,
            frozenset(importer.needed),
            frozenset(inputs.formed),
        )
        raise Undecided(interface)
    return Imported(importer, inputs, symbols, results)


def _ranges(proto: Any) -> dict[str, str]:
    """The ranges of sizes that a model's metadata state: `xlac.size.batch` is `1..8`."""
    return {
        entry.key.removeprefix(BOUNDS): entry.value
        for entry in proto.metadata_props
        if entry.key.startswith(BOUNDS)
    }


def guesses(names: Sequence[str]) -> Iterator[dict[str, int]]:
    """Sizes that may suit a model whose operators need them to be static: all equal, to match sizes
    in attributes and to be divisible into groups and heads; then one of them doubled (such as two
    offsets per position, or more query heads).
    """
    same = [dict.fromkeys(names, size) for size in TRIED]
    doubled = ({**sizes, name: 2 * sizes[name]} for sizes in same for name in names)
    yield from chain(same, doubled)


def _sizes_decide(
    proto: Any,
    files: Files,
    dims: Mapping[str, int | str],
    params: Mapping[str, object],
    names: Sequence[str],
    problems: Sequence[Diagnostic],
) -> bool:
    """Whether a model whose open sizes `names` prevent its import might be imported with others, as
    far as a bounded number of operations tells: with some of the guesses it is; or none of what is
    wrong is wrong with each of them too, word for word, as what sizes have no part in is.
    """
    most = TRIED_OPERATIONS + FOR_EACH_NODE * len(proto.graph.node)
    always = {problem.message for problem in problems}
    tried = 0
    try:
        with within(operations=most):
            for sizes in guesses(names):
                wrong = _wrong(proto, files, {**dims, **sizes}, params)
                if not wrong:
                    return True
                always &= wrong
                tried += 1
    except LimitError:
        pass
    return tried > 0 and not always


def _wrong(
    proto: Any, files: Files, dims: Mapping[str, int | str], params: Mapping[str, object]
) -> set[str]:
    """What prevents the import of a model with these sizes; nothing if it could be imported."""
    try:
        _read(proto, files, dims, params)
    except Undecided:
        return set()
    except SourceError as error:
        return {problem.message for problem in error.diagnostics}
    return set()
