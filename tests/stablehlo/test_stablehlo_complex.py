"""Functions of complex numbers wherever these lie: each part of the result within a few units of
its own last place, from the least number to the largest, and at zeros, infinities and NaN as C99
has it. docs/STABLEHLO.md promises what is tested here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from complex_references import IS_WIDE, OF_C, REFERENCES, Array, Parts, Wide, quotient, raised

from xlac.api import compile
from xlac.ir.graph import Graph, Node
from xlac.ir.interpret import interpret
from xlac.model import Model
from xlac.ops import build
from xlac.ops.complex.arithmetic import CHLO_FUNCTIONS, FUNCTIONS, PAIRS
from xlac.ops.complex.parts import hypot
from xlac_sdk.dtypes import DType

pytestmark = pytest.mark.skipif(
    not IS_WIDE, reason="this machine has no floats wider than f64 to compare with"
)

ALL = {**FUNCTIONS, **CHLO_FUNCTIONS, "abs": lambda x: (hypot(*x),)}
UNITS = 8
"""Of a part's last place, by which a part may be off."""
OF_SIZE = frozenset({"exponential_minus_one", "logistic"})
"""Functions whose real part cancels somewhere: it may be off by as many units of the whole result's
last place.
"""
DTYPES = [DType.F32, DType.F64]


def special(dtype: DType) -> Array:
    """Numbers of every size and of every kind, both signs."""
    made = dtype.numpy
    info = np.finfo(made)
    least, normal, large, eps = (
        float(v) for v in (info.smallest_subnormal, info.smallest_normal, info.max, info.eps)
    )
    top = np.log(large)
    found = [
        0.0, least, normal * 0.3, normal, normal**0.5, eps * 0.3, 1e-3, 0.3, 0.5, 0.6, 0.8, 1.0,
        1 + eps, 1.5, 2.0, np.pi / 4, np.pi / 2, np.pi, 30.0, top + 0.1, top * 1.1, top * 2.02,
        1 / eps, eps**-2, large**0.5, large**0.5 * 1.2, large * 0.25, large * 0.505, large, np.inf,
        np.nan,
    ]  # fmt: skip
    values = np.array(found, made)
    return np.concatenate([values, -values])


def anywhere(dtype: DType, count: int = 3000) -> tuple[Array, Array]:
    """Parts of any size, and numbers close to 1, to the unit circle and to the circle around -1."""
    rng = np.random.default_rng(0)
    limit = np.log10(float(np.finfo(dtype.numpy).max))
    parts = [
        rng.choice([-1.0, 1.0], count) * 10 ** rng.uniform(-limit, limit, count) for _ in range(2)
    ]
    around, small = rng.uniform(-np.pi, np.pi, count), 10 ** rng.uniform(-limit / 2, 0, (2, count))
    on = np.cos(around), np.sin(around)
    near = 1 + small[0], small[1]
    a = np.concatenate([parts[0], on[0], on[0] - 1, near[0], small[0]])
    b = np.concatenate([parts[1], on[1], on[1], near[1], -small[1]])
    return a.astype(dtype.numpy), b.astype(dtype.numpy)


def every_pair(dtype: DType) -> tuple[Array, Array]:
    a, b = np.meshgrid(special(dtype), special(dtype))
    return a.ravel(), b.ravel()


def run(function: Callable[..., tuple[Node, ...]], *parts: Array, target: str = "numpy") -> Parts:
    """The parts of a function of numbers that are given as (a, b, c, d, …): in NumPy operation by
    operation, or compiled.
    """
    inputs = tuple(build.param(f"x{k}", DType.of(v.dtype), v.shape) for k, v in enumerate(parts))
    feeds = {f"x{k}": v for k, v in enumerate(parts)}
    outputs = function(*zip(inputs[::2], inputs[1::2], strict=True))
    graph = Graph("complex", inputs, {f"o{k}": node for k, node in enumerate(outputs)})
    if target == "numpy":
        return tuple(interpret(graph, feeds, {}).values())
    made = {
        name: np.empty(node.shape, node.type.dtype.numpy) for name, node in graph.outputs.items()
    }
    compile(Model(graph, {}), target=target).run(feeds, made)
    return tuple(made.values())


def check(name: str, a: Array, b: Array, found: Parts) -> None:
    info = np.finfo(a.dtype)
    with np.errstate(all="ignore"):
        wanted = REFERENCES[name](a.astype(Wide), b.astype(Wide))
    finite = np.isfinite(a) & np.isfinite(b)
    if name == "rsqrt":
        finite &= (a != 0) | (b != 0)
    known = finite if name not in OF_C else np.full(a.shape, True)
    if name == "sign":  # the direction of an infinite part beside a finite one is known
        known = ~np.isnan(a) & ~np.isnan(b) & ~(np.isinf(a) & np.isinf(b))
    if name == "acosh":  # of NaN beside 0, the sign of a quarter turn is anything
        known &= (a != 0) | ~np.isnan(b)
    size = np.hypot(*wanted) if len(wanted) == 2 else None
    for part, got, want in zip(("real", "imaginary"), found, wanted, strict=False):
        with np.errstate(all="ignore"):
            rounded = want.astype(a.dtype)
            error = np.abs(got.astype(Wide) - want)
            whole = (
                size if size is not None and name in OF_SIZE and part == "real" else np.abs(want)
            )
            fine = error <= UNITS * float(info.eps) * np.maximum(whole, Wide(info.smallest_normal))
            fine |= (got == rounded) | (np.isnan(got) & np.isnan(want))
            if name in OF_C:
                fine &= ~((got == 0) & (rounded == 0) & np.isfinite(a) & np.isfinite(b)) | (
                    np.signbit(got) == np.signbit(want)
                )
        _report(name, part, a, b, got, want, known & ~fine)


