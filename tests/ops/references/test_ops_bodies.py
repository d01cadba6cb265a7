"""Operations with bodies: scatter, reductions, loops and branches."""

from __future__ import annotations

import numpy as np
from reference_runs import normal

from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import OPS
from xlac.ops import build
from xlac_sdk.dtypes import DType


def test_scatter_by_body_and_reduce_by_body() -> None:
    from xlac.ir.types import Type
    from xlac.ops.reduction.reduction import Reduce
    from xlac.ops.tensor.scatter import Scatter

    f64 = Type(DType.F64)
    body = build.graph("combine", [f64, f64], lambda a, b: build.add(build.mul(a, 2.0), b))
    x, i, u = (
        build.param(n, t, s)
        for n, t, s in (("x", DType.F64, (4,)), ("i", DType.I64, (3, 1)), ("u", DType.F64, (3,)))
    )
    node = Node.of(Scatter((), (0,), (), (), (0,), 1, "body", body), x, i, u)
    inputs = {"x": np.ones(4), "i": np.array([[1], [1], [7]]), "u": np.array([10.0, 100.0, 9.0])}
    assert interpret(Graph("g", (x, i, u), {"y": node}), inputs)["y"].tolist() == [1, 124, 1, 1]
    pair = [f64, Type(DType.I64)]

    def larger(a: Node, i: Node, b: Node, j: Node) -> tuple[Node, Node]:
        keep = build.compare(a, "ge", b)
        return build.select(keep, a, b), build.select(keep, i, j)

    best = build.graph("argmax", [*pair, *pair], larger)
    x = build.param("x", DType.F64, (2, 5))
    operands = (
        x,
        build.iota((2, 5), 1),
        build.constant(-np.inf, DType.F64),
        build.constant(-1, DType.I64),
    )
    node = Node.of(Reduce((1,), "body", best), *operands)
    values = normal(2, 5)
    found = interpret(
        Graph("g", (x,), {"v": build.pick(node, 0), "i": build.pick(node, 1)}), {"x": values}
    )
    assert np.array_equal(found["i"], values.argmax(1)) and np.array_equal(
        found["v"], values.max(1)
    )


def test_loops_and_branches() -> None:
    from xlac.ir.types import Type
    from xlac.ops.control.control import Call, Cond, Scan, While

    i32, f64 = Type(DType.I32), Type(DType.F64)
    below = build.graph("below", [i32, f64], lambda n, x: build.compare(n, "lt", 5))
    step = build.graph("step", [i32, f64], lambda n, x: (build.add(n, 1), build.mul(x, 2.0)))
    x = build.param("x", DType.F64)
    loop = Node.of(While(below, step), build.constant(0, DType.I32), x)
    twice = Node.of(Call(build.graph("twice", [f64], lambda a: build.mul(a, 2.0)), "twice"), x)
    which = build.param("which", DType.I32)
    branches = tuple(
        build.graph(f"b{k}", [f64], lambda a, k=k: build.add(a, float(k))) for k in range(3)
    )
    chosen = Node.of(Cond(branches), which, x)
    xs = build.param("xs", DType.F64, (4,))
    total = build.graph(
        "total", [f64, f64, f64], lambda c, v, k: (build.add(c, build.mul(v, k)), build.add(c, v))
    )
    for reverse in (False, True):
        scan = Node.of(Scan(total, 4, 1, 1, reverse), build.constant(0.0, DType.F64), xs, x)
        outputs = {
            "loop": build.pick(loop, 1),
            "twice": twice,
            "chosen": chosen,
            "c": build.pick(scan, 0),
            "ys": build.pick(scan, 1),
        }
        graph = Graph("g", (x, which, xs), outputs)
        values = np.array([1.0, 2.0, 3.0, 4.0])
        for number, wanted in ((0, 3.0), (2, 5.0), (7, 5.0), (-1, 5.0)):
            found = interpret(graph, {"x": np.float64(3), "which": np.int32(number), "xs": values})
            assert found["chosen"] == wanted and found["loop"] == 96 and found["twice"] == 6
        assert found["c"] == 30
        assert found["ys"].tolist() == ([28.0, 23.0, 15.0, 4.0] if reverse else [1, 5, 12, 22])
    assert "scan" in OPS
