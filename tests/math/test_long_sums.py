"""Long sums keep their digits: every accumulation within the bound that docs/SPEC.md states, on
every target.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from long_sums import LARGE, SMALL, Case, U, off

from xlac.api import compile as compile_model
from xlac.driver import lower
from xlac.ir.graph import Graph, Node
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.cumulative import Cumulative
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.scatter import Scatter
from xlac.ops.tensor.view import Slice
from xlac_sdk.dtypes import DType
from xlac_sdk.interpreter.programs import Interpreter
from xlac_sdk.target import Target


def check(case: Case, size: int, target: str, **given: Any) -> None:
    node, feeds, exact, bound = case(size)
    params = [n for n in node.inputs if isinstance(n.op, Param)]
    run = compile_model(
        Model(Graph("sums", tuple(params), {"y": node}), {}), target=target, **given
    )
    found = run(**feeds)
    sizes = np.maximum(np.abs(exact), 1e-30)  # all terms are positive
    assert off(np.asarray(found), exact, sizes) <= bound


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.sampled(2)
def test_sums_keep_their_digits(name: str) -> None:
    check(SMALL[name], 1000, "cpu")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SMALL)
def test_sums_keep_their_digits_in_numpy(name: str) -> None:
    check(SMALL[name], 1000, "reference")


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SMALL)
def test_sums_keep_their_digits_in_c(name: str) -> None:
    check(SMALL[name], 1000, "c")


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_sums_keep_their_digits_on_other_machines(name: str, cpu: str) -> None:
    check(SMALL[name], 1000, "cpu", cpu=cpu)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", LARGE)
def test_very_long_sums_keep_their_digits(name: str) -> None:
    check(LARGE[name], 1 << 24, "cpu")


# ---- nothing is counted twice or left out --------------------------------------------------------

FACTS = {
    "scalar": Target("scalar"),
    "masked": Target("masked", vector_bytes=64, vector_registers=32, masked=True, fma=True),
    "plain": Target("plain", vector_bytes=32, vector_registers=16, fma=True),
}


@pytest.mark.parametrize("length", [1001, 1064])
@pytest.mark.parametrize("facts", FACTS)
def test_every_term_counts_once(facts: str, length: int) -> None:
    """Ones, along rows and columns and as products: the sum is their number, to the bit. Lengths
    are whole vectors, but no whole blocks, and odd."""
    x = np.ones((3, length), np.float32)
    rows, columns = (
        Node.of(Param(name, Type(DType.F32, s), "input"))
        for name, s in (("x", x.shape), ("y", x.T.shape))
    )
    made = {
        "rows": Node.of(Reduce(axes=(1,), combine="add"), rows),
        "columns": Node.of(Reduce(axes=(0,), combine="add"), columns),
        "product": Node.of(Dot((), (), (1,), (0,)), rows, columns),
        "turned": Node.of(Dot((), (), (1,), (1,)), rows, rows),
    }
    program = lower(Model(Graph("sums", (rows, columns), made), {}), FACTS[facts]).program
    outputs = {s.name: np.zeros(s.extents({}), np.float32) for s in program.outputs}
    Interpreter(program).run({"x": x, "y": np.ascontiguousarray(x.T)}, outputs)
    for name, found in outputs.items():
        np.testing.assert_array_equal(found, np.float32(length), name)


@pytest.mark.parametrize("length", [1000008])
def test_every_term_of_a_split_sum_counts_once(length: int) -> None:
    """In pieces for threads, of which the last is shorter: whole vectors, no whole number of them
    at once.
    """
    p = Node.of(Param("x", Type(DType.F32, (length,)), "input"))
    model = Model(Graph("sums", (p,), {"y": Node.of(Reduce(axes=(0,), combine="add"), p)}), {})
    for cpu, threads in (("x86-64", 1), ("x86-64-v3", 2)):
        assert (
            compile_model(model, target="cpu", cpu=cpu, threads=threads)(
                np.ones(length, np.float32)
            )
            == length
        )


# ---- the same for any number of threads, for infinities and for halves ---------------------------


@pytest.mark.parametrize("name", ["all", "few columns", "columns", "product", "scatter into some"])
def test_sums_are_the_same_for_any_number_of_threads(name: str) -> None:
    """To the bit; the terms are such that another order would show."""
    node, feeds, _, _ = SMALL[name](1500 if name != "product" else 300)
    rng = np.random.default_rng(1)
    feeds = {
        k: rng.standard_normal(v.shape).astype(v.dtype) if v.dtype.kind == "f" else v
        for k, v in feeds.items()
    }
    params = tuple(n for n in node.inputs if isinstance(n.op, Param))
    model = Model(Graph("sums", params, {"y": node}), {})
    one, *others = (
        np.asarray(compile_model(model, target="cpu", threads=threads)(**feeds))
        for threads in (1, 2, 3)
    )
    for other in others:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("place", [0, 4998])
@pytest.mark.parametrize("values", [[np.inf], [-np.inf], [np.nan], [np.inf, -np.inf]], ids=str)
def test_sums_of_what_is_not_finite(values: list[float], place: int) -> None:
    """An infinite sum has lost nothing: it stays infinite, whatever came before or after."""
    x = np.ones((2, 5000), np.float32)
    x[0, place : place + len(values)] = values
    for op in (Reduce(axes=(1,), combine="add"), Cumulative(axis=1, combine="add")):
        p = Node.of(Param("x", Type(DType.F32, x.shape), "input"))
        found = np.asarray(
            compile_model(Model(Graph("sums", (p,), {"y": Node.of(op, p)}), {}), target="cpu")(x=x)
        )
        with np.errstate(all="ignore"):
            exact = (
                x.astype(np.float64).sum(1)
                if isinstance(op, Reduce)
                else np.cumsum(x.astype(np.float64), 1)
            )
            np.testing.assert_allclose(found, exact.astype(np.float32), rtol=1e-6)


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_halves_are_summed_in_f32_and_rounded_once(dtype: DType) -> None:
    """Also where they are scattered or run along an axis."""
    rng = np.random.default_rng(2)
    x = rng.random((400, 6)).astype(dtype.numpy)
    wide, at = x.astype(np.float64), np.zeros(400, np.int32)
    p, index = (
        Node.of(Param("x", Type(dtype, x.shape), "input")),
        Node.of(Param("at", Type(DType.I32, (400,)), "input")),
    )
    zeros = Node.of(Param("z", Type(dtype, (1, 6)), "input"))
    rows = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    nodes = {
        "sum": Node.of(Reduce(axes=(0,), combine="add"), p),
        "running": Node.of(Cumulative(axis=0, combine="add"), p),
        "scattered": Node.of(Scatter(combine="add", **rows), zeros, index, p),
    }
    run = compile_model(Model(Graph("halves", (p, index, zeros), nodes), {}), target="cpu")
    found = run(x=x, at=at, z=np.zeros((1, 6), dtype.numpy))
    exact = {"sum": wide.sum(0), "running": wide.cumsum(0), "scattered": wide.sum(0, keepdims=True)}
    for name, value in exact.items():
        nearest = value.astype(np.float32).astype(dtype.numpy).astype(np.float64)
        step = (
            np.spacing(np.abs(value).astype(dtype.numpy)).astype(np.float64)
            if dtype is DType.F16
            else np.abs(value) * 2.0**-7
        )
        assert (
            np.abs(np.asarray(found[name]).astype(np.float64) - value)
            <= np.abs(nearest - value) + step * 1e-3
        ).all(), name


# ---- beside others -------------------------------------------------------------------------------


def _others(all_of_them: bool) -> dict[str, Any]:
    """What NumPy makes of the same data, and where they are installed and asked for, PyTorch and
    JAX.
    """
    found: dict[str, Any] = {
        "columns": {"numpy": lambda x: x.sum(0)},
        "rows": {"numpy": lambda x: x.sum(1)},
        "running": {"numpy": lambda x: x.cumsum(0)},
        "product": {"numpy": lambda x: x[:64] @ x[64:128].T},
    }
    if not all_of_them:
        return found
    try:
        import torch
    except ImportError:
        pass
    else:
        found["columns"]["torch"] = lambda x: torch.from_numpy(x).sum(0).numpy()
        found["rows"]["torch"] = lambda x: torch.from_numpy(x).sum(1).numpy()
        found["product"]["torch"] = lambda x: (
            torch.from_numpy(x[:64]) @ torch.from_numpy(x[64:128]).T
        ).numpy()
    try:
        import jax.numpy as jnp
    except ImportError:
        pass
    else:
        found["columns"]["jax"] = lambda x: np.asarray(jnp.sum(x, 0))
        found["rows"]["jax"] = lambda x: np.asarray(jnp.sum(x, 1))
        found["running"]["jax"] = lambda x: np.asarray(jnp.cumsum(x, 0))
        found["product"]["jax"] = lambda x: np.asarray(jnp.matmul(x[:64], x[64:128].T))
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("draw", ["uniform", "normal"])
@pytest.mark.parametrize("kind", ["columns", "rows", "running", "product"])
@pytest.mark.parametrize("length", [512, 4096, 32768])
def test_no_worse_than_others(
    kind: str, length: int, draw: str, request: pytest.FixtureRequest
) -> None:
    """The root of the mean square of the errors of hundreds of sums is at most the least of theirs,
    but for chance and a rounding of the result: a twentieth, and half a unit in its last place."""
    rng = np.random.default_rng(length)
    shape = (length, 160) if kind in ("columns", "running") else (160, length)
    x = (
        rng.random(shape, np.float32)
        if draw == "uniform"
        else rng.standard_normal(shape).astype(np.float32)
    )
    p = Node.of(Param("x", Type(DType.F32, shape), "input"))
    left, right = (
        (Node.of(Slice((first, 0), (first + 64, length), (1, 1)), p) for first in (0, 64))
        if kind == "product"
        else (p, p)
    )
    node = {
        "columns": lambda: Node.of(Reduce(axes=(0,), combine="add"), p),
        "rows": lambda: Node.of(Reduce(axes=(1,), combine="add"), p),
        "running": lambda: Node.of(Cumulative(axis=0, combine="add"), p),
        "product": lambda: Node.of(Dot((), (), (1,), (1,)), left, right),
    }[kind]()
    ours = np.asarray(compile_model(Model(Graph("sums", (p,), {"y": node}), {}), target="cpu")(x=x))
    wide = x.astype(np.float64)
    exact = {
        "columns": lambda: wide.sum(0),
        "rows": lambda: wide.sum(1),
        "running": lambda: wide.cumsum(0),
        "product": lambda: wide[:64] @ wide[64:128].T,
    }[kind]()

    def error(found: Any) -> float:
        return float(np.sqrt(np.mean((found.astype(np.float64) - exact) ** 2)))

    others = _others(bool(request.config.getoption("--all")))[kind]
    rounding = float(np.sqrt(np.mean((np.abs(exact) * U) ** 2)))
    assert error(ours) <= 1.05 * min(error(other(x)) for other in others.values()) + rounding / 2
