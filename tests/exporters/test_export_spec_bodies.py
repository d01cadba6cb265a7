"""Bodies of loops, branches and operations, written as a spec, load to the same graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from spec_rereading import BOOL, F32, I32, of, same, vector

from xlac.ir.graph import Node
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control import control, effect
from xlac.ops.reduction import order, reduction
from xlac.ops.reduction.window import Window
from xlac.ops.tensor.scatter import Scatter
from xlac.spec.text.format import canonical


def test_bodies_of_operations(tmp_path: Path) -> None:
    x, y = vector("x", F32, 3, 5), vector("y", I32, 3, 5)
    zero, none = build.constant(0.0), build.constant(-1, I32)
    scalars = [Type(F32), Type(I32)]

    def best(a: Node, i: Node, b: Node, j: Node) -> tuple[Node, Node]:
        first = build.compare(a, "ge", b)
        return build.select(first, a, b), build.select(first, i, j)

    arg = build.results(
        Node.of(
            reduction.Reduce((1,), "body", build.graph("best", [*scalars, *scalars], best)),
            x,
            y,
            zero,
            none,
        )
    )
    ones = (1, 1)
    add = build.graph("add", [Type(F32), Type(F32)], lambda a, b: build.add(a, b))
    window = Node.of(Window("body", add, (1, 2), ones, (0, 0), (0, 0), ones, ones), x, zero)
    less = build.graph("less", [Type(F32), Type(F32)], lambda a, b: build.compare(a, "lt", b))
    sort = Node.of(order.Sort(1, body=less), x)
    twice = build.graph("twice", [Type(F32, (3, 5))], lambda a: build.mul(a, 2.0))
    call = Node.of(control.Call(twice, "twice"), x)
    mix = build.graph("mix", [Type(F32), Type(F32)], lambda a, b: build.mul(build.add(a, b), 0.5))
    at = vector("at", I32, 2, 1)
    scatter = Node.of(
        Scatter((1,), (0,), (), (), (0,), 1, "body", mix), x, at, vector("u", F32, 2, 5)
    )
    outputs = {"value": arg[0], "at": arg[1], "w": window, "s": sort, "c": call, "sc": scatter}
    found = same(of(outputs, x, y, at, scatter.inputs[2]), tmp_path)
    written = (tmp_path / "again.yaml").read_text()
    assert "inputs: {x0:" in written and "$" not in written
    assert canonical(tmp_path / "again.yaml", written)
    assert list(found.graph.outputs) == list(outputs)


def test_a_loop_with_values_that_pass_through_anywhere(tmp_path: Path) -> None:
    """Values that a loop hands on unchanged: behind the others they are `with`, elsewhere they are
    carried.
    """
    types = [Type(F32), Type(F32), Type(I32), Type(F32)]
    cond = build.graph("cond", types, lambda a, k, i, c: build.compare(i, "lt", 5))
    body = build.graph("body", types, lambda a, k, i, c: (build.mul(a, k), k, build.add(i, 1), c))
    given = [vector(n, t.dtype, 1) for n, t in zip("akic", types, strict=True)]
    scalars = [build.reshape(g, ()) for g in given]
    loop = Node.of(control.While(cond, body), *scalars)
    same(of({"a": build.pick(loop, 0)}, *given), tmp_path)
    assert (
        "carry: {x0: " in (text := (tmp_path / "again.yaml").read_text()) and "with: {x3: " in text
    )
    same(of({"a": build.pick(loop, 0), "c": build.pick(loop, 3)}, *given), tmp_path)
    assert "with" not in (tmp_path / "again.yaml").read_text()


def test_a_scan_is_handed_what_it_is_in_order(tmp_path: Path) -> None:
    """Twice the same value, one that is not read, a constant: all are operands as they were."""
    vec, x, w = Type(F32, (4,)), vector("x", F32, 6, 4), vector("w")
    five = build.constant(np.arange(4, dtype=np.float32))

    def step(h: Node, s: Node, a: Node, unused: Node, b: Node, c: Node) -> tuple[Node, Node]:
        new = build.add(build.mul(h, a), build.add(s, build.mul(b, c)))
        return new, build.sub(new, s)

    body = build.graph("step", [vec] * 6, step)
    scan = Node.of(control.Scan(body, 6, 1, 1, True), w, x, w, w, five, w)
    same(of({"h": build.pick(scan, 0), "y": build.pick(scan, 1)}, x, w), tmp_path)


def test_choices(tmp_path: Path) -> None:
    vec, x, flag, number = (
        Type(F32, (4,)),
        vector("x"),
        vector("flag", BOOL, 1),
        vector("number", I32, 1),
    )
    branches = [
        build.graph(f"b{k}", [vec, vec], lambda a, b, k=k: (build.add(a, float(k)), b))
        for k in range(3)
    ]
    by_number = Node.of(control.Cond(tuple(branches)), build.reshape(number, ()), x, x)
    by_flag = Node.of(
        control.Cond(tuple(branches[:2])), build.cast(build.reshape(flag, ()), I32), x, x
    )
    same(
        of({"n": build.pick(by_number, 1), "f": build.pick(by_flag, 0)}, x, flag, number), tmp_path
    )
    written = (tmp_path / "again.yaml").read_text()
    assert "branches:" in written and "then:" in written and "else:" in written


def test_custom_calls_keep_their_types_and_text(tmp_path: Path) -> None:
    x = vector("x")
    op = effect.CustomCall(
        "a $name: with 'quotes'",
        (("rate", 0.5), ("modes", ("p", "$q"))),
        (Type(F32, (2, 3)), Type(BOOL)),
    )
    made = build.results(Node.of(op, x))
    same(of({"a": made[0], "b": made[1]}, x), tmp_path)
