"""Sums over ranks after operations that are linear in them, and out of loops: all ranks
interpreted, beside the graph that was partitioned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import numpy as np
import parted
import pytest
from test_loop_collectives import drawn, kinds

from xlac.ir.graph import Graph, Node, apply, pick
from xlac.ir.types import Type
from xlac.ops import build
from xlac.ops.control.control import Scan
from xlac.spmd.cost import NetworkLink, seconds
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import collectives, repeats
from xlac.spmd.partition import Partitioned, partitioned
from xlac_sdk.dtypes import DType

DATA = Mesh((("data", 2),))
ROWS: Sharding = (("data",), ())


def wire(made: Partitioned) -> float:
    """The predicted time of all messages."""
    times = repeats(made.graph)
    return sum(
        (times[n] or 1) * seconds(n, NetworkLink()) for n, _ in collectives(made) if n.inputs
    )


class LinearGraph:
    """A random graph of sums over the rows of x, which ranks have in parts, of what is linear in
    them, and here and there of what is not.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.x = build.param("x", DType.F32, (8, 6))
        self.flag, self.scale = build.param("flag", DType.BOOL, ()), build.param("s", DType.F32, ())
        self.shared = build.param("shared", DType.F32, (4, 6))
        self.values = [self.sum() for _ in range(3)]

    def sum(self) -> Node:
        """A matrix of shape (4, 6)."""
        table = build.constant(np.asarray(self.random.choices(range(-3, 4), k=32)), DType.F32)
        return build.dot(build.reshape(table, (8, 4)), self.x, ((0,), (0,)))

    def step(self) -> Node:
        random = self.random
        one, other = random.choice(self.values), random.choice(self.values)
        turned = build.reshape(build.transpose(one, (1, 0)), (4, 6))
        joined = apply("concat", one, other, axis=0)
        return random.choice(
            [
                lambda: build.add(one, other),
                lambda: build.sub(one, other),
                lambda: build.add(one, self.shared),
                lambda: build.mul(one, self.scale),
                lambda: build.div(one, build.add(build.mul(self.scale, self.scale), 1.0)),
                lambda: build.select(self.flag, one, other),
                lambda: build.select(self.flag, one, self.shared),
                lambda: turned,
                lambda: build.cast(build.cast(one, DType.F64), DType.F32),
                lambda: apply("slice", joined, starts=(2, 0), stops=(6, 6), steps=(1, 1)),
                lambda: build.broadcast_to(build.reduce(one, "add", (0,)), (4, 6)),
                lambda: build.mul(one, other),
                lambda: build.apply1("tanh", one),
            ]
        )()

    def graph(self) -> Graph:
        for _ in range(self.random.randint(2, 9)):
            self.values.append(self.step())
        some = self.random.sample(self.values, 2)
        outputs = {"a": some[0], "b": build.reduce(some[1], "add", (1,)), "c": self.values[-1]}
        return Graph("g", (self.x, self.flag, self.scale, self.shared), outputs)

    def arrays(self) -> dict[str, Any]:
        rng = np.random.default_rng(self.random.randint(0, 999))
        given: dict[str, Any] = drawn(self.x, self.shared)
        return {**given, "flag": rng.random() < 0.5, "s": np.float32(rng.random())}


def unmoved(graph: Graph, mesh: Mesh, given: Mapping[str, Sharding]) -> Partitioned:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("xlac.spmd.partition.move_sums", lambda flow, why, mesh: (flow.graph, why))
        return partitioned(graph, mesh, given)


@pytest.mark.parametrize("batch", range(8))
def test_random_linear_graphs(batch: int) -> None:
    """Equal, in no more time, and often in less."""
    fewer = 0
    for seed in range(batch * 12, batch * 12 + 12):
        case = LinearGraph(Random(seed))
        graph, mesh = case.graph(), Random(seed).choice([DATA, Mesh((("data", 3),))])
        made = partitioned(graph, mesh, {"x": ROWS})
        parted.check(graph, made, case.arrays(), {})
        before = wire(unmoved(graph, mesh, {"x": ROWS}))
        assert wire(made) <= before * (1 + 1e-9)
        fewer += wire(made) < before
    assert fewer


def summed(x: Node, size: int = 4) -> Node:
    return build.dot(x, x, ((0,), (0,)))


