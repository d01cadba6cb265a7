"""Derivatives of reductions, windows and scatters whose bodies combine elements, beside differences
and beside what has a name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from differences import compare, evaluated

import xlac
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize
from xlac.ir.dims import symbol, symbols
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.values import results
from xlac_sdk.dtypes import DType

F, I = DType.F64, DType.I32
S, N = Type(F), Type(I)


def log_sum(a: Node, b: Node) -> Node:
    most = build.maximum(a, b)
    return build.add(
        most, build.log(build.add(build.exp(build.sub(a, most)), build.exp(build.sub(b, most))))
    )


def best(a: Node, i: Node, b: Node, j: Node) -> tuple[Node, Node]:
    keeps = build.compare(a, "ge", b)
    return build.select(keeps, a, b), build.select(keeps, i, j)


def rotated(a: Node, b: Node, c: Node, d: Node) -> tuple[Node, Node]:
    """The product of complex numbers: associative, of two tensors."""
    return build.sub(build.mul(a, c), build.mul(b, d)), build.add(build.mul(a, d), build.mul(b, c))


BODIES: dict[str, tuple[Graph, list[Type]]] = {
    "product": (build.graph("product", [S, S], build.mul), [S]),
    "log_sum": (build.graph("log_sum", [S, S], log_sum), [S]),
    "best": (build.graph("best", [S, N, S, N], best), [S, N]),
    "rotated": (build.graph("rotated", [S] * 4, rotated), [S, S]),
}


def given(kinds: list[Type], shape: tuple[int, ...]) -> tuple[list[Node], dict[str, Any]]:
    """Tensors of a shape and the values they begin with, as parameters, and numbers for them."""
    types = [*(k.with_shape(shape) for k in kinds), *kinds]
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]
    rng = np.random.default_rng(3)
    values: dict[str, Any] = {
        f"x{n}": rng.uniform(0.4, 1.4, t.shape)
        if t.dtype is F
        else rng.integers(0, 9, t.shape).astype(np.int32)  # type: ignore[arg-type]
        for n, t in enumerate(types)
    }
    return params, values


@pytest.mark.parametrize("shape", [(5, 3), (1, 2), (0, 2), (8, 1)])
@pytest.mark.parametrize("name", BODIES)
def test_reduce(name: str, shape: tuple[int, ...]) -> None:
    body, kinds = BODIES[name]
    params, values = given(kinds, shape)
    for axes in ((0,), (0, 1), ()):
        compare(params, list(results(Node.of(Reduce(axes, "body", body), *params))), values)


@pytest.mark.parametrize("name", BODIES)
def test_window(name: str) -> None:
    body, kinds = BODIES[name]
    params, values = given(kinds, (5, 4))
    op = Window("body", body, (3, 2), (1, 2), (1, 0), (0, 1), (1, 2), (1, 1))
    compare(params, list(results(Node.of(op, *params))), values)


def test_reduce_by_a_body_is_that_with_a_name() -> None:
    params, values = given([S], (6, 3))
    by_body = Node.of(Reduce((0,), "body", BODIES["product"][0]), *params)
    by_name = build.mul(build.reduce(params[0], "mul", [0]), build.spread(params[1], (3,), ()))
    one, other = (
        evaluated(params, linearize([n], params).transposed([build.like(0.7, n)]), values)
        for n in (by_body, by_name)
    )
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_reduce_of_an_open_count() -> None:
    """One after another, as many as there are."""
    size = symbol("rows")
    types = [Type(F, (size, 3)), S]
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]
    node = Node.of(Reduce((0,), "body", BODIES["log_sum"][0]), *params)
    (back,) = linearize([node], params[:1]).transposed([build.like(1.0, node)])
    model = Model(
        Graph("open", tuple(params), {"y": back}), {}, {"rows": next(iter(symbols(size)))}
    )
    compiled = xlac.compile(model, "reference")
    for rows in (4, 1):
        x = np.random.default_rng(rows).normal(size=(rows, 3))
        weights = np.exp(x) / (np.exp(x).sum(0) + np.exp(0.3))
        np.testing.assert_allclose(compiled(x, np.asarray(0.3)), weights, rtol=1e-12)


ROWS = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
}


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("name", ["product", "log_sum", "rotated"])
def test_scatter(name: str, unique: bool) -> None:
    """Several updates of one place, and some outside."""
    body, kinds = BODIES[name]
    count = len(kinds)
    types = [*[Type(F, (4, 3))] * count, Type(I, (5,)), *[Type(F, (5, 3))] * count]
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]
    rng = np.random.default_rng(5)
    values: dict[str, Any] = {f"x{n}": rng.uniform(0.4, 1.4, t.shape) for n, t in enumerate(types)}  # type: ignore[arg-type]
    values[f"x{count}"] = np.int32([3, 0, 7, 1, -1] if unique else [2, 0, 2, 7, 2])
    op = Scatter(**ROWS, combine="body", body=body, unique=unique)  # type: ignore[arg-type]
    compare(params, list(results(Node.of(op, *params))), values)


def test_scatter_in_an_order_that_matters() -> None:
    """A body that is not associative: the second update meets what the first left."""
    body = build.graph("decay", [S, S], lambda a, b: build.add(build.mul(a, 0.5), build.mul(b, b)))
    types = [Type(F, (4,)), Type(I, (5, 1)), Type(F, (5,))]
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]
    values = {
        "x0": np.arange(4.0),
        "x1": np.int32([[1], [1], [0], [1], [9]]),
        "x2": np.arange(1.0, 6),
    }
    op = Scatter((), (0,), (), (), (0,), 1, "body", body)
    node = Node.of(op, *params)
    compare(params, [node], values)
    back = linearize([node], [params[2]]).transposed([build.constant(np.ones(4))])
    np.testing.assert_allclose(evaluated(params, back, values)[0], [0.5, 2, 6, 8, 0])


def test_a_product_of_many_is_differentiated_in_as_many_terms() -> None:
    """Exactly, where some are 0."""
    x = build.param("x", F, (40,))
    op = Window("mul", None, (30,), (1,), (0,), (0,), (1,), (1,))
    (found,) = linearize([Node.of(op, x)], [x]).transposed(
        [build.spread(build.constant(1.0, F), (11,), ())]
    )
    assert found is not None and sum(1 for _ in walk([found])) < 30 * 20
    values = np.random.default_rng(4).uniform(0.5, 1.5, 40)
    values[[3, 20]] = 0.0
    wanted = np.zeros(40)
    for start, at in np.ndindex(11, 30):
        others = np.delete(values[start : start + 30], at)
        wanted[start + at] += np.prod(others)
    np.testing.assert_allclose(evaluated([x], [found], {"x": values})[0], wanted, rtol=1e-12)


def test_a_window_of_too_much_says_what_to_write() -> None:
    params, _ = given([S], (9000,))
    one = (1,)
    op = Window("body", BODIES["log_sum"][0], (5000,), one, (0,), (0,), one, one)
    with pytest.raises(NoDerivativeError, match="combines 5000 elements by a body") as told:
        linearize([Node.of(op, *params)], params[:1])
    assert "several smaller windows" in told.value.hint


@pytest.mark.parametrize("target", ["c", "cpu"])
def test_compiled(target: str) -> None:
    """Gradients of a reduction, a window and a scatter are what the interpreter says."""
    body = BODIES["log_sum"][0]
    types = [Type(F, (5, 3)), S, Type(I, (4, 1)), Type(F, (4, 3))]
    params = [build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(types)]
    x, first, indices, updates = params
    one = (1, 1)
    nodes = [
        Node.of(Reduce((0,), "body", body), x, first),
        Node.of(Window("body", body, (2, 2), (2, 1), (0, 1), (0, 0), one, one), x, first),
        Node.of(Scatter((1,), (0,), (), (), (0,), 1, "body", body), x, indices, updates),
    ]
    back = linearize(nodes, [x, first, updates]).transposed([build.like(0.3, n) for n in nodes])
    rng = np.random.default_rng(2)
    values: dict[str, Any] = {f"x{n}": rng.uniform(-1, 1, t.shape) for n, t in enumerate(types)}  # type: ignore[arg-type]
    values["x2"] = np.int32([[1], [4], [1], [9]])
    model = Model(Graph("back", tuple(params), {str(n): b for n, b in enumerate(back)}), {})
    found = xlac.compile(model, target)(**values)
    for n, wanted in enumerate(evaluated(params, back, values)):
        np.testing.assert_allclose(found[str(n)], wanted, rtol=1e-12, atol=1e-14)
