"""Reshapes that merge or split axes of which ranks have parts that are not equal."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import parted
import pytest
from test_partition import TARGET, annotated, kinds

from xlac.ir.graph import Graph, Node, apply
from xlac.ops import build
from xlac.ops.tensor.leaf import Param
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import collectives, expanded
from xlac.spmd.partition import partitioned
from xlac_sdk.dtypes import DType

RNG = np.random.default_rng(0)
TWO, THREE, FOUR = (Mesh((("data", n),)) for n in (2, 3, 4))


def checked(x: Node, y: Node, mesh: Mesh, sharding: Sharding) -> tuple[Counter[str], str]:
    """The collectives of y, computed from a divided x, and why they are there."""
    assert isinstance(x.op, Param)
    graph = Graph("g", (x,), {"y": y})
    made = partitioned(graph, mesh, {"x": sharding})
    parted.check(graph, made, {"x": RNG.standard_normal(x.shape).astype(np.float32)}, {})
    return kinds(made), "\n".join(reason for _, reason in collectives(made))


def f32(*shape: int) -> Node:
    return build.param("x", DType.F32, shape)


def reshaped(x: Node, *shape: int) -> Node:
    """Between operations of which what is in the padding would show."""
    return apply("cos", apply("reshape", apply("cos", x), shape=shape))


@pytest.mark.parametrize("mesh", [TWO, THREE, FOUR])
@pytest.mark.parametrize(
    ("before", "after"),
    [((5, 4), (20,)), ((20,), (5, 4)), ((10, 6), (12, 5)), ((7, 3, 2), (21, 2)), ((9, 2), (3, 6))],
)
def test_neighbours_exchange_what_differs(
    mesh: Mesh, before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    x = f32(*before)
    sharding = (("data",), *((),) * (len(before) - 1))
    found, _ = checked(x, reshaped(x, *after), mesh, sharding)
    assert not found.keys() - {"collective_permute"}


def test_a_merged_axis_among_others_and_a_sum_of_it() -> None:
    """The elements beyond the last are in no sum, though they are no zeros."""
    x = f32(2, 5, 3, 4)
    y = apply("reduce", reshaped(x, 2, 15, 2, 2), axes=(1,), combine="add")
    found, _ = checked(x, y, FOUR, ((), ("data",), (), ()))
    assert found == {"collective_permute": 1, "all_reduce": 1}


def test_two_runs_of_a_reshape() -> None:
    mesh = Mesh((("data", 2), ("model", 2)))
    x = f32(5, 2, 7, 3)
    found, _ = checked(x, reshaped(x, 10, 21), mesh, (("data",), (), ("model",), ()))
    assert found == {"collective_permute": 2}


def test_one_axis_among_two_of_the_mesh() -> None:
    mesh = Mesh((("data", 2), ("model", 2)))
    x = f32(6, 5)
    found, _ = checked(x, reshaped(x, 30), mesh, (("data", "model"), ()))
    assert found == {"collective_permute": 1}


def test_parts_that_begin_too_far_from_each_other_are_gathered() -> None:
    x = f32(24)
    found, why = checked(x, reshaped(x, 3, 8), Mesh((("data", 8),)), (("data",),))
    assert found == {"all_gather": 1}
    assert "of 24 rows that become 3, 8 ranks need more than their neighbours have" in why


def chain(random: Random) -> tuple[Node, Node]:
    """Reshapes of odd sizes with elements, sums and turns between."""
    sizes = [random.choice([1, 2, 3, 5, 6, 7, 10]) for _ in range(random.randint(2, 4))]
    x = y = f32(*sizes)
    for _ in range(random.randint(2, 5)):
        kind = random.randrange(5)
        shape = list(y.shape)
        if kind == 0 and len(shape) > 1:
            order = list(range(len(shape)))
            random.shuffle(order)
            y = apply("transpose", y, perm=tuple(order))
        elif kind == 1 and len(shape) > 1:
            axis = random.randrange(len(shape))
            how = random.choice(["add", "max"])
            y = apply("reduce", y, axes=(axis,), combine=how)
        elif kind == 2 and len(shape) > 1:
            axis = random.randrange(len(shape) - 1)
            y = reshaped(y, *shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :])
        else:
            axis = random.randrange(len(shape))
            ways = [n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0]
            many = random.choice(ways)
            y = reshaped(y, *shape[:axis], many, shape[axis] // many, *shape[axis + 1 :])
    return x, y


@pytest.mark.sampled(4)
@pytest.mark.parametrize("batch", range(12))
def test_random_reshapes(batch: int) -> None:
    for seed in range(batch * 10, batch * 10 + 10):
        random = Random(seed)
        x, y = chain(random)
        mesh = random.choice([*parted.MESHES, THREE, FOUR, Mesh((("data", 3), ("model", 2)))])
        graph = expanded(Graph("g", (x,), {"y": y}), TARGET)
        made = partitioned(graph, mesh, annotated(graph, mesh, random))
        parted.check(graph, made, {"x": RNG.standard_normal(x.shape).astype(np.float32)}, {})
