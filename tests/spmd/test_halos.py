"""Convolutions and windows over axes of which ranks have parts: neighbours send what is read beyond
a part.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import parted
import pytest
from test_rows_of_tables import kinds

from xlac.autodiff.gradient import linearize
from xlac.ir.graph import Graph, Node, apply
from xlac.ops import build
from xlac.spmd.mesh import Mesh, Sharding
from xlac.spmd.model import expanded
from xlac.spmd.partition import partitioned
from xlac.spmd.rules.reach import HaloAxis
from xlac_sdk.dtypes import DType
from xlac_sdk.host.registry import find
from xlac_sdk.target import Request

TARGET = find("reference").target(Request())
ROWS: Sharding = ((), (), ("data",), ())
MESHES = [Mesh((("data", n),)) for n in (2, 3, 4)]
RNG = np.random.default_rng(9)


def arrays(*nodes: Node) -> dict[str, Any]:
    return {
        node.op.name: RNG.standard_normal(node.shape).astype(np.float32)  # type: ignore[attr-defined, arg-type]
        for node in nodes
    }


def image(height: int = 16, width: int = 6) -> Node:
    return build.param("x", DType.F32, (2, 3, height, width))


def conv(x: Node, kernel: int, **about: Any) -> tuple[Node, Node]:
    w = build.param("w", DType.F32, (4, 3, kernel, kernel), "weight")
    return build.apply1("conv2d", x, w, bias=False, filters=4, kernel=kernel, **about), w


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize(
    ("kernel", "about", "sends"),
    [
        (3, {"pad": 1}, 2),
        (5, {"pad": 2}, 2),
        (3, {"pad": 1, "stride": 2}, 1),
        (3, {"pad": 2, "dilation": 2}, 2),
        (1, {}, 0),
    ],
)
def test_rows_of_an_image(mesh: Mesh, kernel: int, about: dict[str, int], sends: int) -> None:
    """A convolution reads a few rows of neighbours, and nothing is gathered."""
    x = image()
    y, w = conv(x, kernel, **about)
    graph = expanded(Graph("g", (x,), {"y": y}), TARGET)
    made = partitioned(graph, mesh, {"x": ROWS})
    if 16 % mesh.sizes["data"] == 0:
        assert kinds(made) == ({"collective_permute": sends} if sends else {})
    assert made.outputs["y"] == ROWS and "all_gather" not in kinds(made)
    parted.check(graph, made, arrays(x), arrays(w))


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("kernel", [2, 3])
def test_parts_of_results_begin_elsewhere(mesh: Mesh, kernel: int) -> None:
    """Without padding results are fewer, so that each rank reads later than the one before."""
    x = image(17)
    y, w = conv(x, kernel)
    graph = expanded(Graph("g", (x,), {"y": y}), TARGET)
    made = partitioned(graph, mesh, {"x": ROWS})
    assert "all_gather" not in kinds(made)
    parted.check(graph, made, arrays(x), arrays(w))


@pytest.mark.parametrize("mesh", [*MESHES, Mesh((("data", 2), ("model", 2)))])
@pytest.mark.parametrize("op", ["max_pool2d", "avg_pool2d"])
@pytest.mark.parametrize(("size", "stride", "pad"), [(2, 2, 0), (3, 2, 1), (3, 1, 1)])
def test_pools(mesh: Mesh, op: str, size: int, stride: int, pad: int) -> None:
    """What lies outside is the least for a maximum, and zero for a mean; on both axes at once."""
    x = image(16, 8)
    y = build.apply1(op, x, kernel=size, stride=stride, pad=pad)
    graph = expanded(Graph("g", (x,), {"y": y}), TARGET)
    said: Sharding = ((), (), ("data",), ("model",) if "model" in mesh.sizes else ())
    made = partitioned(graph, mesh, {"x": said})
    if mesh.sizes["data"] != 3:
        assert set(kinds(made)) <= {"collective_permute"}
    parted.check(graph, made, {"x": arrays(x)["x"] - 3}, {})


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("stride", [1, 2])
def test_gradients(mesh: Mesh, stride: int) -> None:
    """Of x by halos again; of the kernel each rank adds up its part, and one sum is over ranks."""
    x = image()
    y, w = conv(x, 3, pad=1, stride=stride)
    loss = build.reduce(build.mul(y, y), "add")
    by_x, by_w = linearize([loss], [x, w]).transposed([build.as_node(1.0, DType.F32)])
    graph = expanded(Graph("g", (x,), {"by_x": by_x, "by_w": by_w}), TARGET)
    made = partitioned(graph, mesh, {"x": ROWS})
    found = kinds(made)
    if mesh.sizes["data"] != 3:
        assert found["all_reduce"] == 1 and "all_gather" not in found, found
    parted.check(graph, made, arrays(x), arrays(w))


def test_what_neighbours_do_not_have_is_gathered() -> None:
    """Two rows a rank, and a kernel of seven."""
    x = image(8)
    y, w = conv(x, 7, pad=3)
    graph = expanded(Graph("g", (x,), {"y": y}), TARGET)
    made = partitioned(graph, Mesh((("data", 4),)), {"x": ROWS})
    assert kinds(made)["all_gather"] == 1
    parted.check(graph, made, arrays(x), arrays(w))


def test_a_network_reads_halos_alone() -> None:
    """Of three convolutions, two pools and what is between."""
    x = image(32, 8)
    weights = [
        build.param(f"w{n}", DType.F32, (4, channels, 3, 3), "weight")
        for n, channels in enumerate((3, 4, 4))
    ]
    y = build.apply1("conv2d", x, weights[0], filters=4, kernel=3, bias=False, pad=1)
    y = build.apply1("max_pool2d", build.apply1("relu", y), kernel=2, stride=2)
    y = build.apply1("conv2d", y, weights[1], filters=4, kernel=3, bias=False, pad=1)
    y = build.apply1("avg_pool2d", build.apply1("relu", y), kernel=2, stride=2)
    y = build.apply1("conv2d", y, weights[2], filters=4, kernel=3, bias=False, pad=1)
    graph = expanded(Graph("g", (x,), {"y": build.reduce(y, "add", (2, 3))}), TARGET)
    made = partitioned(graph, Mesh((("data", 4),)), {"x": ROWS})
    assert kinds(made) == {"collective_permute": 6, "all_reduce": 1}
    parted.check(graph, made, arrays(x), arrays(*weights))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(120))
def test_random_convolutions_and_windows(seed: int) -> None:
    """Any sizes, strides, paddings (negative ones, too) and dilations, in equal parts or not."""
    random = Random(seed)
    size, kernel = random.randint(6, 19), random.randint(1, 4)
    place = {
        "strides": (random.choice([1, 1, 2, 3]),),
        "low": (random.randint(-1, 3),),
        "high": (random.randint(-1, 3),),
    }
    if random.random() < 0.5:
        x = build.param("x", DType.F32, (2, 3, size))
        w = build.param("w", DType.F32, (2, 3, kernel), "weight")
        spread = {
            "lhs_dilation": random.choice([1, 1, 2, 3]),
            "rhs_dilation": random.choice([1, 2]),
        }
        dilations = {name: (n,) for name, n in spread.items()}
        y = apply("conv", x, w, layout=("NCX", "OIX", "NCX"), **place, **dilations)
        said: dict[str, Sharding] = {"x": ((), (), ("data",))}
        weights = arrays(w)
    else:
        x = build.param("x", DType.F32, (3, size))
        wide = {name: (1 if name == "strides" else 0, *given) for name, given in place.items()}
        wide["low"], wide["high"] = ((0, max(0, wide[n][1])) for n in ("low", "high"))
        combine = random.choice(["add", "max", "min", "mul"])
        spread = {"base_dilation": (1, random.choice([1, 2])), "window_dilation": (1, 1)}
        y = apply("window", x, combine=combine, window=(1, kernel), **wide, **spread)
        said, weights = {"x": ((), ("data",))}, {}
    graph = Graph("g", (x,), {"y": y})
    made = partitioned(graph, random.choice(MESHES), said)
    parted.check(graph, made, arrays(x), weights)


def test_what_a_rank_reads() -> None:
    """Three taps around each element: one element on each side. By stride two: one before."""
    halo = HaloAxis(0, 0, size=8, count=8, step=1, reach=2, low=1, spread=1)
    span = halo.span(2)
    assert span is not None and (span.left, span.right, span.taken) == (1, 1, 6)
    halo = HaloAxis(0, 0, size=8, count=4, step=2, reach=2, low=1, spread=1)
    span = halo.span(2)
    assert span is not None and (span.left, span.right, span.taken) == (1, 0, 5)
    assert HaloAxis(0, 0, size=8, count=6, step=1, reach=2, low=0, spread=2).span(2) is None
