"""`xlac build` of a spec that trains: a program with the step as one of its entries."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from xlac.cli.models import closed

if TYPE_CHECKING:
    from xlac.cli.commands.build import Build
    from xlac.options import CompileOptions
    from xlac.spec.load import TrainedSpec
    from xlac.training.graphs import TrainingGraphs
    from xlac_sdk.backend import Backend
    from xlac_sdk.host.package import Packaging


def _able(can: Callable[[Backend], object]) -> Iterator[str]:
    """The installed targets that can do something; those that cannot be loaded are omitted."""
    from xlac_sdk.host.registry import find, installed
    from xlac_sdk.source import XlacError

    for name in installed():
        with suppress(XlacError):
            if can(find(name)):
                yield name


def check(spec: TrainedSpec, backend: Backend, wanted: Packaging, build: Build) -> None:
    """Raises UnsupportedError for a target, a form or an option that steps cannot be built with."""
    from xlac_sdk.source import Diagnostic, UnsupportedError

    span = spec.diagnostics[0].span
    if not backend.entry_forms:
        problem = f"target '{backend.name}' cannot write a training step"
        able = ", ".join(_able(lambda one: one.entry_forms))
        hint = f"targets that can: {able}; `xlac train` and xlac.trainer train on every target"
        raise UnsupportedError(Diagnostic("XL5030", problem, span, hint))
    refused = [form for form in wanted.forms if form not in backend.entry_forms]
    if refused:
        problem = f"a spec that trains cannot be written as '{refused[0]}'"
        hint = f"--emit {','.join(backend.entry_forms)}, or some of these"
        if refused[0] in ("exe", "main"):
            problem += ": a program that is given a file for each input makes one call"
            hint += (
                "; xlac train trains on files, a program of yours calls the functions "
                "(docs/CALLING.md), xlac run --entry step a folder's"
            )
        raise UnsupportedError(Diagnostic("XL5030", problem, span, hint))
    given = [name for name, value in of_one_graph(build).items() if value]
    if given:
        problem = f"{given[0]} is for one graph, and a spec that trains has three"
        hint = "leave it out, or build the spec that this one includes"
        raise UnsupportedError(Diagnostic("XL5030", problem, span, hint))
    if build.choice.options.checked and not backend.records:
        problem = f"target '{backend.name}' cannot report the checks of a training step"
        able = ", ".join(_able(lambda one: one.entry_forms and one.records))
        hint = f"targets that can: {able}; xlac train --checked checks the steps of a run"
        raise UnsupportedError(Diagnostic("XL5030", problem, span, hint))


def of_one_graph(build: Build) -> dict[str, object]:
    """The options of a build that apply to a single graph, by name."""
    options = build.choice.options
    return {
        "--variant": build.variant,
        "--quantize": build.quantize,
        "--graph": build.edited,
        "--schedule": options.schedules,
    }


def closed_graphs(
    spec: TrainedSpec, ranges: Container[str], options: CompileOptions, mesh: str | None = None
) -> TrainingGraphs:
    """The graphs of a spec that trains, on ranks of a `mesh`, with the precision and the kernel
    permission of `options`; open sizes other than `ranges` are fixed at their `opt`.
    """
    from xlac.frontends.loader import as_precise
    from xlac.training.program import graphs_of, with_entries

    model = as_precise(spec.model, options.precision)
    own = replace(model, allow_kernels=options.allow_kernels)
    graphs = graphs_of(own, spec.training, mesh)
    fixed = {n: closed(one, ranges, quiet=n != "step") for n, one in graphs.entries.items()}
    return with_entries(graphs, fixed)


def checked_graphs(graphs: TrainingGraphs, options: CompileOptions) -> TrainingGraphs:
    """The graphs with the checks requested by `options`."""
    from xlac.passes.checks.insert import watched_together
    from xlac.support.failures import kinds
    from xlac.training.program import with_entries

    asked = kinds(options.checked)
    return with_entries(graphs, watched_together(graphs.entries, asked)) if asked else graphs
