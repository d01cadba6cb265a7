"""Manual computations: all ranks in one process give what the ranks give, each by itself."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from sampling import Some

from xlac.api import compile
from xlac.ir.graph import Graph, Node, apply
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS, ShapeError
from xlac.ir.text import parse, show
from xlac.ir.types import Type
from xlac.ir.verify import verify
from xlac.model import Model
from xlac.ops import build
from xlac.ops.collective.manual import ManualComputation
from xlac.ops.control.control import Cond, While
from xlac.ops.tensor.leaf import param
from xlac_sdk.dtypes import DType

MESH = (("a", 2), ("b", 3), ("c", 1))
WHOLE = ((), ())
ALONG = [("a",), ("b",), ("a", "b"), ("b", "a"), ("c", "a")]


def on_ranks(body: Graph, takes: Any, gives: Any, manual: Any = ("a", "b", "c")) -> Graph:
    """A graph of one computation on 2 x 3 ranks."""
    sizes = dict(MESH)
    shapes = [
        tuple(
            n * int(np.prod([sizes[a] for a in axes])) for n, axes in zip(i.shape, d, strict=True)
        )
        for i, d in zip(body.inputs, takes, strict=True)
    ]
    params = [
        build.param(f"x{n}", i.type.dtype, shape)
        for n, (i, shape) in enumerate(zip(body.inputs, shapes, strict=True))
    ]
    node = Node.of(ManualComputation(body, MESH, manual, takes, gives), *params)
    outputs = {f"y{n}": each for n, each in enumerate(build.results(node))}
    return Graph("g", tuple(params), outputs)


def agree(graph: Graph, seed: int = 0) -> dict[str, Any]:
    """What a graph gives, the same by its meaning, vectorized, and compiled."""
    verify(graph)
    assert show(parse(show(graph))) == show(graph)
    rng = np.random.default_rng(seed)
    given = {
        param(n).name: rng.integers(-8, 8, n.shape).astype(n.type.dtype.numpy) for n in graph.inputs
    }
    meant = interpret(graph, given)
    (node,) = [n for n in graph.nodes() if isinstance(n.op, ManualComputation)]
    results = node.op.expanded(*node.inputs)
    names = list(graph.outputs)
    one = interpret(Graph("one", graph.inputs, dict(zip(names, results, strict=True))), given)
    compiled = compile(Model(graph, {}, {}), target="reference")(**given)
    listed = compiled if isinstance(compiled, dict) else {names[0]: compiled}
    for name, array in meant.items():
        for found in (one[name], listed[name]):
            assert found.dtype == array.dtype
            np.testing.assert_array_equal(found, array)
    return meant


def local(*shape: int, name: str = "x", dtype: DType = DType.F32) -> Node:
    return build.param(name, dtype, shape)


def exchanges(along: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    """Every collective along some axes."""
    count = int(np.prod([dict(MESH)[axis] for axis in along]))
    shift = tuple((n, (n + 1) % count) for n in range(count))
    return [
        *(("all_reduce", {"combine": combine}) for combine in ("add", "mul", "max", "min")),
        *(("reduce_scatter", {"axis": axis}) for axis in (0, 1, -1)),
        *(("all_gather", {"axis": axis}) for axis in (0, 1, -1)),
        *(
            ("all_to_all", {"split": split, "concat": concat})
            for split, concat in ((0, 0), (0, 1), (1, 0), (-1, 0))
        ),
        ("collective_permute", {"pairs": shift}),
        ("collective_permute", {"pairs": shift[: count // 2]}),
        ("collective_permute", {"pairs": ()}),
        ("collective_broadcast", {"root": count - 1}),
        ("varying", {}),
    ]


@pytest.mark.parametrize("along", ALONG, ids="-".join)
def test_every_collective(along: tuple[str, ...], some: Some) -> None:
    divisions = (((("b", "a"), ())), ((), ("a",)), (("a",), ("b",)))
    for (mnemonic, attributes), division in some([*product(exchanges(along), divisions)], 2):
        x = local(6, 6)
        y = apply(mnemonic, x, mesh=MESH, axes=along, **attributes)
        agree(on_ranks(Graph("f", (x,), {"y": y}), (division,), ((("a",), ("b",)),)))


def test_halves_are_added_as_the_ranks_add_them() -> None:
    x = local(6, 4, dtype=DType.BF16)
    y = apply("all_reduce", x, mesh=MESH, axes=("a", "b"))
    agree(on_ranks(Graph("f", (x,), {"y": y}), ((("a", "b"), ()),), (WHOLE,)))


def test_a_rank_knows_its_place_with_no_operand() -> None:
    number = apply("axis_index", mesh=MESH, axes=("b", "a"))
    row = build.reshape(number, (1, 1))
    found = agree(on_ranks(Graph("f", (), {"y": row}), (), ((("a",), ("b",)),)))["y0"]
    assert found.tolist() == [[0, 2, 4], [1, 3, 5]]


def test_results_that_ranks_share_are_of_the_first() -> None:
    x = local(1, 2)
    found = agree(on_ranks(Graph("f", (x,), {"y": x}), ((("b",), ("a",)),), (((), ("a",)),)))["y0"]
    assert found.shape == (1, 4)


def test_values_that_all_ranks_have_are_computed_once() -> None:
    x, w = local(2, 3), local(3, 3, name="w")
    y = build.add(
        apply("dot", w, w, contract_lhs=(1,), contract_rhs=(0,)),
        build.reduce(apply("all_reduce", x, mesh=MESH, axes=("a", "b", "c")), "add", (0,)),
    )
    graph = on_ranks(Graph("f", (x, w), {"y": y}), ((("a",), ("b",)), WHOLE), (WHOLE,))
    agree(graph)
    (node,) = [n for n in graph.nodes() if isinstance(n.op, ManualComputation)]
    made = Graph("one", graph.inputs, {"y": node.op.expanded(*node.inputs)[0]})
    (product,) = [n for n in made.nodes() if n.op.mnemonic == "dot"]
    assert product.shape == (3, 3)


def test_ranks_that_do_the_same_are_computed_once() -> None:
    x, w = local(2, 3), local(3, 4, name="w")
    product = apply("dot", x, w, contract_lhs=(1,), contract_rhs=(0,))
    graph = on_ranks(Graph("f", (x, w), {"y": product}), ((("a",), ()), WHOLE), ((("a",), ()),))
    agree(graph)
    (node,) = [n for n in graph.nodes() if isinstance(n.op, ManualComputation)]
    made = Graph("one", graph.inputs, {"y": node.op.expanded(*node.inputs)[0]})
    assert [n.type.size for n in made.nodes() if n.op.mnemonic == "dot"] == [2 * 2 * 4]


def test_loops_and_branches_exchange_values() -> None:
    x, count = local(2, 2), local(name="n", dtype=DType.I32)
    moved = apply("collective_permute", x, mesh=MESH, axes=("b",), pairs=((0, 1), (1, 2), (2, 0)))
    body = Graph(
        "body", (x, count), {"x": build.add(build.mul(x, 2.0), moved), "n": build.add(count, 1)}
    )
    going = Graph("going", (x, count), {"y": build.compare(count, "lt", 3)})
    start = local(2, 2, name="start")
    loop = build.results(Node.of(While(going, body), start, build.constant(0, DType.I32)))[0]
    agree(on_ranks(Graph("f", (start,), {"y": loop}), ((("a",), ("b",)),), ((("a",), ("b",)),)))

    row = apply("axis_index", mesh=MESH, axes=("a",))  # of ranks that exchange values
    ways = (
        Graph("way", (x,), {"y": apply("all_reduce", x, mesh=MESH, axes=("b",))}),
        Graph("way", (x,), {"y": build.mul(x, 2.0)}),
    )
    chosen = Node.of(Cond(ways), row, start)
    agree(on_ranks(Graph("f", (start,), {"y": chosen}), ((("a",), ("b",)),), ((("a",), ("b",)),)))

    going = Graph("going", (x, count), {"y": build.compare(count, "lt", 3)})
    turn = {"x": apply("all_reduce", x, mesh=MESH, axes=("b",)), "n": build.add(count, 1)}
    rows = Node.of(While(going, Graph("turn", (x, count), turn)), start, build.mul(row, 2))
    loop = build.results(rows)[0]
    agree(on_ranks(Graph("f", (start,), {"y": loop}), ((("a",), ("b",)),), ((("a",), ("b",)),)))

    number = apply("axis_index", mesh=MESH, axes=("b",))
    ways = tuple(Graph("way", (x,), {"y": build.add(x, float(n))}) for n in range(3))
    chosen = Node.of(Cond(ways), number, start)
    agree(on_ranks(Graph("f", (start,), {"y": chosen}), ((("a",), ("b",)),), ((("a",), ("b",)),)))


def test_one_computation_in_another() -> None:
    z = local(2, 2, name="z")
    total = apply("all_reduce", z, mesh=MESH, axes=("b",))
    place = build.cast(apply("axis_index", mesh=MESH, axes=("a",)), DType.F32)
    inner = Graph("inner", (z,), {"y": build.add(total, place)})
    x = local(6, 2)
    op = ManualComputation(inner, MESH, ("b",), ((("b",), ()),), (WHOLE,))
    y = build.add(
        Node.of(op, x), apply("all_reduce", build.cut(x, 0, 0, 2), mesh=MESH, axes=("a",))
    )
    agree(on_ranks(Graph("f", (x,), {"y": y}), (((), ("a",)),), (((), ("a",)),), manual=("a",)))


def test_what_does_not_fit_is_refused() -> None:
    x = local(2, 2)
    body = Graph("f", (x,), {"y": x})
    fine: dict[str, Any] = {
        "body": body,
        "mesh": MESH,
        "manual": ("a", "b"),
        "takes": (WHOLE,),
        "gives": (WHOLE,),
    }
    for changed, problem in (
        ({"body": None}, "needs a body"),
        ({"mesh": (("a", 0),)}, "sizes from 1"),
        ({"manual": ("a", "z")}, "distinct axes of the mesh"),
        ({"takes": ()}, "'takes' says how each of 1 values"),
        ({"gives": (((),),)}, "'gives' does not fit"),
        ({"gives": ((("a",), ("a",)),)}, "'gives' does not fit"),
        ({"takes": ((("c",), ()),)}, "along 'c', which is not in 'manual'"),
        ({"takes": ((("b",), ()),)}, "no 3 equal parts"),
        ({"takes": ((("a",), ()),)}, r"takes \(f32\[2, 2\]\), but is given \(f32\[1, 2\]\)"),
    ):
        with pytest.raises(ShapeError, match=problem):
            OPS["manual_computation"](**{**fine, **changed}).infer(Type(DType.F32, (2, 2)))


def test_a_collective_of_two_computations_at_once_is_refused() -> None:
    z = local(2, name="z")
    inner = Graph("inner", (z,), {"y": apply("all_reduce", z, mesh=MESH, axes=("a", "b"))})
    x = local(2)
    op = ManualComputation(inner, MESH, ("b",), (((),),), (((),),))
    graph = on_ranks(Graph("f", (x,), {"y": Node.of(op, x)}), (((),),), (((),),), manual=("a",))
    (node,) = graph.outputs.values()
    with pytest.raises(ShapeError, match="axes of two manual computations"):
        node.op.expanded(*node.inputs)  # type: ignore[attr-defined]
