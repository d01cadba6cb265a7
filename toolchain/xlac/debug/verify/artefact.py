"""Verifies the output of `xlac build` against its source model, by its outputs alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from xlac.artefact.loader import Loaded
from xlac.debug.verify.deviation import deviation
from xlac.debug.verify.exact import estimated
from xlac.debug.verify.subject import ran, states_of
from xlac.debug.verify.verification import Verification, VerifiedValue
from xlac.ir.dims import static
from xlac.ir.op import Array
from xlac.model import Model
from xlac.ops.tensor.leaf import param
from xlac_sdk.source import Diagnostic, SourceError

Inputs = Mapping[str, Array]


def verified_artefact(
    loaded: Loaded,
    model: Model,
    source: Path,
    drawn: Mapping[str, Inputs],
    tell: Callable[[str], None] = lambda line: None,
) -> Verification:
    """Compares the outputs of an artefact with those of a model without open sizes."""
    begun = time.perf_counter()
    same_interface(loaded, model, source)
    values = []
    for draw, inputs in drawn.items():
        tell(f"inputs: {draw}")
        given = {**inputs, **states_of(model.graph)}
        results = ran(loaded, given)
        exact = estimated(model.graph, given, model.weights)
        for slot in loaded.program.outputs:
            if slot.name in exact:
                off = deviation(results[slot.name], exact[slot.name], slot.dtype)
                values.append(VerifiedValue(draw, slot.name, "reference", off))
    manifest = loaded.manifest
    fine = all(v.right for v in values)
    why = f"built from another model than {source.name}, or wrongly"
    how = f"`xlac verify {source.name} --target {manifest.target}` tells whether it is right now"
    causes = () if fine else (f"the artefact computes something else: {why}; {how}",)
    notes = ("an artefact has no steps any more: its outputs alone are judged",)
    verification = Verification(manifest.name, manifest.target, tuple(values), causes, notes)
    return replace(verification, seconds=time.perf_counter() - begun)


def same_interface(loaded: Loaded, model: Model, source: Path) -> None:
    """Raises SourceError where the inputs or outputs of an artefact differ from those of the
    model.
    """
    theirs = {param(n).name: (n.type.dtype, static(n.type.shape)) for n in model.inputs}
    for slot in loaded.program.inputs:
        if loaded.program.sizes:
            continue  # an artefact for several sizes takes these too
        _compared(slot.name, (slot.dtype, slot.extents({})), theirs, source, "input")
    given = {n: (t.type.dtype, static(t.type.shape)) for n, t in model.graph.outputs.items()}
    names: Sequence[str] = [s.name for s in loaded.program.outputs]
    missing = [name for name in names if name not in given]
    if missing:
        problem = f"the artefact's output '{missing[0]}' is not in {source.name}"
        raise SourceError(Diagnostic("XL6001", problem, hint=f"it has {', '.join(given)}"))


def _compared(
    name: str, own: object, theirs: Mapping[str, object], source: Path, kind: str
) -> None:
    if name not in theirs:
        problem = f"the artefact's {kind} '{name}' is not in {source.name}"
        raise SourceError(Diagnostic("XL6001", problem, hint=f"it has {', '.join(theirs)}"))
    if theirs[name] != own:
        problem = f"the artefact's {kind} '{name}' has another type or size than in {source.name}"
        hint = "give the sizes that it was built with: --dim NAME=N"
        raise SourceError(Diagnostic("XL6002", problem, hint=hint))
