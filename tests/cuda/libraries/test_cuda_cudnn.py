"""Convolutions and attention by cuDNN agree with what they mean, whatever their types, layouts,
epilogues and sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cublaslt_harness import BF16, F16, F32
from cuda_harness import Counts
from cudnn_harness import AskedDnn, Library, attention, conv
from device_doubles import LikeCupy, placed

from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac_sdk.dtypes import DType

pytestmark = pytest.mark.usefixtures("cudnn_library")

LAST: dict[str, Any] = {"channels_last": True}


def relu(node: Node) -> Node:
    return build.apply1("relu", node)


def residual(node: Node) -> Node:
    return build.add(node, build.param("c", node.type.dtype, node.shape))


def normalised(dtype: DType) -> Node:
    """What folded normalisation leaves: a bias in f32, whatever the operands."""
    ones, zeros = (1, 1), (0, 0)
    op = Conv(("NHWC", "OIHW", "NHWC"), ones, zeros, zeros, ones, ones, out_dtype=F32)
    total = Node.of(
        op, build.param("x", dtype, (1, 5, 6, 4)), build.param("w", dtype, (6, 4, 3, 3))
    )
    return build.cast(relu(build.add(total, build.param("b", F32, (6,)))), dtype)


CONVOLUTIONS: dict[str, Callable[[DType], Node]] = {
    "plain": lambda d: conv(2, 4, 5, 6, dtype=d, bias=False),
    "a bias, channels first": lambda d: conv(2, 4, 5, 6, dtype=d, pad=1),
    "a bias and relu": lambda d: relu(conv(2, 5, 6, 4, dtype=d, pad=1, **LAST)),
    "a bias, a residual, relu": lambda d: relu(
        residual(conv(1, 5, 6, 4, dtype=d, pad=1, constant=True, **LAST))
    ),
    "a residual": lambda d: residual(conv(1, 5, 6, 4, dtype=d, bias=False, **LAST)),
    "gelu": lambda d: build.apply1("gelu", conv(1, 5, 6, 4, dtype=d, **LAST), approximate="tanh"),
    "a bias in f32": normalised,
    "strides, dilation, uneven padding": lambda d: conv(
        1, 3, 9, 8, dtype=d, stride=(2, 1), dilation=(1, 2), pad=((1, 2), (0, 3))
    ),
    "groups": lambda d: relu(conv(1, 5, 5, 8, dtype=d, groups=2, constant=True, **LAST)),
    "a line": lambda d: relu(conv(2, 4, 9, dtype=d, pad=1)),
    "a volume": lambda d: conv(1, 2, 4, 3, 5, dtype=d, kernel=2),
    "one place of one channel": lambda d: conv(1, 1, 1, 1, dtype=d, kernel=1),
    "a turned result": lambda d: build.transpose(conv(2, 5, 4, 4, dtype=d, **LAST), (0, 3, 1, 2)),
}


@pytest.mark.parametrize("dtype", [F32, F16, BF16])
@pytest.mark.parametrize("what", CONVOLUTIONS)
@pytest.mark.sampled(30)
def test_convolutions(what: str, dtype: DType, on_gpu: bool) -> None:
    with AskedDnn(CONVOLUTIONS[what](dtype), precision="fast") as asked:
        assert asked.calls == 1, [
            asked.lowered.schedules(g).note for g in asked.lowered.partition.groups
        ]
        feeds = asked.drawn({})
        asked.agrees(
            {name: np.round(array * 64) / 64 for name, array in feeds.items()}
            if dtype is F32
            else feeds
        )


ATTENTIONS: dict[str, Callable[[DType], Node]] = {
    "plain": lambda d: attention(d, (2, 20), (2, 20)),
    "causal": lambda d: attention(d, (2, 19), (2, 19), causal=True),
    "more keys, causal, shared": lambda d: attention(d, (4, 17), (2, 23), causal=True, scale=0.3),
    "a mask for all": lambda d: attention(d, (2, 20), (2, 21), mask=(1, 1, 1, 21)),
    "a mask for each head, causal": lambda d: attention(
        d, (2, 20), (2, 21), mask=(2, 2, 20, 21), causal=True
    ),
    "heads put together": lambda d: build.reshape(
        build.transpose(attention(d, (2, 20), (2, 20)), (0, 2, 1, 3)), (2, 20, 32)
    ),
}


@pytest.mark.parametrize("dtype", [F16, BF16])
@pytest.mark.parametrize("what", ATTENTIONS)
@pytest.mark.sampled(4)
def test_attention(what: str, dtype: DType) -> None:
    with AskedDnn(ATTENTIONS[what](dtype), precision="fast") as asked:
        assert asked.calls == 1, [
            asked.lowered.schedules(g).note for g in asked.lowered.partition.groups
        ]
        asked.agrees()


def test_f32_is_rounded_to_tf32_only_where_the_model_lets_it(
    on_gpu: bool, request: pytest.FixtureRequest
) -> None:
    """And the engine that is taken is never one that sums in another order at each call, or
    transforms where it may not.
    """
    feeds = {
        "x": np.full((1, 3, 3, 2), 1 + 2**-12, np.float32),
        "w": np.eye(2, dtype=np.float32)[:, :, None, None],
    }
    for precision, wanted, engine in (("default", 1 + 2**-12, 0), ("fast", 1.0, 5)):
        with AskedDnn(
            conv(1, 3, 3, 2, filters=2, kernel=1, bias=False, **LAST), precision=precision
        ) as asked:
            np.testing.assert_array_equal(
                asked.compiled(**feeds), np.full((1, 3, 3, 2), wanted, np.float32)
            )
        if not on_gpu:
            assert request.getfixturevalue("dnn")("engine") == engine


def test_not_a_number_passes_through_relu() -> None:
    feeds = {
        "x": np.ones((1, 4, 4, 2), np.float32),
        "w": np.ones((6, 2, 3, 3), np.float32),
        "b": np.zeros(6, np.float32),
    }
    feeds["x"][0, 0, 0, 0], feeds["b"][1], feeds["b"][2] = np.nan, np.inf, -np.inf
    with AskedDnn(relu(conv(1, 4, 4, 2, **LAST))) as asked:
        assert asked.calls == 1
        found = asked.compiled(**feeds)
    assert np.isnan(found[0, 0, 0]).all()
    np.testing.assert_array_equal(found[0, 1, 1], [18, np.inf, 0, 18, 18, 18])


def test_open_sizes() -> None:
    batch, side = symbol("batch", 0, 4, 2), symbol("side", 3, 8, 5)
    with AskedDnn(relu(conv(batch, side, side, 3, pad=1, **LAST))) as asked:
        assert asked.calls == 1
        for sizes in ((2, 5), (0, 5), (1, 8), (2, 5)):
            asked.agrees(batch=sizes[0], side=sizes[1])


def test_chains_share_memory() -> None:
    """The workspace is overwritten by every call: nothing that lives has its place."""
    value = build.param("x", F32, (1, 6, 6, 4))
    for layer in range(4):
        learned = build.param(f"w{layer}", F32, (4, 4, 3, 3)), build.param(f"b{layer}", F32, (4,))
        value = build.add(
            build.apply1("conv2d", value, *learned, filters=4, kernel=3, pad=1, **LAST), value
        )
    with AskedDnn(value) as asked:
        assert asked.calls == 4
        for _ in range(3):
            asked.agrees()


def test_an_engine_is_searched_once_for_a_problem(dnn: Library) -> None:
    before = dnn("searches")
    for _ in range(2):
        with AskedDnn(conv(2, 5, 6, 4, **LAST)) as asked:
            for seed in range(3):
                asked.agrees(asked.drawn({}, seed))
    assert dnn("searches") == before + 2  # its two kinds of heuristics


def test_calls_are_recorded_in_the_graph_of_the_program(dnn: Library, counts: Counts) -> None:
    with AskedDnn(build.apply1("softmax", conv(2, 5, 6, 4, **LAST))) as asked:
        asked.agrees()
        recorded, launched = dnn("executions"), counts.calls("cuGraphLaunch")
        asked.agrees(asked.drawn({}, 1))
        assert dnn("executions") == recorded and counts.calls("cuGraphLaunch") == launched + 1


def test_arrays_of_the_device_are_elsewhere_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with AskedDnn(conv(1, 4, 4, 2, bias=False, kernel=1, **LAST)) as asked:
        kept = []
        for seed in range(3):
            feeds = asked.drawn({}, seed)
            with placed(LikeCupy, monkeypatch, *feeds.values()) as arrays:
                found = asked.compiled(*arrays)
                kept.append(found)
                wanted = np.einsum(
                    "nhwc,oc->nhwo", feeds["x"].astype(np.float64), feeds["w"][:, :, 0, 0]
                )
                np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
        assert len({array.address for array in kept}) == 3
        del kept, found
