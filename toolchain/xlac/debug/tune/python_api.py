"""Tuning from Python: `xlac.tune`, and `tune=` of `xlac.compile`."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xlac.cache.findings import CachedFindings
from xlac.cache.fingerprint import compiler
from xlac.codegen.gpu.core.instructions import permitted
from xlac.codegen.schedules.document import Asked, data_of, of_records, read
from xlac.codegen.schedules.tuned import TuningRecords, machine_of
from xlac.debug.tune.process import TuningProcess
from xlac.debug.tune.sent_model import WORKER, SentModel
from xlac.debug.tune.tune import ModelTuning
from xlac.driver import specialized
from xlac.frontends.loader import load
from xlac.ir.graph import Graph
from xlac.ir.op import Array
from xlac.ir.text import show
from xlac.memory.limit import MemoryLimit
from xlac.model import Model
from xlac.ops.control.effect import python_calls
from xlac.ops.tensor.leaf import param
from xlac.options import TUNING, CompileOptions
from xlac.placement.places import check_one_target
from xlac.support.measured_facts import machine
from xlac.support.whole_files import replacing
from xlac_sdk.backend import Backend
from xlac_sdk.host.call_binding import as_input, unknown
from xlac_sdk.host.registry import find
from xlac_sdk.source import Diagnostic, SourceError, UnsupportedError
from xlac_sdk.support.limits import uncounted
from xlac_sdk.target import Target

LARGEST = 1 << 26  # characters of what the cache has of one model, at most
Tell = Callable[[str], object]


def tune(
    source: object,
    target: str = "cpu",
    *,
    seconds: float = TUNING,
    output: str | os.PathLike[str] | None = None,
    inputs: Mapping[str, Any] | None = None,
    allow_rounding: bool = False,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    threads: int | None = None,
    precision: str = "",
    passes: str = "",
    max_memory: int | str | None = None,
    allow_kernels: bool | None = None,
    signature: str = "",
    tell: Tell = lambda line: None,
) -> dict[str, Any]:
    """Searches a faster fusion and faster schedules of a model by measuring them on this machine,
    for some seconds, in processes of its own: `xlac tune` in Python. Returns them as
    `xlac.compile(schedules=…)` takes them.

    `source` and the options that are not explained here are those of `xlac.compile`. Open sizes
    have their `opt`, or the values in `dims`. `inputs` are arrays by name; the others are random.
    With `output` the schedules are also written to that file; what it has already, of this model
    and others, stays, and the search goes on from there. Results stay equal to the bit, unless
    `allow_rounding` permits schedules that add in another order. `tell` is called with a line for
    what was found. Raises the errors of `xlac.compile`, and XlacError if the model cannot be
    measured.
    """
    options = CompileOptions(
        dims or {},
        params or {},
        threads=threads,
        precision=precision,
        passes=passes,
        max_memory=max_memory,
        signature=signature,
        tune=seconds,
    )
    model = load(source, dims=dims, params=params, precision=precision, signature=signature)
    if any(python_calls(model.graph)):
        problem = (
            "the model calls Python functions of this process: others, which tune it, lack them"
        )
        raise SourceError(Diagnostic("XL4115", problem))
    model = replace(specialized(model), allow_kernels=allow_kernels)
    backend = find(target)
    facts = backend.target_for(options.request)
    file = None if output is None else Path(output)
    records = known_records(file, facts, model.precision)
    arrays = _arrays(model, inputs or {})
    assert options.tune is not None
    search = _Search(model, facts, backend, options, arrays, allow_rounding, tell)
    found = search.run(records, options.tune)
    if file is not None:
        with replacing(file) as made:
            made.write_text(of_records(found, model.name, target), encoding="utf-8")
    return data_of(found)


def for_models(options: CompileOptions, backend: Backend) -> Callable[[Model], Asked]:
    """A function from a model to its tuned schedules: those that the cache has, if they were
    searched for as long as the options say, and else what searching on finds. Models with open
    sizes, and those that call Python functions of this process, have none. Raises SourceError for
    options that do not go with tuning.
    """
    if options.sizes == "symbolic" or options.variants:
        problem = "tune does not go with sizes='symbolic', as kernels are measured at known sizes"
        hint = "leave sizes out: then each set of sizes is tuned when it is first called"
        raise SourceError(Diagnostic("XL4115", problem, hint=hint))
    facts = backend.target_for(options.request)

    def wanted(model: Model) -> Asked:
        alone = model.dims or any(python_calls(model.graph))
        return Asked() if alone else _kept_or_found(model, facts, backend, options)

    return wanted


def known_records(file: Path | None, target: Target, precision: str) -> TuningRecords:
    """The records of a file, none where it is missing. Raises SourceError for those of another
    machine, and for a file that is no result of tuning.
    """
    facts = _facts(target, precision)
    if file is None or not file.exists():
        return TuningRecords(machine_of(facts))
    asked = read(file)
    asked.require(facts)
    if asked.tuned is None:
        problem = f"{file} has schedules that were not tuned"
        raise SourceError(Diagnostic("XL4111", problem, hint="give another name for the output"))
    return asked.tuned


class _Search:
    """How one model is searched."""

    def __init__(
        self,
        model: Model,
        target: Target,
        backend: Backend,
        options: CompileOptions,
        inputs: Mapping[str, Array],
        rounding: bool = False,
        tell: Tell = lambda line: None,
    ) -> None:
        if model.mesh_of_rank:
            problem = "a model that several ranks compute together cannot be measured by one"
            raise UnsupportedError(Diagnostic("XL4115", problem, hint="tune it without a mesh"))
        check_one_target(model, target.name)
        memory = MemoryLimit.of(options.max_memory)
        self.sent = SentModel(model, target, backend.name, options.passes, memory, inputs)
        self.rounding, self.tell = rounding, tell

    def run(self, records: TuningRecords, seconds: float) -> TuningRecords:
        """The records with what was found in some seconds."""
        with uncounted(), tempfile.TemporaryDirectory(prefix="xlac-") as folder:
            self.sent.write(Path(folder))
            with TuningProcess(WORKER, folder) as worker:
                threads, rounding = self.sent.target.threads, self.rounding
                return ModelTuning(worker, records, seconds, threads, rounding, self.tell).run()


def _kept_or_found(
    model: Model, target: Target, backend: Backend, options: CompileOptions
) -> Asked:
    """The tuned schedules of a model with known sizes."""
    assert options.tune is not None
    facts, kept = _facts(target, model.precision), CachedFindings(backend.name)
    asked = (options.passes, str(options.max_memory), model.precision, repr(model.checks))
    names = json.dumps(machine_of(facts), sort_keys=True), machine(), compiler(backend)
    graph = Graph("", model.graph.inputs, model.graph.outputs)  # under whatever name
    key = ("tuned", show(graph, arrays=False), *asked, *names)
    text = kept.find(*key, most=LARGEST)
    known: dict[str, Any] = json.loads(text) if text else {"seconds": 0.0}
    before = read(known["schedules"]).tuned if text else None
    records = before or TuningRecords(machine_of(facts))
    left = options.tune - known["seconds"]
    ended = bool(records.groups) and all(group.finished for group in records.groups.values())
    if left > 0 and not ended:
        records = _Search(model, target, backend, options, {}).run(records, left)
        said = {"seconds": options.tune, "schedules": data_of(records)}
        kept.keep(json.dumps(said), f"{model.name}, tuned", *key, anew=True)
    return read(data_of(records))


def _facts(target: Target, precision: str) -> Target:
    """The facts that a model of this precision is lowered with."""
    return permitted(replace(target, fast=precision == "fast"), precision)


def _arrays(model: Model, given: Mapping[str, Any]) -> dict[str, Array]:
    """The user's arrays, checked. Raises SourceError."""
    types = {param(node).name: node.type for node in model.inputs}
    for name in given:
        if name not in types:
            raise unknown("input", name, [*types])
    return {
        name: as_input(name, types[name].dtype, types[name].shape, array)
        for name, array in given.items()
    }
