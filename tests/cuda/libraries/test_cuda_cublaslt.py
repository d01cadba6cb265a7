"""Matrix products by cuBLASLt agree with what they mean, whatever their types, orders, epilogues
and sizes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from cublaslt_harness import BF16, F16, F32, OF_TF32, Asked, Library, linear, x
from cuda_harness import Counts
from device_doubles import LikeCupy, placed

from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac_sdk.dtypes import DType

pytestmark = pytest.mark.usefixtures("cublas")


def product(left: Node, right: Node) -> Node:
    return build.apply1("matmul", left, right)


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("shape", [(16, 32, 8), (7, 13, 5), (2, 9, 3), (33, 2, 17)])
@pytest.mark.sampled(16)
def test_products(dtype: DType, turned: tuple[bool, bool], shape: tuple[int, int, int]) -> None:
    rows, columns, depth = shape
    left = (
        build.transpose(x("x", depth, rows, dtype=dtype), (1, 0))
        if turned[0]
        else x("x", rows, depth, dtype=dtype)
    )
    right = (
        build.transpose(x("w", columns, depth, dtype=dtype), (1, 0))
        if turned[1]
        else x("w", depth, columns, dtype=dtype)
    )
    with Asked(product(left, right)) as asked:
        assert asked.calls == 1
        asked.agrees()


def relu(node: Node) -> Node:
    return build.apply1("relu", node)


def gelu(node: Node) -> Node:
    return build.apply1("gelu", node, approximate="tanh")


EPILOGUES: dict[str, Callable[[DType], Node]] = {
    "bias": lambda dtype: linear(dtype, 6, 10, 12),
    "relu": lambda dtype: relu(linear(dtype, 6, 10, 12, bias=False)),
    "gelu": lambda dtype: gelu(linear(dtype, 6, 10, 12, bias=False)),
    "bias, relu": lambda dtype: relu(linear(dtype, 6, 10, 12)),
    "bias, gelu": lambda dtype: gelu(linear(dtype, 6, 10, 12)),
    "residual": lambda dtype: build.add(
        linear(dtype, 6, 10, 12, bias=False), x("c", 6, 12, dtype=dtype)
    ),
    "bias, residual, relu": lambda dtype: relu(
        build.add(linear(dtype, 6, 10, 12), x("c", 6, 12, dtype=dtype))
    ),
    "scale": lambda dtype: build.mul(linear(dtype, 6, 10, 12, bias=False), 0.3),
    "batch": lambda dtype: product(x("x", 3, 6, 10, dtype=dtype), x("w", 3, 10, 12, dtype=dtype)),
    "batch, one right": lambda dtype: product(
        x("x", 3, 6, 10, dtype=dtype), x("w", 10, 12, dtype=dtype)
    ),
    "batch, residual": lambda dtype: build.add(
        product(x("x", 3, 6, 10, dtype=dtype), x("w", 3, 10, 12, dtype=dtype)),
        x("c", 3, 6, 12, dtype=dtype),
    ),
    "heads": lambda dtype: product(
        build.transpose(x("q", 9, 4, 8, dtype=dtype), (1, 0, 2)),
        build.transpose(x("k", 7, 4, 8, dtype=dtype), (1, 2, 0)),
    ),
    "turned result": lambda dtype: build.transpose(linear(dtype, 6, 10, 12, bias=False), (1, 0)),
}


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("what", EPILOGUES)
@pytest.mark.sampled(8)
def test_epilogues(what: str, dtype: DType, on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if on_gpu:  # the stand-in rounds to tf32 what is exact there
        monkeypatch.setattr(Asked, "bounds", OF_TF32)
    with Asked(EPILOGUES[what](dtype), precision="fast") as asked:
        assert asked.calls == 1, [
            asked.lowered.schedules(g).note for g in asked.lowered.partition.groups
        ]
        feeds = asked.drawn({})
        asked.agrees(
            {name: np.round(array * 64) / 64 for name, array in feeds.items()}
            if dtype is F32
            else feeds
        )


def test_not_a_number_and_infinity() -> None:
    feeds = {
        "x": np.ones((4, 3), np.float32),
        "w": np.ones((5, 3), np.float32),
        "b": np.zeros(5, np.float32),
    }
    feeds["x"][0, 0], feeds["x"][1, 1], feeds["b"][2], feeds["b"][3] = (
        np.nan,
        np.inf,
        -np.inf,
        np.nan,
    )
    with np.errstate(invalid="ignore"):
        wanted = feeds["x"] @ feeds["w"].T + feeds["b"]
    with Asked(linear(F32, 4, 3, 5)) as asked:
        np.testing.assert_array_equal(asked.compiled(**feeds), wanted)


def test_f32_is_rounded_to_tf32_only_where_the_model_lets_it(library: Library) -> None:
    feeds = {"x": np.full((2, 4), 1 + 2**-12, np.float32), "w": np.eye(4, dtype=np.float32)}
    for precision, wanted in (("default", 1 + 2**-12), ("fast", 1.0)):
        with Asked(linear(F32, 2, 4, 4, bias=False), precision=precision) as asked:
            np.testing.assert_array_equal(
                asked.compiled(**feeds), np.full((2, 4), wanted, np.float32)
            )


def test_a_bias_and_then_a_residual() -> None:
    with Asked(build.add(linear(F32, 8, 16, 24), x("c", 8, 24))) as asked:
        assert asked.calls == 1
        asked.agrees()


def test_open_sizes() -> None:
    rows = symbol("rows", 0, 40, 16)
    node = build.apply1("linear", x("x", rows, 9), x("w", 6, 9), x("b", 6), units=6, bias=True)
    with Asked(node) as asked:
        assert asked.calls == 1
        for size in (16, 1, 0, 40, 16):
            asked.agrees(rows=size)


def test_chains_share_memory() -> None:
    """The workspace is overwritten by every call: nothing that lives has its place."""
    value = linear(F32, 8, 16, 16)
    for layer in range(4):
        parameters = x(f"w{layer}", 16, 16), x(f"b{layer}", 16)
        after = build.apply1("linear", value, *parameters, units=16, bias=True)
        value = build.add(
            product(build.add(build.apply1("softmax", after), 0.5), x(f"v{layer}", 16, 16)), value
        )
    with Asked(value) as asked:
        assert asked.calls >= 8
        for _ in range(3):
            asked.agrees()


def test_an_algorithm_is_searched_once_for_a_product(library: Library) -> None:
    before = library("searches")
    for _ in range(2):
        with Asked(linear(F32, 8, 16, 24)) as asked:
            for seed in range(3):
                asked.agrees(asked.drawn({}, seed))
    assert library("searches") == before + 1


def test_calls_are_recorded_in_the_graph_of_the_program(library: Library, counts: Counts) -> None:
    with Asked(build.apply1("softmax", linear(F32, 8, 16, 24))) as asked:
        asked.agrees()
        recorded, launched = library("products"), counts.calls("cuGraphLaunch")
        asked.agrees(asked.drawn({}, 1))
        assert library("products") == recorded and counts.calls("cuGraphLaunch") == launched + 1


def test_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLAC_CUDA_BLOCKING", "1")
    with Asked(build.apply1("softmax", linear(F32, 8, 16, 24))) as asked:
        asked.agrees()


def test_arrays_of_the_device_are_elsewhere_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with Asked(build.apply1("softmax", linear(F32, 8, 16, 24))) as asked:
        kept = []
        for seed in range(3):
            feeds = asked.drawn({}, seed)
            with placed(LikeCupy, monkeypatch, *feeds.values()) as arrays:
                found = asked.compiled(*arrays)
                kept.append(found)
                total = feeds["x"].astype(np.float64) @ feeds["w"].T + feeds["b"]
                powers = np.exp(total - total.max(-1, keepdims=True))
                np.testing.assert_allclose(
                    found.numpy(), powers / powers.sum(-1, keepdims=True), rtol=1e-4, atol=1e-6
                )
        assert len({array.address for array in kept}) == 3
        del kept, found
