"""What windows send to the elements that they choose: every layout, padding and value beside loops
in Python, PyTorch and the expansion.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from contraction_harness import TARGETS, compute, cpu, group, meaning, param
from numpy.typing import NDArray

import xlac
from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize
from xlac.codegen.claims import kind_taken
from xlac.fusion.group import Kind
from xlac.ir.dims import symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.op import ShapeError
from xlac.ir.types import Type
from xlac.model import Model
from xlac.ops import build
from xlac.ops.reduction.window import Window
from xlac.ops.reduction.window_choice import SelectAndGather, SelectAndScatter
from xlac_sdk.dtypes import DType

Array = NDArray[np.float32]
F32 = DType.F32
IMAGE = {"window": (1, 1, 3, 3), "strides": (1, 1, 2, 2), "low": (0, 0, 1, 1), "high": (0, 0, 1, 1)}
LAST = {name: tuple(v[a] for a in (0, 2, 3, 1)) for name, v in IMAGE.items()}


def choice(shape: tuple[int, ...], dtype: DType = F32, **given: object) -> Node:
    rank = len(shape)
    whole = {
        "strides": (1,) * rank,
        "low": (0,) * rank,
        "high": (0,) * rank,
        "window_dilation": (1,) * rank,
    }
    op = SelectAndScatter(**(whole | given))
    x = Type(dtype, shape)
    return Node.of(op, param("x", x), param("ct", op.choices(x)))


CASES = {
    "channels first": choice((2, 3, 9, 37), **IMAGE),
    "channels last": choice((2, 9, 8, 21), **LAST),
    "one image of many channels": choice((1, 5, 6, 70), **LAST),
    "doubles": choice((2, 9, 8, 5), DType.F64, **LAST),
    "doubles, channels first": choice((1, 2, 8, 23), DType.F64, **IMAGE),
    "side by side": choice((2, 2, 8, 26), window=(1, 1, 2, 2), strides=(1, 1, 2, 2)),
    "side by side, channels last": choice((2, 8, 7, 13), window=(1, 2, 2, 1), strides=(1, 2, 2, 1)),
    "gaps between windows": choice((3, 11, 20), window=(1, 2, 1), strides=(1, 4, 1)),
    "gaps along lines": choice((3, 29), window=(1, 2), strides=(1, 3), combine="min"),
    "a line": choice((40,), window=(5,), low=(2,), high=(3,)),
    "every other of a line": choice(
        (3, 45), window=(1, 4), strides=(1, 2), low=(0, 3), high=(0, 2)
    ),
    "volumes": choice(
        (2, 5, 6, 7, 3), window=(1, 2, 3, 2, 1), strides=(1, 2, 1, 3, 1), low=(0, 1, 1, 0, 0)
    ),
    "axes apart": choice((6, 3, 7), window=(3, 1, 2), strides=(2, 1, 1), high=(1, 0, 1)),
    "places apart": choice((2, 9, 8, 5), window=(1, 2, 3, 1), window_dilation=(1, 3, 2, 1)),
    "cropped": choice((9, 20), window=(3, 2), low=(-1, -2), high=(-2, -4)),
    "narrow": choice((2, 4, 2), window=(1, 3, 3), low=(0, 1, 1), high=(0, 1, 1)),
}
APART = {
    "outside altogether": choice((9, 20), window=(2, 1), low=(12, 0), high=(15, 0)),
    "padding between places": choice(
        (2, 9, 20), window=(1, 3, 1), window_dilation=(1, 2, 1), low=(0, 2, 0)
    ),
    "many places": choice((90, 4), window=(65, 1)),
    "of a half": choice((2, 8, 8, 4), DType.F16, window=(1, 2, 2, 1)),
}


def values(node: Node) -> dict[str, Array]:
    """Equal elements, NaN and infinities, windows of nothing but -inf; and what is sent."""
    rng = np.random.default_rng(3)
    some = [0.0, -0.0, 1.0, 2.0, 2.0, np.inf, -np.inf, np.nan]
    x, ct = (n.type for n in node.inputs)
    drawn = rng.choice(np.array(some, x.dtype.numpy), x.shape)
    drawn[tuple(slice(0, n // 2) for n in x.shape)] = -np.inf
    return {"x": drawn, "ct": rng.standard_normal(ct.shape).astype(ct.dtype.numpy)}


def sent(node: Node, x: Array, ct: Array) -> Array:
    """The meaning, a window after the other."""
    op, found = node.op, np.zeros(x.shape, np.float64)
    assert isinstance(op, SelectAndScatter)
    order = np.argmin if op.combine == "min" else np.argmax  # the first, and NaN before all
    for window in np.ndindex(*ct.shape):
        seen = [
            at
            for place in product(*map(range, op.window))
            for at in [
                tuple(
                    np.add(np.multiply(window, op.strides), np.multiply(place, op.window_dilation))
                    - op.low
                )
            ]
            if all(0 <= a < n for a, n in zip(at, x.shape, strict=True))
        ]
        if seen:
            found[seen[int(order([x[at] for at in seen]))]] += ct[window]
    return found.astype(ct.dtype)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    node = CASES[name]
    given = values(node)
    wanted = sent(node, given["x"], given["ct"])
    made = group(Kind.SCATTER, node)
    (meant,) = meaning(made, given)
    np.testing.assert_allclose(meant, wanted, 1e-6, 1e-6)
    for target in (*TARGETS.values(), cpu(), cpu(2)):
        assert kind_taken(node, target) is Kind.SCATTER
        (found,) = compute(made, target, given)
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-6)


@pytest.mark.parametrize("name", APART)
def test_what_is_expanded(name: str) -> None:
    node = APART[name]
    given = values(node)
    assert all(kind_taken(node, target) is None for target in TARGETS.values())
    (meant,) = meaning(group(Kind.SCATTER, node), given)
    wanted = sent(node, given["x"], given["ct"])
    rounded = 2e-3 if meant.itemsize < 4 else 1e-6  # after each of a few additions
    np.testing.assert_allclose(meant, wanted, rounded, rounded)


@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_gradients_are_those_of_pytorch(last: bool, dtype: str) -> None:
    """Of a graph, with equal elements, NaN and -inf: the first of the largest has it."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    drawn = rng.integers(0, 3, (2, 5, 9, 8)).astype(np.float32)
    drawn[0, :2, :4, :4], drawn[1, 3, 5, 5] = -np.inf, np.nan
    x = build.param("x", DType(dtype), drawn.shape)
    seen = build.transpose(x, (0, 3, 1, 2)) if last else x
    y = build.apply("max_pool2d", seen, kernel=3, stride=2, pad=1)
    ct = build.param("ct", y.type.dtype, y.shape)
    (gradient,) = linearize([y], [x]).transposed([ct])
    graph = Graph("g", (x, ct), {"dx": gradient})
    given = torch.tensor(drawn, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[dtype])
    given.requires_grad_()
    out = torch.nn.functional.max_pool2d(given.permute(0, 3, 1, 2) if last else given, 3, 2, 1)
    asked = torch.tensor(rng.standard_normal(out.shape), dtype=out.dtype)
    (wanted,) = torch.autograd.grad(out, given, asked)
    feeds = [n.detach().float().numpy().astype(x.type.dtype.numpy) for n in (given, asked)]
    for target in ("cpu", "c", "reference"):
        found = xlac.compile(Model(graph, {}), target=target)(*feeds)
        np.testing.assert_allclose(
            np.asarray(found, np.float32), wanted.float().numpy(), 1e-6 if dtype == "f32" else 1e-2
        )


