"""Collectives: their meaning for all ranks, other forms of themselves, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.interpret import interpret
from xlac.ir.op import ShapeError
from xlac.ir.ranks import interpret_ranks
from xlac.ir.types import Type
from xlac.ops import OPS, build
from xlac.ops.collective.group import Collective, MeshAxes
from xlac.spmd.varying import vary
from xlac_sdk.dtypes import DType
from xlac_sdk.source import UnsupportedError

MESH: MeshAxes = (("data", 2), ("model", 3))
RNG = np.random.default_rng(7)


def ranks(node: Node, **arrays: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    params = tuple(n for n in Graph("", (), {"y": node}).nodes() if n.op.mnemonic == "param")
    return interpret_ranks(Graph("g", params, {"y": node}), MESH, arrays)["y"]


def param(shape: tuple[int, ...], dtype: DType = DType.F32, name: str = "x") -> Node:
    return build.param(name, dtype, shape)


def over(mnemonic: str, *inputs: Node, axes: tuple[str, ...], **about: Any) -> Node:
    return apply(mnemonic, *inputs, mesh=MESH, axes=axes, **about)


def drawn(*shape: int) -> np.ndarray:  # type: ignore[type-arg]
    return RNG.standard_normal((2, 3, *shape)).astype(np.float32)


@pytest.mark.parametrize("combine", ["add", "mul", "max", "min"])
def test_all_reduce_combines_the_ranks_of_each_group(combine: str) -> None:
    x = drawn(4)
    function = {"add": np.sum, "mul": np.prod, "max": np.max, "min": np.min}[combine]
    got = ranks(over("all_reduce", param((4,)), axes=("model",), combine=combine), x=x)
    wanted = np.broadcast_to(function(x, axis=1, keepdims=True), x.shape)  # type: ignore[operator]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_ranks_count_in_the_order_of_the_axes_named() -> None:
    numbers = ranks(over("axis_index", axes=("model", "data")))
    np.testing.assert_array_equal(numbers, [[0, 2, 4], [1, 3, 5]])
    np.testing.assert_array_equal(ranks(over("axis_index", axes=("data",))), [[0] * 3, [1] * 3])


def test_gather_and_scatter_along_any_axis() -> None:
    x = np.rint(8 * drawn(2, 6))  # sums of whole numbers are exact in any order
    whole = ranks(over("all_gather", param((2, 6)), axes=("model",), axis=1), x=x)
    for data in range(2):
        np.testing.assert_array_equal(whole[data, 2], np.concatenate(list(x[data]), axis=1))
    part = ranks(over("reduce_scatter", param((2, 6)), axes=("model",), axis=-1), x=x)
    for data in range(2):
        for model in range(3):
            wanted = x[data].sum(0)[:, 2 * model : 2 * model + 2]
            np.testing.assert_array_equal(part[data, model], wanted)


def test_all_to_all_permute_and_broadcast() -> None:
    x = drawn(6, 2)
    got = ranks(over("all_to_all", param((6, 2)), axes=("model",), split=0, concat=1), x=x)
    wanted = np.concatenate([x[1, source, 2:4] for source in range(3)], axis=1)
    np.testing.assert_array_equal(got[1, 1], wanted)
    pairs = ((0, 1), (1, 2))
    moved = ranks(over("collective_permute", param((6, 2)), axes=("model",), pairs=pairs), x=x)
    np.testing.assert_array_equal(moved[:, 1:], x[:, :2])
    assert not moved[:, 0].any()
    same = ranks(over("collective_broadcast", param((6, 2)), axes=("data",), root=1), x=x)
    np.testing.assert_array_equal(same, np.broadcast_to(x[1], x.shape))


@pytest.mark.parametrize(
    "node",
    [
        over("all_gather", param((2, 6)), axes=("model",), axis=1),
        over("all_gather", param((2, 6)), axes=("model", "data"), axis=-1),
        over("reduce_scatter", param((2, 6)), axes=("model",), axis=1),
        over("reduce_scatter", param((3, 6), DType.F16), axes=("model",), axis=0),
        over("all_to_all", param((2, 6)), axes=("model",), split=1, concat=0),
        over("all_to_all", param((6, 2)), axes=("model",), split=0, concat=1),
        over("all_reduce", param((5,), DType.BF16), axes=("data",)),
    ],
    ids=lambda node: f"{node.op.mnemonic} {node.inputs[0].type}",
)
def test_other_forms_expand_to_steps(node: Node) -> None:
    """Programs have steps for the first axis and whole types alone."""
    op, (x,) = node.op, node.inputs
    assert isinstance(op, Collective) and not op.is_step(x.type)
    expanded = op.expanded(x)[0]
    inner = [n for n in Graph("", (), {"y": expanded}).nodes() if isinstance(n.op, Collective)]
    assert [n.op.is_step(*(i.type for i in n.inputs)) for n in inner] == [True]  # type: ignore[attr-defined]
    given = drawn(*x.shape).astype(x.type.dtype.numpy)  # type: ignore[arg-type]
    np.testing.assert_array_equal(ranks(node, x=given), ranks(expanded, x=given))


def loss_of_parts(x: Node, w: Node) -> Node:
    """Uses every collective that has a derivative, over values that differ and that are shared."""
    h = build.mul(x, w)
    h = build.add(h, over("all_reduce", h, axes=("model",), combine="max"))
    h = build.mul(h, over("collective_broadcast", h, axes=("model",), root=1))
    whole = over("all_gather", h, axes=("model",), axis=0)
    back = over("reduce_scatter", apply("sin", whole), axes=("model",), axis=0)
    turned = over("all_to_all", back, axes=("model",), split=1, concat=0)
    pairs = ((0, 2), (1, 0))
    moved = over("collective_permute", turned, axes=("model",), pairs=pairs)
    shared = over("all_gather", h, axes=("model",), axis=1, shared=True)
    product = over("all_reduce", build.add(h, 2.0), axes=("model",), combine="mul")
    own = build.add(build.mul(moved, turned), 0.5)
    total = over("all_reduce", reduced(own), axes=("model",))
    total = build.add(total, build.add(reduced(apply("cos", shared)), reduced(product)))
    return over("all_reduce", total, axes=("data",))


def reduced(x: Node) -> Node:
    return apply("reduce", x, axes=tuple(range(x.type.rank)), combine="add")


def test_derivatives_equal_differences() -> None:
    """Of a loss over values that differ between ranks and a weight that they share: the weight's
    gradient is one value, and that of each rank's x is its own.
    """
    x, w = build.param("x", DType.F64, (3, 6)), build.param("w", DType.F64, (3, 6))
    every = frozenset(("data", "model"))
    plain = Graph("loss", (x, w), {"loss": loss_of_parts(x, w)})
    graph = vary(plain, MESH, {"x": every})
    linear = linearize([graph.outputs["loss"]], graph.inputs)
    by_x, by_w = linear.transposed([build.as_node(1.0, DType.F64)])
    whole = Graph("g", graph.inputs, {**graph.outputs, "by_x": by_x, "by_w": by_w})
    given = {"x": RNG.standard_normal((2, 3, 3, 6)), "w": RNG.standard_normal((3, 6))}

    def at(x: Any, w: Any, graph: Graph = plain) -> dict[str, Any]:
        return interpret_ranks(graph, MESH, {"x": x, "w": np.broadcast_to(w, (2, 3, 3, 6))})

    made = at(given["x"], given["w"], whole)
    np.testing.assert_array_equal(made["by_w"], np.broadcast_to(made["by_w"][0, 0], (2, 3, 3, 6)))
    for _ in range(3):
        dx, dw = RNG.standard_normal((2, 3, 3, 6)), RNG.standard_normal((3, 6))
        step = 1e-6
        up, down = (
            at(given["x"] + sign * step * dx, given["w"] + sign * step * dw)["loss"][0, 0]
            for sign in (1, -1)
        )
        along = (made["by_x"] * dx).sum() + (made["by_w"][0, 0] * dw).sum()
        np.testing.assert_allclose(along, (up - down) / (2 * step), rtol=1e-5)


def test_a_sum_of_what_ranks_share_is_refused() -> None:
    x = param((4,))
    graph = Graph("g", (x,), {"y": over("all_reduce", x, axes=("model",))})
    with pytest.raises(ShapeError, match="count it once for each"):
        vary(graph, MESH, {})
    assert vary(graph, MESH, {"x": frozenset({"model"})}) is not None


@pytest.mark.parametrize(
    ("mnemonic", "about", "problem"),
    [
        ("all_reduce", {"axes": ()}, "distinct axes of the mesh"),
        ("all_reduce", {"axes": ("rows",)}, "distinct axes of the mesh"),
        ("all_reduce", {"axes": ("data",), "combine": "xor"}, "cannot combine"),
        ("reduce_scatter", {"axes": ("model",), "axis": 0}, "3 equal parts, which 4 has not"),
        ("all_to_all", {"axes": ("data",), "split": 2}, "out of range"),
        ("collective_permute", {"axes": ("data",), "pairs": ((0, 1), (1, 1))}, "distinct sources"),
        ("collective_broadcast", {"axes": ("data",), "root": 2}, "below 2"),
    ],
)
def test_what_does_not_fit_is_said(mnemonic: str, about: dict[str, Any], problem: str) -> None:
    with pytest.raises(ShapeError, match=problem):
        over(mnemonic, param((4, 6)), **about)


def test_one_process_has_no_other_ranks() -> None:
    x = build.param("x", DType.F32, (4,))
    graph = Graph("g", (x,), {"y": over("all_reduce", x, axes=("model",))})
    with pytest.raises(UnsupportedError, match="needs the ranks of mesh data=2,model=3"):
        interpret(graph, {"x": np.zeros(4, np.float32)})


def test_every_collective_is_tested_here() -> None:
    declared = {name for name, op in OPS.items() if issubclass(op, Collective)}
    moving = "reduce_scatter all_gather all_to_all collective_permute collective_broadcast"
    assert declared == {*moving.split(), "all_reduce", "axis_index", "varying"}
    assert Type(DType.I32) == over("axis_index", axes=("data",)).type
