"""Groups that compute the same share their kernels, whatever their bodies are called and wherever
they came from.
"""

from __future__ import annotations

import numpy as np
import pytest
from contraction_harness import TARGETS, group
from schedule_draws import x

from xlac.codegen.core.lowered_group import PackedConstant
from xlac.codegen.kernel_dedup import LoweringCache
from xlac.codegen.schedules.digest import digest, structure
from xlac.fusion.group import Group, Kind
from xlac.ir.graph import Graph, Node
from xlac.ir.op import frozen_array
from xlac.ops import build
from xlac.ops.reduction.order import Sort
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.scalar.comparison import Compare
from xlac.ops.tensor.leaf import Const


def folded(names: str, *, turned: bool = False, scale: float = 1.0) -> Group:
    """A reduction by a body: x + scale * y, or y + scale * x."""
    first, second = (x(name) for name in names)
    if turned:
        value = build.add(second, build.mul(first, scale))
    else:
        value = build.add(first, build.mul(second, scale))
    body = Graph(names, (first, second), {names[0]: value})
    start = Node.of(Const(value=frozen_array(0.0, np.dtype(np.float32))))
    return group(Kind.REDUCE, Node.of(Reduce((0,), "body", body), x("x", 9), start))


def ordered(comparison: str) -> Group:
    first, second = x("a"), x("b")
    body = Graph("before", (first, second), {"y": Node.of(Compare(comparison), first, second)})
    return group(Kind.SORT, Node.of(Sort(axis=0, body=body), x("x", 9)))


def test_equal_bodies_share_kernels() -> None:
    cache = LoweringCache(TARGETS["avx2"])
    one, other = folded("ab"), folded("cd")
    assert one.anchor.op != other.anchor.op, "the bodies are two graphs"
    assert digest(one) == digest(other)
    (kernel,) = (launch.kernel for launch in cache(one).launches)
    assert cache(other).launches[0].kernel is kernel


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (folded("ab"), folded("ab", turned=True)),
        (folded("ab"), folded("ab", scale=2.0)),
        (ordered("lt"), ordered("gt")),
    ],
    ids=["operands", "constant", "operation"],
)
def test_bodies_that_differ_do_not(one: Group, other: Group) -> None:
    assert structure(one) != structure(other)


def test_weights_are_packed_with_the_constants_of_their_own_group() -> None:
    """Groups that compute weights from several constants share a kernel, and none of those."""
    cache, size, draw = LoweringCache(TARGETS["avx2"]), 96, np.random.default_rng(1)
    kernels, packed = [], []
    for name in ("v", "w"):
        scale = draw.uniform(0.5, 2, size).astype(np.float32)
        of_rows = build.spread(build.constant(scale), (size, size), (0,))
        weights = build.mul(x(name, size, size, kind="weight"), of_rows)
        lowered = cache(group(Kind.DOT, build.dot(x("x", 64, size), weights, ((1,), (0,)))))
        (launch,) = lowered.launches
        (constant,) = (a for a in launch.arguments if isinstance(a, PackedConstant))
        held = [np.ones((size, size), np.float32)]
        held += [node.op.value for node in constant.sources if isinstance(node.op, Const)]
        kernels.append(launch.kernel)
        packed.append(constant.make(*held))
        np.testing.assert_array_equal(np.unique(packed[-1][packed[-1] != 0]), np.unique(scale))
    assert kernels[0] is kernels[1]
    assert not np.array_equal(*packed)
