"""Programs of `jax.export`, in memory and as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xlac.frontends import stablehlo
from xlac.frontends.jax.lowered import dims_of
from xlac.frontends.jax.static import required
from xlac.frontends.sizes import sized
from xlac.ir.dims import symbols
from xlac.model import Model
from xlac.support.dependencies import mapped
from xlac_sdk.source import Diagnostic, SourceError


def is_exported(value: object) -> bool:
    """Whether an object is a program of `jax.export`; imports nothing to find out."""
    home = type(value).__module__
    return type(value).__name__ == "Exported" and home.startswith("jax.")


def examples_of(exported: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the shapes and dtypes that a program takes, positional and named."""
    jax = required()
    leaves = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.in_avals]
    args, named = exported.in_tree.unflatten(leaves)
    return args, named


def load(
    source: Path | Any,
    *,
    dims: Mapping[str, Any] | None = None,
    params: Mapping[str, object] | None = None,
    allow_outside: bool = False,
    training: bool = False,
) -> Model:
    """A model from a program of `jax.export`, or from a file of its `serialize()`.

    Inputs are called arg0, arg1, … in the order of the leaves, without those that the program does
    not use; outputs out0, out1, …. Symbolic sizes keep their names; `dims` fixes or bounds them
    under these. Raises SourceError.
    """
    exported = _read(source) if isinstance(source, Path) else source
    asked = dict(dims or {})
    known: dict[str, Any] = dims_of(exported)
    names = {size.name for size in known.values()}
    for place, size in known.items():
        if size.name in asked:
            dim = sized(size.name, asked[size.name])
            known[place] = dim if isinstance(dim, int) else next(iter(symbols(dim)))
    known |= {name: size for name, size in asked.items() if name not in names}
    return stablehlo.load(exported.mlir_module_serialized, dims=known, params=params)


def _read(file: Path) -> Any:
    jax = required()
    try:
        return jax.export.deserialize(bytearray(mapped(file)))
    except OSError as error:
        raise SourceError(
            Diagnostic("XL3001", f"{file} cannot be read: {error.strerror}")
        ) from None
    except Exception as error:  # in reading its flatbuffers, or their content
        said = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(
            Diagnostic("XL7215", f"{file} is not a program of jax.export: {said}")
        ) from None
