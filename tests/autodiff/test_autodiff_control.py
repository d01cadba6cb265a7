"""Derivatives of loops, branches and calls."""

from __future__ import annotations

import numpy as np
import pytest
from control_cases import Forms, params, values
from differences import compare, evaluated

from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import While
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

F, I = DType.F64, DType.I32
FORMS = dict(Forms(F).every())


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    form = FORMS[name]
    compare(form.params, form.outputs, form.values, tolerance=form.tolerance)


def typed(*shapes: tuple[int, ...] | Type) -> list[Type]:
    return [s if isinstance(s, Type) else Type(F, s) for s in shapes]


def loop() -> tuple[list[Node], tuple[Node, ...]]:
    """Squares x until it is small, and counts."""
    types = typed((), Type(I))
    test = build.graph("test", types, lambda x, n: build.compare(x, "gt", 0.01))
    step = build.graph("step", types, lambda x, n: (build.mul(x, x), build.add(n, 1)))
    given = params(types)
    return given, results(Node.of(While(test, step), *given))


def test_while_forwards() -> None:
    given, outputs = loop()
    found = linearize(outputs, given[:1])
    value = {"x0": np.asarray(0.9), "x1": np.asarray(0, np.int32), "t0": np.asarray(1.0)}
    answers = evaluated([*given, *found.sources], [*found.values, found.tangents[0]], value)
    steps = int(answers[1])
    assert steps > 3
    assert answers[2] == pytest.approx(2**steps * 0.9 ** (2**steps - 1))


def test_while_backwards_needs_its_length() -> None:
    given, outputs = loop()
    found = linearize(outputs, given[:1])
    with pytest.raises(NoDerivativeError, match="has a number of steps that depends on data"):
        found.transposed([build.constant(1.0, F), None])


def test_what_is_not_reached_has_no_gradient() -> None:
    x, y = params(typed((3,), (3,)))
    found = linearize([build.exp(x)], [x, y]).transposed([build.like(1.0, x)])
    _, gradient = evaluated([x, y], found, values(typed((3,), (3,))))
    assert not gradient.any()
