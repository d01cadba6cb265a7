"""Views move to where they cancel; convolutions take the channels last, and normalisations into
their weights.
"""

from __future__ import annotations

import numpy as np
import pytest
from pass_graphs import conv, counts, graph, weight, x

from xlac.codegen.claims import is_kept
from xlac.ir.dims import Dim, symbol
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.ops import build
from xlac.ops.reduction.conv import Conv
from xlac.ops.tensor.leaf import Param
from xlac.ops.tensor.view import Transpose
from xlac.passes.canonicalize_dots import CanonicalizeDotsPass
from xlac.passes.channels_last import ChannelsLastPass
from xlac.passes.motion import MotionPass
from xlac.passes.pipeline import optimize
from xlac.passes.rewrite.context import PassContext
from xlac.passes.rewrite.trace import Trace
from xlac.passes.weights import Weights
from xlac_sdk.dtypes import DType
from xlac_sdk.target import Target


def test_transposes_cancel_through_elementwise() -> None:
    a = x(2, 3)
    g = MotionPass().run(
        graph(build.transpose(build.exp(build.add(build.transpose(a), 1.0)))),
        Trace(),
        PassContext(),
    )
    assert "transpose" not in counts(g)


def test_broadcasts_sink() -> None:
    g = MotionPass().run(
        graph(build.exp(build.spread(x(3), (100, 3), (1,)))), Trace(), PassContext()
    )
    assert next(n for n in g.nodes() if n.op.mnemonic == "exp").shape == (3,)


def test_slices_rise_only_where_nothing_else_reads() -> None:
    a = build.exp(x(10))
    alone = MotionPass().run(graph(build.cut(a, 0, 2, 5)), Trace(), PassContext())
    assert next(n for n in alone.nodes() if n.op.mnemonic == "exp").shape == (3,)
    shared = graph(build.cut(a, 0, 2, 5), a)
    assert MotionPass().run(shared, Trace(), PassContext()) is shared


def residual_network() -> Graph:
    """Two convolutions with batch norm, relu and a residual sum, in NCHW."""
    image = x(2, 4, 5, 6)
    value = image
    for layer in range(2):
        value = conv(value, weight(f"k{layer}", 4, 4, 3, 3))
        value = build.apply(
            "batch_norm", value, *(weight(f"{n}{layer}", 4) for n in ("g", "b", "m", "v"))
        )  # type: ignore[assignment]
        value = build.maximum(value if layer == 0 else build.add(value, image), 0.0)
    return graph(value)


def residual_weights() -> dict[str, Array]:
    numbers = np.random.default_rng(0)
    found: dict[str, Array] = {}
    for layer in range(2):
        found[f"k{layer}"] = numbers.normal(0, 0.2, (4, 4, 3, 3)).astype(np.float32)
        for name in "gbm":
            found[f"{name}{layer}"] = numbers.normal(0, 1, 4).astype(np.float32)
        found[f"v{layer}"] = numbers.uniform(0.5, 2, 4).astype(np.float32)
    return found


def test_batch_norm_and_layout_leave_convolutions_and_shifts() -> None:
    g, weights = residual_network(), Weights(residual_weights())
    after = optimize(g, Target("t"), weights=weights, verify_each=True, is_kept=is_kept)
    found = counts(after)
    assert found["conv"] == 2 and found["transpose"] == 2, "one at the input, one at the output"
    assert not found["mul"] + found["sub"] + found["div"] + found["rsqrt"]
    assert all(
        n.op.layout == ("NHWC", "HWIO", "NHWC") for n in after.nodes() if isinstance(n.op, Conv)
    )
    image = {"x": np.random.default_rng(1).normal(size=(2, 4, 5, 6)).astype(np.float32)}
    exact = interpret(g, image, residual_weights(), float64=True)["y0"]
    folded = interpret(after, image, weights)["y0"]
    plain = interpret(g, image, residual_weights())["y0"]
    error, before = np.abs(folded - exact).max(), np.abs(plain - exact).max()
    assert error < 2 * before + 1e-6, "folding costs no accuracy"


