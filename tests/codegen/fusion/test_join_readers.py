"""Elementwise kernels that read what another writes, element by element, are one kernel."""

from __future__ import annotations

import numpy as np
from loops_harness import MASKED, graph_of, param

import xlac
from xlac.codegen.claims import kind_taken
from xlac.fusion.group import Group, Kind
from xlac.fusion.partition import partition
from xlac.ir.graph import Node
from xlac.model import Model
from xlac.ops import build

SHAPE = (96, 64)


def groups(outputs: list[Node]) -> list[Group]:
    found = partition(graph_of(*outputs), MASKED, kind_taken=kind_taken).groups
    return [group for group in found if group.kind is Kind.ELEMENTWISE]


def values(outputs: list[Node]) -> list[np.ndarray]:
    """What the compiled graph gives for drawn arrays, after a comparison with the reference's."""
    model = Model(graph_of(*outputs), {})
    rng = np.random.default_rng(0)
    given = [rng.uniform(0.5, 2, n.shape).astype(n.type.dtype.numpy) for n in model.graph.inputs]
    found, wanted = (xlac.compile(model, target=t)(*given) for t in ("cpu", "reference"))
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, atol=1e-6)
    return list(found.values())


def chosen(finite: Node, new: Node, old: Node) -> Node:
    return build.select(finite, new, old)


def update(turned: bool = False) -> list[Node]:
    """Momentum of a sum of two gradients, kept only where the loss is finite."""
    a, b, v, w = (param(n, SHAPE) for n in "abvw")
    finite = build.compare(build.reduce(param("loss", (8,)), "add", 0), "lt", 100.0)
    after = build.add(build.mul(v, 0.9), build.mul(build.add(a, b), build.sqrt(v)))
    weight = build.sub(w, build.mul(build.exp(after), 0.1))
    if turned:
        across = build.transpose(after, (1, 0))
        return [chosen(finite, weight, w), chosen(finite, across, param("u", across.shape))]
    return [chosen(finite, weight, w), chosen(finite, after, v)]


def test_an_update_and_what_it_keeps_are_one_kernel() -> None:
    """What is kept is not written once as computed and once as chosen."""
    outputs = update()
    (group,) = (g for g in groups(outputs) if g.anchor.shape == SHAPE)
    assert set(group.outputs) == set(outputs)
    values(outputs)


def test_what_is_read_in_another_order_stays_apart() -> None:
    outputs = update(turned=True)
    assert sum(bool(set(g.outputs) & set(outputs)) for g in groups(outputs)) == 2
    values(outputs)


def test_what_needs_a_value_made_in_between_stays_apart() -> None:
    """The norm of the first result is there only after its kernel."""
    a, b = param("a", SHAPE), param("b", SHAPE)
    total = build.add(build.exp(a), b)
    norm = build.reduce(build.mul(total, total), "add")
    outputs = [build.mul(total, 2.0), build.div(total, build.sqrt(norm))]
    assert not any(set(outputs) <= set(g.outputs) for g in groups(outputs))
    values(outputs)