def test_a_value_that_all_have_is_added_once() -> None:
    """A residual between two sums: one message, to which the first rank adds it."""
    x, r = build.param("x", DType.F32, (8, 6)), build.param("r", DType.F32, (6, 6))
    y = build.add(build.add(summed(x), r), build.mul(summed(build.apply1("tanh", x)), 2.0))
    graph = Graph("g", (x, r), {"y": y})
    made = partitioned(graph, DATA, {"x": ROWS})
    assert kinds(made) == {"all_reduce": 1}
    parted.check(graph, made, drawn(x, r), {})


def test_sums_in_parts_are_one() -> None:
    """What is wanted in parts is, of several sums, one `reduce_scatter`."""
    x, s = build.param("x", DType.F32, (8, 6)), build.param("s", DType.F32, ())
    part = build.apply1("shard", build.mul(summed(x), s), axes=("data", None))
    more = build.apply1("shard", summed(build.apply1("tanh", x)), axes=("data", None))
    graph = Graph("g", (x, s), {"y": build.sub(part, build.div(more, 3.0))})
    made = partitioned(graph, DATA, {"x": ROWS})
    assert kinds(made) == {"reduce_scatter": 1}
    parted.check(graph, made, {**drawn(x), "s": np.float32(0.7)}, {})


def test_a_sum_stays_where_it_is_read() -> None:
    """Batch norm's: its mean is subtracted, and goes into what is kept; a second sum of that would
    be dearer.
    """
    x, kept = build.param("x", DType.F32, (8, 6)), build.param("kept", DType.F32, (6,))
    mean = build.div(build.reduce(x, "add", (0,)), 8.0)
    outputs = {
        "y": build.sub(x, build.broadcast_to(mean, (8, 6))),
        "next": build.add(build.mul(kept, 0.9), build.mul(mean, 0.1)),
    }
    graph = Graph("g", (x, kept), outputs)
    made = partitioned(graph, DATA, {"x": ROWS})
    assert kinds(made) == {"all_reduce": 1}
    parted.check(graph, made, drawn(x, kept), {})


@pytest.mark.parametrize("form", ["scaled", "selected", "cast", "two", "read", "squared"])
@pytest.mark.parametrize("zero", [True, False])
def test_what_loops_carry(form: str, zero: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A carried sum that is scaled, chosen or widened is one of each rank until the loop ends; one
    that is read inside, or that the loop squares, is not.
    """
    monkeypatch.setattr("xlac.spmd.loops.says", lambda body: True)
    x, first = build.param("x", DType.F32, (5, 8, 4)), build.param("first", DType.F32, (4, 4))
    flag = build.param("flag", DType.BOOL, ())
    row = Type(DType.F32, (8, 4))

    def step(total: Node, s: Node, flag: Node) -> tuple[Node, ...]:
        part = summed(s)
        new = {
            "scaled": lambda: build.add(build.mul(total, 0.5), build.div(part, 3.0)),
            "selected": lambda: build.select(
                flag, build.add(total, part), build.apply1("neg", part)
            ),
            "cast": lambda: build.cast(
                build.add(build.cast(total, DType.F64), build.cast(part, DType.F64)), DType.F32
            ),
            "two": lambda: build.sub(build.add(total, part), summed(build.apply1("tanh", s))),
            "read": lambda: build.add(total, part),
            "squared": lambda: build.add(build.mul(total, total), part),
        }[form]()
        return (new, build.reduce(total, "add", (0, 1))) if form == "read" else (new,)

    body = build.graph("step", [first.type, row, flag.type], step)
    begin = build.like(0.0, first) if zero else first
    loop = Node.of(Scan(body, 5, 1, 1), begin, x, flag)
    graph = Graph("g", (x, first, flag), {"y": pick(loop, 0)})
    if form == "read":
        graph = Graph("g", (x, first, flag), {"y": pick(loop, 0), "z": pick(loop, 1)})
    made = partitioned(graph, DATA, {"x": ((), ("data",), ())})
    inside = form in ("read", "squared")
    assert kinds(made) == Counter({"all_reduce*" if inside else "all_reduce": 1})
    arrays = {**drawn(x, first), "flag": np.asarray(True)}
    parted.check(graph, made, arrays, {})