def test_batch_norm_of_halves_waits_for_fast_precision() -> None:
    def scaled() -> Graph:
        image, kernel = x(1, 2, 4, 4, dtype=DType.F16), weight("k", 2, 2, 3, 3, dtype=DType.F16)
        return graph(
            build.mul(
                conv(image, kernel),
                build.spread(weight("s", 2, dtype=DType.F16), (1, 2, 4, 4), (1,)),
            )
        )

    weights = {"k": np.ones((2, 2, 3, 3), np.float16), "s": np.ones(2, np.float16)}
    assert counts(optimize(scaled(), Target("t"), weights=weights, is_kept=is_kept))["mul"] == 1
    assert (
        counts(optimize(scaled(), Target("t"), weights=weights, precision="fast", is_kept=is_kept))[
            "mul"
        ]
        == 0
    )


def test_a_scale_that_is_shared_is_not_folded() -> None:
    product = build.dot(x(5, 3), weight("w", 4, 3), ((1,), (1,)))
    g = graph(build.mul(product, build.spread(weight("s", 4), (5, 4), (1,))), product)
    assert counts(CanonicalizeDotsPass().run(g, Trace(), PassContext()))["dot"] == 1


def mix_ffn(batch: Dim, joined: bool) -> Graph:
    """A product of pixels in sequence, a depthwise convolution of maps, and a product again."""
    pixels = x(batch, 20, 6) if joined else x(batch, 4, 5, 6)

    def product(value: Node, name: str) -> Node:
        axes = ((len(value.shape) - 1,), (0,))
        return build.dot(value, weight(name, 6, 6), axes)

    wide = product(pixels, "a")
    if joined:
        maps = build.reshape(build.transpose(wide, (0, 2, 1)), (batch, 6, 4, 5))
    else:
        maps = build.transpose(wide, (0, 3, 1, 2))
    layout = ("NCHW", "OIHW", "NCHW")
    op = Conv(layout, (1, 1), (1, 1), (1, 1), (1, 1), (1, 1), feature_groups=6)
    spread = build.spread(weight("bias", 6), (batch, 6, 4, 5), (1,))
    convolved = build.add(Node.of(op, maps, weight("k", 6, 1, 3, 3)), spread)
    back = build.transpose(build.reshape(convolved, (batch, 6, 20)), (0, 2, 1))
    return graph(product(build.exp(back), "b"))


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("batch", [1, 2, symbol("n", 1, 8)])
def test_pixels_in_sequence_are_maps_of_channels_last(batch: Dim, joined: bool) -> None:
    generator = np.random.default_rng(0)
    shapes = {"a": (6, 6), "b": (6, 6), "k": (6, 1, 3, 3), "bias": (6,)}
    arrays = {n: generator.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    before, weights = mix_ffn(batch, joined), Weights(arrays)
    after = optimize(before, Target("t"), weights=weights, verify_each=True, is_kept=is_kept)
    assert not counts(after)["transpose"], "the transposes around the reshapes cancel"
    if isinstance(batch, int):
        given = {"x": generator.normal(size=before.inputs[0].shape).astype(np.float32)}
        expected = interpret(before, given, arrays)["y0"]
        np.testing.assert_allclose(interpret(after, given, weights)["y0"], expected, rtol=1e-5)


def test_a_reshape_that_joins_axes_apart_keeps_both_transposes() -> None:
    joined = build.reshape(build.transpose(x(2, 3, 4), (0, 2, 1)), (8, 3))
    g = graph(build.transpose(joined, (1, 0)))
    assert counts(MotionPass().run(g, Trace(), PassContext()))["transpose"] == 2


def test_convolutions_of_one_layout_are_left_alone() -> None:
    g = graph(conv(x(1, 4, 4, 2), weight("k", 3, 3, 2, 2), ("NHWC", "HWIO", "NHWC")))
    assert ChannelsLastPass().run(g, Trace(), PassContext()) is g


def test_sums_along_a_chain_of_convolutions_are_channels_last() -> None:
    """Both sums of gated layers, of which one begins with the input and one with nothing, have the
    layout of the convolutions: one transpose at the input, one at each output.
    """
    value = x(2, 4, 5, 6)
    skips = None
    for layer in range(4):
        gates = conv(value, weight(f"g{layer}", 8, 4, 3, 3))
        gated = build.mul(
            build.apply("tanh", build.cut(gates, 1, 0, 4)),
            build.apply("sigmoid", build.cut(gates, 1, 4, 8)),
        )
        mixed = conv(gated, weight(f"k{layer}", 4, 4, 3, 3))
        value = build.add(value, mixed)
        skips = mixed if skips is None else build.add(skips, mixed)
    assert skips is not None
    g = graph(value, build.maximum(skips, 0.0))
    numbers = np.random.default_rng(0)
    shapes = {n.op.name: n.shape for n in g.nodes() if isinstance(n.op, Param)}
    given = {n: numbers.normal(0, 0.3, s).astype(np.float32) for n, s in shapes.items()}
    weights = Weights({n: v for n, v in given.items() if n != "x"})
    after = optimize(g, Target("t"), weights=weights, verify_each=True, is_kept=is_kept)
    moved = [n.inputs[0].op.mnemonic for n in after.nodes() if isinstance(n.op, Transpose)]
    assert sorted(moved) == ["add", "max", "param"], "the input once, and both outputs"
    found = interpret(after, given, weights)
    for name, wanted in interpret(g, given, given).items():
        np.testing.assert_allclose(found[name], wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")])
def test_few_results_of_a_channel_become_one_of_repeated_channels(
    layout: tuple[str, str, str],
) -> None:
    """Two or four of sixteen lanes, which the contraction would use, are not enough."""

    def groups_for(each: int, target: Target, stride: int = 1) -> int:
        sizes = {"N": 2, "C": 16, "H": 5, "W": 6, "O": 16 * each, "I": 1}
        image = x(*(sizes[letter] for letter in layout[0]))
        taps = sizes | {"H": 3, "W": 3}
        kernel = weight("k", *(taps[letter] for letter in layout[1]))
        strides, ones = (stride, stride), (1, 1)
        g = graph(Node.of(Conv(layout, strides, ones, ones, ones, ones, 16), image, kernel))
        after = ChannelsLastPass().run(g, Trace(), PassContext(target))
        (found,) = (n.op.feature_groups for n in after.nodes() if isinstance(n.op, Conv))
        return found

    vectors = Target("vectors", 64, 32)
    assert [groups_for(each, vectors) for each in (1, 2, 4)] == [16, 32, 64]
    assert [groups_for(each, vectors) for each in (3, 8, 16)] == [16] * 3, "no copy that pays"
    assert groups_for(2, vectors, 4) == 16, "the copy would be larger than the sums are long"
    assert groups_for(2, Target("scalars")) == 16


def test_views_of_weights_stop_no_transpose() -> None:
    """As of positions that a model stores for pixels in sequence and adds to maps."""
    a, positions = x(4, 6), weight("w", 6, 2, 2)
    turned = build.reshape(build.transpose(positions, (0, 2, 1)), (6, 4))
    total = build.exp(build.add(build.transpose(a, (1, 0)), turned))
    g = MotionPass().run(graph(build.transpose(total, (1, 0))), Trace(), PassContext())
    (added,) = (n for n in g.nodes() if n.op.mnemonic == "add")
    assert a in added.inputs and next(iter(g.outputs.values())).op.mnemonic == "exp"


@pytest.mark.parametrize("batch", [1, 2])
def test_maps_of_several_resolutions_are_joined_channels_last(batch: int) -> None:
    """A decoder: pixels in sequence as maps, interpolated to one size, joined, and convolved."""

    def maps(name: str, size: int) -> Node:
        pixels = x(batch, size * size, 4, name=name)
        turned = build.reshape(build.transpose(pixels, (0, 2, 1)), (batch, 4, size, size))
        for axis in (2, 3) if size < 6 else ():
            low, high = (build.constant(np.arange(6) * size // 6 + n, DType.I64) for n in (0, 1))
            turned = build.add(build.take(turned, low, axis), build.take(turned, high, axis))
        return turned

    joined = build.concat([maps("a", 3), maps("b", 6), maps("c", 2)], 1)
    result = build.transpose(build.exp(conv(joined, weight("k", 5, 12, 3, 3))), (0, 2, 3, 1))
    before = graph(result)
    draw = np.random.default_rng(0)
    weights = {"k": draw.normal(size=(5, 12, 3, 3)).astype(np.float32)}
    after = optimize(
        before, Target("t"), weights=(made := Weights(weights)), verify_each=True, is_kept=is_kept
    )
    assert not counts(after)["transpose"]
    given = {
        n: draw.normal(size=(batch, size * size, 4)).astype(np.float32)
        for n, size in (("a", 3), ("b", 6), ("c", 2))
    }
    expected = interpret(before, given, weights)["y0"]
    np.testing.assert_allclose(interpret(after, given, made)["y0"], expected, rtol=1e-4)