def test_windows_of_very_many_places_are_refused_before_anything_is_made() -> None:
    huge = {"window": (1, 1, 2**31, 3), "high": (0, 0, 2**31, 0)}
    with pytest.raises(ShapeError, match="at most 4,096"):
        choice((1, 1, 4, 4), **(IMAGE | huge))
    x = build.param("x", F32, (1, 1, 80, 80))
    whole = dict.fromkeys(("strides", "base_dilation", "window_dilation"), (1,) * 4)
    y = Node.of(
        Window(combine="max", window=(1, 1, 80, 80), low=(0,) * 4, high=(0,) * 4, **whole), x
    )
    with pytest.raises(NoDerivativeError):
        linearize([y], [x])


def test_an_open_number_of_images() -> None:
    images = symbol("n", 0, 64)
    x = build.param("x", F32, (images, 3, 8, 9))
    y = build.apply("max_pool2d", x, kernel=3, stride=2, pad=1)
    ct = build.param("ct", F32, y.shape)
    (gradient,) = linearize([y], [x]).transposed([ct])
    graph = Graph("g", (x, ct), {"dx": gradient})
    compiled = xlac.compile(Model(graph, {}, {"n": images.parts[0][0][0]}))
    node = choice((5, 3, 8, 9), **IMAGE)
    given = values(node)
    found = compiled(given["x"], given["ct"])
    np.testing.assert_allclose(found, sent(node, given["x"], given["ct"]), 1e-6, 1e-6)


def test_each_is_the_transpose_of_the_other() -> None:
    """And both are linear in what they move, whatever moves the choice."""
    node = CASES["volumes"]
    x, ct = node.inputs
    (back,) = linearize([node], [ct]).transposed([build.param("t", F32, node.shape)])
    assert isinstance(back.op, SelectAndGather)
    (again,) = linearize([back], [back.inputs[1]]).transposed([ct])
    assert isinstance(again.op, SelectAndScatter) and again.op == node.op
    assert linearize([node], [x]).transposed([build.param("t", F32, node.shape)])[0].type == x.type
