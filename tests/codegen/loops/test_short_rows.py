"""Rows of a few elements are computed as many at a time as a vector has lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from xlac.driver import executable, lower
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops import build
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.kernel_ir.kernel import Fold, statements
from xlac_sdk.kernel_ir.sharing import roots, walk
from xlac_sdk.target import Request

F32 = DType.F32
Form = Callable[[Node], Node]


def over(x: Node, combine: str) -> Node:
    """A reduction of the last axis, as wide as `x` again."""
    found = build.reduce(x, combine, x.type.rank - 1, keepdims=True)
    return build.broadcast_to(found, x.shape)


def normalized(x: Node) -> Node:
    mean = build.mul(over(x, "add"), 1 / 3)
    apart = build.sub(x, mean)
    return build.div(apart, build.sqrt(build.add(over(build.mul(apart, apart), "add"), 0.1)))


FORMS: dict[str, Form] = {
    "norm": lambda x: build.div(x, build.sqrt(over(build.mul(x, x), "add"))),
    "normalized": normalized,
    "softmax": lambda x: build.apply("softmax", x, axis=-1),
    "range": lambda x: build.sub(over(x, "max"), over(x, "min")),
    "product": lambda x: build.mul(over(x, "mul"), x),
}


def model(form: Form, *shape: int, dtype: DType = F32) -> Model:
    x = build.param("x", dtype, shape)
    return Model(Graph("rows", (x,), {"y": form(x), "z": build.add(form(x), x)}), {})


def folds(made: Model, target: str = "cpu") -> int:
    """How many vectors the kernels of a model fold to numbers."""
    program = lower(made, find(target).target(Request())).program
    every = (e for k in program.kernels for s in statements(k.body) for e in walk(roots(s)))
    return sum(isinstance(e, Fold) for e in every)


def computed(made: Model, target: str, x: Any) -> None:
    """The program gives what the graph means."""
    found = executable(lower(made, find(target).target(Request())), find(target))(x)
    for name, want in interpret(made.graph, {"x": x}).items():
        np.testing.assert_allclose(found[name], want, rtol=2e-5, atol=2e-6, err_msg=name)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
@pytest.mark.parametrize("shape", [(131, 2), (64, 3), (7, 41, 3), (129, 5), (100, 7), (70, 9)])
def test_rows_of_a_few(form: str, target: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    computed(model(FORMS[form], *shape), target, x)


@pytest.mark.skipif(
    find("cpu").target(Request()).vector_bytes < 32, reason="this machine's vectors are as short"
)
def test_nothing_is_folded() -> None:
    for form in FORMS.values():
        assert folds(model(form, 200, 3)) == 0
    assert folds(model(FORMS["norm"], 200, 33)), "long rows are vectors themselves"
    assert folds(model(FORMS["norm"], 3, 3)), "three rows fill no vector"


def test_a_number_that_is_none_makes_its_row_so_and_no_other() -> None:
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    x[17, 1], x[40, 2] = np.nan, np.inf
    for form in ("range", "normalized"):
        computed(model(FORMS[form], 100, 3), "cpu", x)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_halves_are_summed_wider(dtype: DType) -> None:
    x = np.random.default_rng(0).normal(size=(100, 3)).astype(dtype.numpy)
    made = model(FORMS["norm"], 100, 3, dtype=dtype)
    found = executable(lower(made, find("cpu").target(Request())), find("cpu"))(x)
    want = interpret(made.graph, {"x": x})
    for name in want:
        a, b = (np.asarray(v[name]).astype(np.float64) for v in (found, want))
        np.testing.assert_allclose(a, b, rtol=1e-2)


def test_integers() -> None:
    x = np.random.default_rng(0).integers(-100, 100, (90, 3)).astype(np.int32)
    for combine in ("add", "max", "and", "xor"):
        computed(
            model(lambda x, c=combine: build.sub(x, over(x, c)), 90, 3, dtype=DType.I32), "cpu", x
        )
