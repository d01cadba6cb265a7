"""The bounds of errors that are followed through graphs hold, and say something: every operation in
its own types stays within them, and they are finite.
"""

from __future__ import annotations

import numpy as np
import pytest

from xlac.debug.conformance import cases, model_of
from xlac.debug.errors.approximation import Approximation
from xlac.debug.errors.propagate import of_node, outputs_of
from xlac.debug.errors.sums import Promise
from xlac.debug.verify.deviation import deviation
from xlac.debug.verify.subject import same_bits
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import evaluate
from xlac.ir.types import Type
from xlac.ops import OPS, build
from xlac.ops.reduction.contraction import Dot
from xlac.ops.reduction.conv import Conv
from xlac.ops.reduction.reduction import Reduce
from xlac.ops.tensor.leaf import Param
from xlac_sdk.dtypes import DType

NOISE = 2.0**-50  # of float64 itself, beside the scale of a result and its operands
SAMPLED = sorted(set(OPS) - {"param", "custom_call"})


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", SAMPLED)
def test_operations_in_their_own_types_are_within_their_bounds(name: str) -> None:
    for case in cases(OPS[name]):
        model, given, found = model_of([case])
        for output, meant in outputs_of(model.graph, given).items():
            dtype = model.graph.outputs[output].type.dtype
            value = meant.value
            if dtype.is_float and value.size:
                scale = max(map(largest, (value, *given.values())))
                meant = Approximation(value, meant.bound + NOISE * scale)
            off = deviation(np.asarray(found[output]), meant, dtype)
            assert off.right, f"{case.name}: {off}"


def largest(array: np.ndarray) -> float:  # type: ignore[type-arg]
    wide = np.abs(array.astype(np.float64))
    return float(np.where(np.isfinite(wide), wide, 0.0).max(initial=0.0))


def params(*shapes: tuple[int, ...]) -> list[Node]:
    return [Node.of(Param(f"x{n}", Type(DType.F32, s))) for n, s in enumerate(shapes)]


def values(*shapes: tuple[int, ...], error: float = 1e-3) -> list[Approximation]:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype(np.float32).astype(np.float64) for s in shapes]
    return [Approximation(a, np.full(a.shape, error)) for a in arrays]


