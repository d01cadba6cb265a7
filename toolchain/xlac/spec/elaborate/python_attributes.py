"""Attributes of operations called in Python: checked like those of a spec, with Python's and
NumPy's types permitted too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from xlac.ir.op import Op
from xlac.spec.elaborate import attributes
from xlac.spec.elaborate.arithmetic import Constants
from xlac.spec.elaborate.type_text import type_value
from xlac.spec.report import Fault, Place, nearest
from xlac.spec.text.tree import Source, YamlValue
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Diagnostic, SourceError


def converted(op: type[Op], given: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a call, converted to their declared types. Graphs and arrays, which specs
    cannot express, are unchanged. Raises SourceError listing all errors.
    """
    known = attributes.names(op)
    unwritten = {field.name for field in dataclasses.fields(op)} - set(known)
    kept = {name: value for name, value in given.items() if name in unwritten}
    typed = attributes.types_in(op)
    plain = {
        name: _types(op, name, value) if name in typed else _plain(value)
        for name, value in given.items()
        if name not in unwritten
    }
    valid, wrongs = attributes.check(op, plain)
    if wrongs:
        raise SourceError(*(_diagnostic(op, wrong, known) for wrong in wrongs))
    return {**valid, **kept}


def _plain(value: Any) -> Any:
    """A value with NumPy's numbers and element types converted to ours."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.ndim <= 1:
        return _plain(value.tolist())
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        try:
            return DType.of(np.dtype(value))
        except KeyError:
            return str(np.dtype(value))
    return value.item() if isinstance(value, np.generic) else value


def _types(op: type[Op], name: str, value: Any) -> Any:
    """Types given as text, converted."""
    if isinstance(value, list | tuple):
        return tuple(_types(op, name, part) for part in value)
    if not isinstance(value, str):
        return value
    text = Source(Path("call"), value, YamlValue(value, 0, 0, 0, len(value)))
    try:
        return type_value(value, Constants({}, {}), Place(text))
    except Fault as fault:
        diagnostic = fault.diagnostic
        problem = f"{name} of {op.mnemonic}: {diagnostic.message}"
        raise SourceError(Diagnostic(diagnostic.code, problem, hint=diagnostic.hint)) from None


def _diagnostic(
    op: type[Op], wrong: attributes.WrongAttribute, known: tuple[str, ...]
) -> Diagnostic:
    if wrong.kind == "missing":
        return Diagnostic("XL2007", f"{op.mnemonic} needs {wrong.name!r}")
    if wrong.kind == "unknown":
        problem = f"{op.mnemonic} has no attribute {wrong.name!r}"
        return Diagnostic("XL2005", problem, hint=nearest(wrong.name, known))
    return Diagnostic("XL2006", f"{wrong.name} of {op.mnemonic}: {wrong.message}")