def _report(
    name: str, part: str, a: Array, b: Array, got: Array, want: Array, wrong: Array
) -> None:
    lines = [f"{a[k]} {b[k]:+}i: {got[k]} for {want[k]}" for k in np.flatnonzero(wrong)[:5]]
    assert not lines, f"{name}, {part} part, {int(wrong.sum())} of {a.size}: " + "; ".join(lines)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(ALL))
def test_functions_of_every_pair_of_parts(name: str, dtype: DType) -> None:
    a, b = every_pair(dtype)
    check(name, a, b, run(ALL[name], a, b))


@pytest.mark.parametrize("target", ["cpu", "c"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.sampled(48)
def test_compiled_functions(name: str, dtype: DType, target: str) -> None:
    for a, b in (every_pair(dtype), anywhere(dtype)):
        check(name, a, b, run(ALL[name], a, b, target=target))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", sorted(ALL))
@pytest.mark.sampled(24)
def test_functions_of_numbers_anywhere(name: str, dtype: DType) -> None:
    a, b = anywhere(dtype)
    check(name, a, b, run(ALL[name], a, b))


def pairs(dtype: DType, count: int) -> tuple[Array, ...]:
    """Four parts: every kind of number beside every other, by chance."""
    rng = np.random.default_rng(1)
    some = rng.choice(special(dtype), (4, count))
    for part in some:  # and some that are random within the range
        here = rng.random(count) < 0.3
        part[here] = rng.normal(size=int(here.sum()))
    return tuple(some)


@pytest.mark.parametrize("target", ["numpy", pytest.param("cpu", marks=pytest.mark.sampled(4))])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_quotients(dtype: DType, target: str) -> None:
    """Within a few units of the whole quotient's last place; C99's Annex G where a part is infinite
    or the divisor 0.
    """
    a, b, c, d = pairs(dtype, 60_000)
    found = run(PAIRS["divide"], a, b, c, d, target=target)
    with np.errstate(all="ignore"):
        wanted = quotient(*(v.astype(Wide) for v in (a, b, c, d)))
        size = np.hypot(*wanted)
    above, below = (np.isfinite(x) & np.isfinite(y) for x, y in ((a, b), (c, d)))
    zero = (c == 0) & (d == 0)
    whole = above & below & ~zero
    info = np.finfo(dtype.numpy)
    for part, got, want in zip(("real", "imaginary"), found, wanted, strict=True):
        with np.errstate(all="ignore"):
            close = np.abs(got.astype(Wide) - want) <= 4 * float(info.eps) * np.maximum(
                size, Wide(info.smallest_normal)
            )
            close |= got == want.astype(dtype.numpy)
        lines = [
            f"({a[k]} {b[k]:+}i) / ({c[k]} {d[k]:+}i): {got[k]} for {want[k]}"
            for k in np.flatnonzero(whole & ~close)[:5]
        ]
        assert not lines, f"{part}: {lines}"
    endless, none = np.isinf(a) | np.isinf(b), np.isnan(a) | np.isnan(b)
    infinite = np.isinf(found[0]) | np.isinf(found[1])
    assert infinite[endless & below].all()
    assert infinite[zero & ~none & ((a != 0) | (b != 0))].all()
    vanishes = above & (np.isinf(c) | np.isinf(d))
    assert (found[0][vanishes] == 0).all() and (found[1][vanishes] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_powers(dtype: DType) -> None:
    """Within units of the whole power's last place that grow with the exponent of e, as long as
    that is in the range.
    """
    a, b, c, d = pairs(dtype, 20_000)
    found = run(PAIRS["power"], a, b, c, d)
    with np.errstate(all="ignore"):
        wanted, exponent = raised(*(v.astype(Wide) for v in (a, b, c, d)))
        size = np.hypot(*wanted)
        info = np.finfo(dtype.numpy)
        known = (
            np.isfinite(a)
            & np.isfinite(b)
            & np.isfinite(c)
            & np.isfinite(d)
            & ((a != 0) | (b != 0))
        )
        known &= (exponent < 1e4) & (size < float(info.max) * 0.9)
        for got, want in zip(found, wanted, strict=True):
            bound = (
                4 * (1 + exponent) * float(info.eps) * np.maximum(size, Wide(info.smallest_normal))
            )
            assert (np.abs(got.astype(Wide) - want) <= bound)[known].all()
    zero = (a == 0) & (b == 0)
    one, none = zero & (c == 0) & (d == 0), zero & (c > 0)
    assert (found[0][one] == 1).all() and (found[1][one] == 0).all()
    assert (found[0][none] == 0).all() and (found[1][none] == 0).all()


def test_what_is_of_one_size_has_a_square_and_its_product_may_have_none() -> None:
    """A product is the plain formula, as in NumPy and XLA; a square is not."""
    big = np.full(1, 3e38, np.float32)
    assert run(ALL["square"], big, big)[0] == 0 and np.isnan(
        run(PAIRS["multiply"], big, big, big, big)[0]
    )
