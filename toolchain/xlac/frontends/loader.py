"""Chooses the importer for what a user passed: by the type of an object, or by the suffix of a
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from xlac.frontends.foreign_files import refuse
from xlac.ir.origins import spread
from xlac.model import Model, chosen_precision
from xlac.support.extras import needed
from xlac.support.file_kinds import is_saved_model
from xlac_sdk.source import Diagnostic, SourceError
from xlac_sdk.support.files import regular
from xlac_sdk.support.limits import OPERATIONS, checkpoint, within

READERS = {
    ".onnx": "xlac.frontends.onnx",
    ".mlir": "xlac.frontends.stablehlo",
    ".mlirbc": "xlac.frontends.stablehlo",
    ".jaxexport": "xlac.frontends.jax.exported",
    ".pt2": "xlac.frontends.torch",
    ".tflite": "xlac.frontends.tflite",
    ".keras": "xlac.frontends.keras",
    ".h5": "xlac.frontends.keras",
}
"""For each file suffix, the module whose `load` reads it; files with any other suffix are specs."""
SPECS = "xlac.spec.load"
SAVED_MODEL = "xlac.frontends.tensorflow.saved_model"  # of folders, which have no suffix
OF_SIGNATURES = (READERS[".tflite"], SAVED_MODEL)
"""Readers of files that may hold several models, called signatures."""


def load(
    source: object,
    *,
    dims: Mapping[str, int | str] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
    precision: str = "",
    weights: bool = True,
    signature: str = "",
    trusted: bool = False,
) -> Model:
    """A model from a file, or from an object that one of the importers recognizes. A Model is
    returned unchanged.

    `dims` fixes or narrows symbolic sizes. `params` overrides the build-time constants of a spec;
    for an imported model it fixes inputs to values. With `training`, a spec may have a training
    section. `precision` is "default" or "fast" and overrides the spec's; "" keeps the spec's.
    Without `weights` a spec's weight files are not opened. `signature` names one of those that a
    .tflite file or a SavedModel has. A SavedModel runs code when it is loaded, and is refused
    unless `trusted`. Raises SourceError.
    """
    if isinstance(source, Model):
        return as_precise(source, precision)
    with needed(f"'{Path(source).name}'" if isinstance(source, str | Path) else "this model"):
        home = _reader(source)
        reader: Any = import_module(home)
    opened = Path(source) if isinstance(source, str) else source
    if isinstance(opened, Path):
        regular(opened)
        refuse(opened, opened.suffix.lower() if opened.suffix.lower() in READERS else "spec")
    with within(operations=OPERATIONS):
        checkpoint("reading the model")
        own: dict[str, Any] = {"weights": False} if not weights and home == SPECS else {}
        if home in OF_SIGNATURES:
            own["signature"] = signature
        elif signature:
            raise SourceError(_without_signatures(opened))
        if home == SAVED_MODEL:
            own["trusted"] = trusted
        with needed(f"'{opened.name}'" if isinstance(opened, Path) else "this model"):
            model: Model = reader.load(
                opened,
                dims=dims,
                params=params,
                allow_outside=allow_outside,
                training=training,
                **own,
            )
    return as_precise(replace(model, graph=spread(model.graph)), precision)


def as_precise(model: Model, precision: str) -> Model:
    """The model at a precision of PRECISIONS; "" keeps its own. Raises SourceError."""
    return replace(model, precision=chosen_precision(precision)) if precision != "" else model


def _without_signatures(source: object) -> Diagnostic:
    what = f"'{source.name}'" if isinstance(source, Path) else "this model"
    problem = f"{what} has no signatures to choose from"
    return Diagnostic("XL2019", problem, hint=".tflite files and SavedModels may have several")


def _reader(source: object) -> str:
    if is_saved_model(source):
        return SAVED_MODEL
    if isinstance(source, str | Path):
        return READERS.get(Path(source).suffix.lower(), SPECS)
    # recognized by class name, so that no library is imported to ask
    home = type(source).__module__
    if home.partition(".")[0] == "onnx":
        return READERS[".onnx"]
    if home.startswith("torch.export"):
        return READERS[".pt2"]
    if home.startswith("jax.") and type(source).__name__ == "Exported":
        return READERS[".jaxexport"]
    known = "a file, an xlac.Model, an onnx.ModelProto or a program of torch.export or jax.export"
    raise TypeError(f"a model is {known}, not {type(source).__name__}")