@pytest.mark.parametrize(
    ("make", "shapes"),
    [
        (lambda x, y: build.mul(x, y), ((5, 7), (5, 7))),
        (lambda x, y: build.div(x, y), ((5, 7), (5, 7))),
        (lambda x, y: build.maximum(x, y), ((5, 7), (5, 7))),
        (lambda x, y: Node.of(Dot((), (), (1,), (0,)), x, y), ((5, 7), (7, 3))),
        (lambda x: Node.of(Reduce((1,), "max"), x), ((5, 7),)),
        (lambda x: Node.of(Reduce((1,), "mul"), x), ((5, 7),)),
        (lambda x: build.exp(x), ((5, 7),)),
        (lambda x: build.sqrt(x), ((5, 7),)),
    ],
    ids=["mul", "div", "max", "dot", "reduce max", "reduce mul", "exp", "sqrt"],
)
def test_errors_of_operands_are_followed(make: object, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Whatever operands within their errors give is within the error of the result, which is not
    much more than the worst of many tries.
    """
    node = make(*params(*shapes))  # type: ignore[operator]
    given = values(*shapes)
    (result,) = of_node(node, [(x,) for x in given], Promise())
    rng = np.random.default_rng(2)
    worst = np.zeros(result.value.shape)
    for _ in range(200):
        moved = [x.value + rng.choice((-1.0, 1.0), x.value.shape) * x.bound for x in given]
        with np.errstate(all="ignore"):
            (found,) = evaluate(node, [(m,) for m in moved], float64=True)
            apart = np.abs(found - result.value)
        inside = (apart <= result.bound * (1 + 1e-9)) | np.isnan(apart) | np.isinf(result.bound)
        assert inside.all()
        worst = np.maximum(worst, np.where(np.isnan(apart), 0.0, apart))
    known = np.isfinite(result.bound) & (worst > 0)
    assert known.any() and float(np.median((result.bound / worst)[known])) < 8


def test_what_is_not_settled_may_be_anything() -> None:
    """A comparison of values closer than their errors, and what is chosen by it."""
    x, y = params((3,), (3,))
    a = Approximation(np.array([0.0, 1.0, 2.0]), np.full(3, 0.1))
    b = Approximation(np.array([0.05, 3.0, 2.0]))
    compared = build.compare(x, "lt", y)
    (which,) = of_node(compared, [(a,), (b,)], Promise())
    np.testing.assert_array_equal(which.bound > 0, [True, False, True])
    (chosen,) = of_node(build.select(compared, x, y), [(which,), (a,), (b,)], Promise())
    np.testing.assert_allclose(chosen.bound, [0.15, 0.1, 0.1])


def test_what_surely_overflows_is_infinite_and_what_may_is_anything() -> None:
    x, y = params((3,), (3,))
    big = np.array([3.0e38, 1.0e38, 1.7e38])
    a, b = Approximation(big), Approximation(big, np.array([0.0, 0.0, 1.0e38]))
    (total,) = of_node(build.add(x, y), [(a,), (b,)], Promise())
    assert np.isinf(total.value[0]) and total.bound[0] == 0
    assert total.value[1] == 2e38 and total.bound[1] < 1e32
    assert np.isinf(total.bound[2])


@pytest.mark.parametrize("between", [None, "neg", "transpose"])
def test_a_product_that_is_added_may_not_overflow(between: str | None) -> None:
    """Infinity less infinity is NaN, but a product may be fused, and is not infinite then; sums of
    other infinities are settled.
    """
    x, y, z = params((2, 2), (2, 2), (2, 2))
    product = build.mul(x, y)
    if between == "neg":
        product = build.apply1("neg", product)
    elif between == "transpose":
        product = build.transpose(product, (1, 0))
    graph = Graph("g", (x, y, z), {"y": build.add(product, z)})
    big = np.array([[1e30, 1e30], [1.0, np.inf]], np.float32)
    given = {"x0": big, "x1": big, "x2": np.full((2, 2), -np.inf, np.float32)}
    (found,) = outputs_of(graph, given).values()
    open_ = np.array([[True, True], [False, False]])
    np.testing.assert_array_equal(
        np.isinf(found.bound), open_.T if between == "transpose" else open_
    )


@pytest.mark.parametrize("fast", [False, True])
def test_a_gradient_by_fewer_products_is_bounded_by_the_largest_pixel_of_its_channel(
    fast: bool,
) -> None:
    """As docs/SPEC.md says of maps of cotangents: also for results that do not see that pixel."""
    known = {"strides": (1, 1), "lhs_dilation": (1, 1), "rhs_dilation": (1, 1)}
    layout = ("NHWC", "HWIO", "NHWC")
    x, cotangents = params((2, 4, 4, 1), (4, 4, 1, 3))
    large = np.ones((2, 4, 4, 1))
    large[1, 0, 0, 0] = 100.0  # a corner, which one tap does not see
    given = Approximation(large), Approximation(np.ones((4, 4, 1, 3)))
    bounds = {}
    for low, high in ((1, 1), (0, 2)):
        op = Conv(layout, low=(low, low), high=(high, high), **known)
        node = Node.of(op, x, cotangents)
        (result,) = of_node(node, [(value,) for value in given], Promise(fast=fast))
        bounds[low] = result.bound
    unit = 16 * (408 + 12) * 16 * 2.0**-24
    for bound in bounds.values():
        np.testing.assert_allclose(bound[0], unit, rtol=1e-3)
        np.testing.assert_allclose(bound[1], 100 * unit, rtol=1e-3)


@pytest.mark.parametrize("wild", [np.inf, np.nan])
@pytest.mark.parametrize(
    ("given", "settled"),
    [
        ({}, [True, True]),
        ({"low": (1,), "high": (1,)}, [True, True, True, True]),
        ({"low": (2,), "high": (2,)}, [False, True, True, True, True, False]),
        ({"lhs_dilation": (2,)}, [False, True, False, True, False]),
    ],
)
def test_zeros_that_a_convolution_inserts_may_meet_an_infinity(
    wild: float, given: dict[str, tuple[int, ...]], settled: list[bool]
) -> None:
    """The middle one of three taps is not finite: whether it is a term where it meets an inserted
    zero is left open.
    """
    x, kernel = params((1, 1, 4), (1, 1, 3))
    known = {"strides": (1,), "low": (0,), "high": (0,), "lhs_dilation": (1,), "rhs_dilation": (1,)}
    node = Node.of(Conv(("NCW", "OIW", "NCW"), **known | given), x, kernel)
    values = Approximation(np.ones((1, 1, 4))), Approximation(np.array([[[1.0, wild, 1.0]]]))
    (result,) = of_node(node, [(value,) for value in values], Promise())
    assert (~np.isinf(result.bound))[0, 0].tolist() == settled
    met = result.value[0, 0][settled]
    assert np.isnan(met).all() if np.isnan(wild) else (met == np.inf).all()


@pytest.mark.parametrize("exponent", [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0])
def test_integer_powers_of_an_interval_around_zero_are_bounded(exponent: float) -> None:
    x, y = Approximation(np.array([0.5]), np.array([1.0])), Approximation(np.array([exponent]))
    node = Node.of(OPS["pow"](), *params((1,), (1,)))
    (meant,) = of_node(node, [(x,), (y,)], Promise())
    tried = np.concatenate([np.linspace(-0.5, 1.5, 2001), [1e-30, -1e-30]])
    with np.errstate(all="ignore"):
        apart = np.abs(tried**exponent - meant.value)
    assert np.nanmax(apart) <= meant.bound * (1 + 1e-12)


@pytest.mark.parametrize("dtype", [DType.I64, DType.U64])
def test_integers_beyond_the_precision_of_float64_are_compared_exactly(dtype: DType) -> None:
    meant = np.array([2**60, 2**60 + 1], dtype.numpy)
    assert deviation(meant.copy(), Approximation(meant), dtype).right
    off = deviation(meant[::-1].copy(), Approximation(meant), dtype)
    assert (off.wrong, off.absolute) == (2, 1.0)


@pytest.mark.parametrize("dtype", [DType.F64, DType.F32, DType.F16, DType.BF16])
def test_signs_of_zeros_are_bits_and_all_nans_are_equal(dtype: DType) -> None:
    zero, one = np.zeros(3, dtype.numpy), np.ones(3, dtype.numpy)
    assert same_bits(one, one.copy()) and not same_bits(zero, one)
    assert not same_bits(zero, -zero)
    nan = np.full(3, np.nan, dtype.numpy)
    assert same_bits(nan, -nan)
