"""Compiling and running StableHLO text in tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlac.api import compile
from xlac.frontends.stablehlo import load
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ir.verify import verify


def main(takes: Sequence[str], gives: Sequence[str], body: str, more: str = "") -> str:
    """A module whose function has arguments %0, %1, …; the body ends with its return."""
    arguments = ", ".join(f"%arg{n}: {type}" for n, type in enumerate(takes))
    return (
        f"module @test {{\n  func.func public @main({arguments}) -> ({', '.join(gives)}) "
        f"{{\n{body}\n  }}\n{more}\n}}\n"
    )


def results(text: str, *arrays: Any) -> list[Array]:
    """What a module gives, compiled; the interpreter must agree."""
    model = load(text)
    verify(model.graph)
    given = [np.asarray(a) for a in arrays]
    compiled = compile(model, target="cpu")(*given)
    found = [
        np.asarray(a) for a in (compiled.values() if isinstance(compiled, dict) else [compiled])
    ]
    names = [node.op.name for node in model.inputs]  # type: ignore[attr-defined]
    with np.errstate(all="ignore"):
        meant = list(interpret(model.graph, dict(zip(names, given, strict=True))).values())
    for a, b in zip(found, meant, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), 2e-5, 2e-5)
    return found


def one(text: str, *arrays: Any) -> Array:
    (found,) = results(text, *arrays)
    return found


def unary(op: str, takes: str, gives: str, attributes: str = "") -> str:
    """One operation on one operand, in generic form."""
    return main(
        [takes],
        [gives],
        f'    %0 = "{op}"(%arg0) {attributes} : ({takes}) -> {gives}\n    return %0 : {gives}',
    )


def binary(op: str, takes: str, gives: str, attributes: str = "") -> str:
    body = (
        f'    %0 = "{op}"(%arg0, %arg1) {attributes} : ({takes}, {takes}) -> {gives}\n    '
        f"return %0 : {gives}"
    )
    return main([takes, takes], [gives], body)
