"""Graphs as text, and back; and what the verifier finds."""

from __future__ import annotations

import numpy as np
import pytest

from xlac.ir.composite import Composite
from xlac.ir.dims import symbol
from xlac.ir.graph import Graph, Node, walk
from xlac.ir.op import OPS
from xlac.ir.text import parse, show
from xlac.ir.types import Type
from xlac.ir.verify import GraphError, verify
from xlac.ops import build
from xlac.ops.control.control import Pick, Scan
from xlac.ops.scalar.arithmetic import Add
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType
from xlac_sdk.source import Origin

F32 = Type(DType.F32)


def same(a: Graph, b: Graph) -> None:
    """Equal node by node."""
    left, right = (
        list(walk((*a.inputs, *a.outputs.values()))),
        list(walk((*b.inputs, *b.outputs.values()))),
    )
    assert len(left) == len(right) and a.name == b.name and list(a.outputs) == list(b.outputs)
    place = {n: k for k, n in enumerate(right)}
    for k, (x, y) in enumerate(zip(left, right, strict=True)):
        assert place[y] == k and x.types == y.types and x.name == y.name
        assert [left.index(i) for i in x.inputs] == [place[i] for i in y.inputs]
        if not x.op.bodies():
            assert x.op == y.op, (x.op, y.op)
        for inner, other in zip(x.op.bodies(), y.op.bodies(), strict=True):
            same(inner, other)


def round_trip(graph: Graph) -> str:
    text = show(graph)
    again = parse(text)
    same(graph, again)
    verify(again)
    assert show(again) == text
    return text


@pytest.mark.parametrize(
    "name",
    sorted(
        set(OPS)
        - set(
            (
                "param const pick cond while scan call custom_call bounded_while counted_scan "
                "custom_gradient custom_change custom_op"
            ).split()
        )
    ),
)
@pytest.mark.sampled(8)
def test_every_operation_reads_back(name: str) -> None:
    for sample in list(OPS[name].samples())[:6]:
        params = tuple(build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs))
        op = OPS[name](**sample.attributes)
        nodes = build.results(Node.of(op, *params))
        round_trip(Graph(name, params, {f"y{n}": node for n, node in enumerate(nodes)}))
        if isinstance(op, Composite):
            found = op.expand(*params)
            roots = found if isinstance(found, tuple) else (found,)
            round_trip(Graph(name, params, {f"y{n}": node for n, node in enumerate(roots)}))


def test_names_that_are_not_words() -> None:
    names = [
        'quote " in',
        "tab\tnewline\n",
        "naïve ☃",
        "{{ jinja }}",
        "return",
        "inputs",
        "inf",
        "nan.x",
        "-1",
        "# no",
        "a = b",
        "layer.0.h1",
        "",
    ]
    params = tuple(Node.of(Param(n, F32), origin=Origin(n)) for n in names)
    graph = Graph(
        "it's \\ a } graph", params, {n or "empty": p for n, p in zip(names, params, strict=True)}
    )
    text = round_trip(graph)
    assert "layer.0.h1 = param" in text


def test_values_keep_their_bits() -> None:
    rng = np.random.default_rng(0)
    numbers = [0.1, -0.0, np.inf, -np.inf, 1e-45, 3.4e38]
    for dtype in DType:
        with np.errstate(over="ignore"):
            held = np.array(numbers if dtype.is_float else [0, 1, 2], dtype.compute.numpy).astype(
                dtype.numpy
            )
        x = build.constant(held)
        large = build.constant(rng.integers(0, 2, 50).astype(dtype.numpy))
        again = parse(show(Graph("values", (), {"x": x, "large": large})))
        for node, name in ((x, "x"), (large, "large")):
            assert again.outputs[name].op.value.tobytes() == node.op.value.tobytes()  # type: ignore[attr-defined]
    odd = np.array([0x7FC00001, 0xFFC12345], np.uint32).view(np.float32)  # NaNs with a payload
    found = (
        parse(show(Graph("nan", (), {"x": build.constant(odd)}))).outputs["x"].op.value.tobytes()
    )  # type: ignore[attr-defined]
    assert found == odd.tobytes()


def test_symbolic_sizes_and_bodies() -> None:
    B, T = symbol("B", 1, 64, 8), symbol("T", 2, 100, multiple_of=2)
    x = build.param("x", DType.F32, (B, T * 2, 4))
    y = build.reshape(x, (B * T, -1))
    z = build.slice_(x, (0, 1, 0), (B, T // 3 + 1, 4))
    scan = Node.of(
        Scan(build.graph("body", [F32, F32], lambda c, v: (build.add(c, v), c)), B, 1, 1),
        build.constant(0.0),
        build.param("xs", DType.F32, (B,)),
    )
    inputs = (x, scan.inputs[1])
    text = round_trip(
        Graph(
            "sizes",
            inputs,
            {"y": y, "z": z, "last": build.pick(scan, 0), "all": build.pick(scan, 1)},
        )
    )
    assert "dim B min=1 max=64 opt=8 multiple_of=1" in text and "graph @1 body" in text


def test_errors_name_the_line() -> None:
    text = show(Graph("g", (), {"y": build.add(build.constant([1.0]), 2.0)}))
    with pytest.raises(ValueError, match="line 3"):
        parse(text.replace("%1 = const", "%1 = cnst"))
    with pytest.raises(ValueError, match="no graph"):
        parse("")


def broken(graph: Graph, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        verify(graph)


def test_verifier() -> None:
    x = build.param("x", DType.F32, (3,))
    y = build.param("y", DType.F32, (4,))
    verify(Graph("fine", (x,), {"y": build.add(x, 1.0)}))
    broken(Graph("g", (x,), {}), "no outputs")
    broken(Graph("g", (x,), {"y": Node(Add(), (x, x), Type(DType.F32, (5,)))}), "says f32\\[5\\]")
    broken(Graph("g", (x, y), {"y": Node(Add(), (x, y), x.type)}), "equal shapes")
    broken(Graph("g", (), {"y": build.add(x, 1.0)}), "not among the inputs")
    broken(Graph("g", (x, build.param("x", DType.F32, (3,))), {"y": x}), "two parameters")
    several = Node.of(OPS["topk"](k=1), x)
    broken(Graph("g", (x,), {"y": several}), "several results")
    broken(
        Graph("g", (x,), {"y": Node(Pick(0), (x,), x.type)}), "needs a node with several results"
    )
    open_body = Graph(
        "body",
        (build.param("c", DType.F32), build.param("v", DType.F32)),
        {"c": build.param("z", DType.F32), "y": build.constant(1.0)},
    )
    scan = Node.of(Scan(open_body, 3, 1, 1), build.constant(0.0), x)
    broken(Graph("g", (x,), {"y": build.pick(scan, 1)}), "a body is closed")
