"""The derivative of every operation: forwards, backwards, and beside differences."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import erfc, prod

import numpy as np
import pytest
from differences import applied, compare, drawn, evaluated, widened

from xlac.autodiff.errors import NoDerivativeError
from xlac.autodiff.gradient import linearize
from xlac.ir.dims import symbol
from xlac.ir.graph import Node
from xlac.ir.op import OPS, UNDEFINED, Sample, ShapeError
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dims import OpenSize
from xlac_sdk.dtypes import DType

FLAT = ("reduce_precision", "stop_gradient")  # their derivative is not that of what they compute


def differentiable(name: str) -> list[Sample]:
    """The samples of an operation with a float going in and one coming out, of moderate size."""
    found = []
    for sample in map(widened, OPS[name].samples()):
        floats = any(t.dtype.is_float for t in sample.inputs)
        small = sum(prod(t.shape) for t in sample.inputs) <= 3000  # type: ignore[type-var]
        if floats and small and "special" not in sample.draw:
            try:
                _, outputs = applied(name, sample)
            except ValueError:  # it takes no f64
                continue
            if any(o.type.dtype.is_float for o in outputs):
                found.append(sample)
    return found


NAMES = [name for name in sorted(OPS) if name not in FLAT and OPS[name].samples()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_samples(name: str, some: object) -> None:
    cases = differentiable(name)
    if not cases:
        pytest.skip("nothing to differentiate")
    for sample in some(cases, 8):  # type: ignore[operator]
        params, outputs = applied(name, sample)
        if UNDEFINED in OPS[name].derivatives:
            with pytest.raises(NoDerivativeError, match="has no derivative"):
                linearize(outputs, [p for p in params if p.type.dtype.is_float])
        else:
            compare(params, outputs, drawn(sample))


def test_every_operation_says_something() -> None:
    """Nothing is left out: an operation on floats has a derivative or says that it has none."""
    for name in NAMES:
        for sample in differentiable(name)[:1]:
            params, outputs = applied(name, sample)
            if UNDEFINED not in OPS[name].derivatives:
                linearize(outputs, [p for p in params if p.type.dtype.is_float])


@pytest.mark.parametrize(("name", "attributes", "x", "slope"), [
    ("relu", {}, 0.0, 0.0), ("relu6", {}, 6.0, 0.0), ("abs", {}, 0.0, 0.0),
    ("leaky_relu", {}, 0.0, 0.01), ("elu", {}, 0.0, 1.0), ("hardsigmoid", {}, 3.0, 0.0),
    ("threshold", {}, 0.0, 0.0), ("norm", {}, 0.0, 0.0), ("std", {}, 0.0, 0.0),
    ("sign", {}, 2.0, 0.0), ("sign", {}, 0.0, 0.0), ("floor", {}, 2.0, 0.0), ("ceil", {}, 2.0, 0.0),
    ("round", {}, 0.5, 0.0), ("trunc", {}, 0.0, 0.0), ("digamma", {}, 0.0, np.inf),
    ("digamma", {}, -1.0, np.inf), ("digamma", {}, np.inf, 0.0), ("hardswish", {}, 3.0, 1.0),
    ("hardswish", {}, -3.0, 0.0),
])  # fmt: skip
def test_corners(name: str, attributes: dict[str, object], x: float, slope: float) -> None:
    """Where a function has a corner its derivative is PyTorch's."""
    params, outputs = applied(name, Sample((Type(DType.F64),), attributes))
    assert gradient(params, outputs[0], x0=x) == [slope]


@pytest.mark.parametrize(
    "x", [0.0, -0.0, 1e-300, 1e-9, -1e-5, 0.7999, 0.8001, -0.8, 3.0, -9.0, 50.0, -np.inf, np.inf]
)
def test_gelu_and_its_first_two_derivatives_share_what_they_compute(x: float) -> None:
    """The first is the value over x away from 0, of which the second knows nothing: it is exact."""
    param = build.param("x", DType.F64, ())
    one = build.constant(1.0, DType.F64)
    (first,) = linearize([build.apply1("gelu", param)], [param]).transposed([one])
    (second,) = linearize([first], [param]).transposed([one])
    found = evaluated([param], [first, second], {"x": np.asarray(x)})
    density = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi) if abs(x) < 40 else 0.0
    inside = max(-40.0, min(x, 40.0))
    wanted = [
        0.5 * erfc(-inside * np.sqrt(0.5)) + inside * density,
        (2 - inside * inside) * density,
    ]
    np.testing.assert_allclose(np.array(found, np.float64), wanted, 1e-13, 1e-16)


@pytest.mark.parametrize(("name", "x", "y", "slopes"), [
    ("max", 1.0, 1.0, [0.5, 0.5]), ("min", 1.0, 1.0, [0.5, 0.5]), ("max", 2.0, 1.0, [1, 0]),
    ("min", 2.0, 1.0, [0, 1]), ("pow", 0.0, 2.0, [0, 0]), ("pow", 3.0, 0.0, [0, np.log(3.0)]),
    ("pow", 0.0, 0.0, [0, 0]), ("rem", 5.0, 3.0, [1, -1]), ("rem", 6.0, 3.0, [1, -2]),
    ("rem", -6.0, 3.0, [1, 2]), ("rem", -5.0, 3.0, [1, 1]), ("rem", 5.0, -3.0, [1, 1]),
    ("mod", 6.0, 3.0, [1, -2]), ("mod", -6.0, 3.0, [1, 2]), ("mod", -5.0, 3.0, [1, 2]),
    ("mod", 5.0, -3.0, [1, 2]), ("mod", 0.0, 3.0, [1, 0]), ("mod", 5.0, 0.0, [1, -np.inf]),
    ("rem", 5.0, 0.0, [1, -np.inf]), ("floor_divide", 6.0, 3.0, [0, 0]),
    ("floor_divide", 7.0, -2.0, [0, 0]), ("floor_divide", 5.0, 0.0, [0, 0]),
])  # fmt: skip
def test_corners_of_two(name: str, x: float, y: float, slopes: list[float]) -> None:
    params, outputs = applied(name, Sample((Type(DType.F64),) * 2, {}))
    assert gradient(params, outputs[0], x0=x, x1=y) == slopes


def gradient(params: list[Node], output: Node, **values: float) -> list[float]:
    """The derivatives of a number by numbers."""
    found = linearize([output], params).transposed([build.constant(1.0, DType.F64)])
    return [
        float(a) for a in evaluated(params, found, {k: np.asarray(v) for k, v in values.items()})
    ]


def opened(sample: Sample) -> Sample:
    """The sample with its first axis of an open size, and all others that are as long."""
    first = sample.inputs[0]
    if first.rank == 0 or first.shape[0] in (0, 1):
        return sample
    size = symbol("rows", 1, 64)
    types = tuple(
        t.with_shape(tuple(size if n == first.shape[0] else n for n in t.shape))
        for t in sample.inputs
    )
    return replace(sample, inputs=types)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_open_sizes(name: str, some: object) -> None:
    """Counts that are asked of a tensor are asked of one that does not change."""
    for sample in some(differentiable(name), 4):  # type: ignore[operator]
        try:
            params, outputs = applied(name, opened(sample))
        except (ValueError, TypeError, AssertionError):  # it takes fixed sizes alone
            continue
        weights = [build.param(f"w{n}", o.type.dtype, o.shape) for n, o in enumerate(outputs)]
        with suppress(NoDerivativeError, OpenSize, ShapeError):  # open channels, say
            found = linearize(outputs, [p for p in params if p.type.dtype.is_float])
            found.transposed(weights)
