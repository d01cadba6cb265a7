"""Opens the models given by options and files."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from xlac.training.graphs import TrainingGraphs


def open_model(
    choice: Any, ranges: Container[str] = (), quiet: bool = False, mesh: str | None = None
) -> Any:
    """The model given by the options, with open sizes other than `ranges` fixed at their `opt`
    (printed on standard error). For a spec that trains, the graph of `choice.entry`, of ranks of a
    `mesh`; where that is not given, of `choice.usual` (printed too), if there is one.
    """
    return opened(choice, ranges, quiet, mesh=mesh)[0]


def opened(
    choice: Any,
    ranges: Container[str] = (),
    quiet: bool = False,
    known_sizes: Callable[[Any], Mapping[str, int]] | None = None,
    mesh: str | None = None,
) -> tuple[Any, TrainingGraphs | None]:
    """As `open_model`, with the graphs of training, where an entry is requested. `known_sizes`
    gives the known open sizes of the model.
    """
    from xlac.frontends.loader import as_precise, load
    from xlac.passes.checks.insert import watched
    from xlac.spec.load import TrainedSpec
    from xlac.support.failures import kinds

    graphs: TrainingGraphs | None = None
    try:
        model = load(
            choice.spec,
            dims=choice.options.dims,
            params=choice.options.params,
            allow_outside=choice.allow_outside,
            signature=choice.options.signature,
            trusted=choice.trusted,
            precision=choice.options.precision,
        )
    except TrainedSpec as spec:
        entry = choice.entry or choice.usual
        if entry is None:
            raise
        if choice.entry is None and not quiet:
            others = "--entry evaluate or run chooses another"
            click.echo(f"note: entry {entry}, of a spec that trains ({others})", err=True)
        from xlac.training.program import graphs_of

        precise = as_precise(spec.model, choice.options.precision)
        graphs = graphs_of(precise, spec.training, mesh)
        model = graphs.entry(entry)
    if choice.entry not in (None, "run") and graphs is None:
        from xlac_sdk.source import Diagnostic, UnsupportedError

        problem = f"{choice.spec.name} has no section `train`, and so no {choice.entry}"
        raise UnsupportedError(Diagnostic("XL5030", problem, hint="leave --entry out"))
    model = replace(model, allow_kernels=choice.options.allow_kernels)
    sizes = known_sizes(model) if known_sizes is not None else {}
    placed = choice.options.placing(closed(model, ranges, quiet, sizes))  # sizes may decide that
    return watched(placed, kinds(choice.options.checked)), graphs


def model_of_mesh(choice: Any) -> Callable[[Any], Any] | None:
    """What opens the model for the ranks of a mesh, where it depends on that: a spec that trains
    with statistics of the ranks' own. None for others.
    """
    from xlac.frontends.loader import load
    from xlac.spec.load import TrainedSpec

    if (choice.entry or choice.usual) is None:
        return None
    try:
        load(choice.spec, dims=choice.options.dims, params=choice.options.params)
    except TrainedSpec as spec:
        if spec.training.statistics == "local":
            return lambda mesh: open_model(choice, quiet=True, mesh=str(mesh))
    return None


def supplied(
    choice: Any, given: dict[str, str], archive: Path | None, seed: int
) -> tuple[Any, TrainingGraphs | None, dict[str, Any]]:
    """A model with the sizes of the user's inputs, and an array for each input: the user's, or
    random.
    """
    from xlac.cli.inputs import brought, gather, sizes_of, value
    from xlac.model import Undecided

    decided: frozenset[str] = frozenset()
    while True:
        try:
            sizes = partial(sizes_of, given=given, archive=archive, decided=decided)
            model, graphs = opened(choice, known_sizes=sizes)
            return model, graphs, gather(model, given, archive, seed, decided)
        except Undecided as undecided:  # the values of inputs that determine sizes
            arrays = brought(undecided.interface.inputs, given, archive)
            wanted = undecided.interface.values - decided
            if not wanted or not wanted <= arrays.keys():
                raise
            values = {name: value(arrays[name]) for name in wanted}
            options = replace(choice.options, params={**choice.options.params, **values})
            choice, decided = replace(choice, options=options), decided | wanted


def closed(
    model: Any,
    ranges: Container[str] = (),
    quiet: bool = False,
    sizes: Mapping[str, int] | None = None,
) -> Any:
    """A model with open sizes other than `ranges` fixed: to `sizes`, others to their `opt`, which
    is printed unless `quiet`.
    """
    from xlac.driver import specialized
    from xlac.passes.narrow import unfixed

    known = sizes or {}
    kept = {name: symbol for name, symbol in model.dims.items() if name in ranges}
    others = {name: symbol for name, symbol in model.dims.items() if name not in kept}
    usual = {name: symbol.opt for name, symbol in others.items() if name not in known}
    if usual and not quiet:
        fixed = ", ".join(f"{name}={opt}" for name, opt in usual.items())
        click.echo(f"note: {fixed} (the sizes' opt; --dim chooses others)", err=True)
    model = replace(specialized(replace(model, dims=others), known), dims=kept)
    return unfixed(model) if kept else model


def read_graph(file: Path, model: Any) -> Any:
    """A graph from its text, whose weights must be those of the model."""
    from xlac.ir.op import ShapeError
    from xlac.ir.text import parse
    from xlac.ops.tensor.leaf import Param
    from xlac_sdk.source import Diagnostic, SourceError

    try:
        from xlac_sdk.support.files import regular

        graph = parse(regular(file).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise SourceError(Diagnostic("XL1001", f"{file} is not UTF-8 text")) from None
    except (ValueError, ShapeError) as error:
        hint = "a graph as --until or --dump prints it"
        raise SourceError(Diagnostic("XL1004", f"{file}: {error}", hint=hint)) from None
    for node in graph.nodes():
        if (
            isinstance(node.op, Param)
            and node.op.kind == "weight"
            and node.op.name not in model.weights
        ):
            problem = f"{file}: weight '{node.op.name}' is not one of the model"
            hint = (
                "weights that a pass derives exist only while it runs: resume before the pass "
                "'fold'"
            )
            raise SourceError(
                Diagnostic("XL3011", problem, hint=hint if "~" in node.op.name else "")
            )
    return graph
