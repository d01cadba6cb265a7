"""Index arithmetic over sizes that a call chooses: what comes out, and that it is right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlac_sdk.dims import Dim, ceil_div, evaluate, symbol, whole
from xlac_sdk.kernel_ir import build
from xlac_sdk.kernel_ir.build import Builder
from xlac_sdk.kernel_ir.extent import extent
from xlac_sdk.kernel_ir.kernel import Expr, Var
from xlac_sdk.kernel_ir.polynomial import is_below
from xlac_sdk.kernel_ir.text import expr

B, S = symbol("b", 1, 8, 1), symbol("s", 1, 512, 128)


def counters(*extents: Dim) -> list[Expr]:
    builder, found = Builder(), []
    loops = [builder.loop("i", 0, n) for n in extents]
    for loop in loops:
        found.append(loop.__enter__())
    return found


def test_a_flat_index_comes_apart_again() -> None:
    i, j, k = counters(B, S, 64)
    flat = build.add(build.mul(build.add(build.mul(i, S), j), 64), k)
    assert (build.div(flat, S * 64), build.mod(flat, 64)) == (i, k)
    assert expr(build.div(flat, 64)) == expr(build.add(build.mul(i, S), j))
    assert build.div(build.div(flat, 64), S) == i
    assert build.mod(build.div(flat, 64), S) == j


def test_an_extent_may_be_a_sum() -> None:
    i, q = counters(B, S + 1)
    flat = build.add(build.mul(i, S + 1), q)
    assert (build.div(flat, S + 1), build.mod(flat, S + 1)) == (i, q)


def test_quotient_and_remainder_meet_again() -> None:
    (t,) = counters(B * S)
    again = build.add(build.mul(build.div(t, S), S * 64), build.mul(build.mod(t, S), 64))
    assert expr(again) == expr(build.mul(t, 64))


def test_what_is_below_an_extent() -> None:
    i, j = counters(B, S)
    assert is_below(j, build.lift(S)) and is_below(build.add(build.mul(i, S), j), build.lift(B * S))
    assert not is_below(build.add(j, 1), build.lift(S))
    assert not is_below(i, build.lift(S))


@given(
    b=st.integers(1, 8),
    s=st.integers(1, 512),
    t=st.integers(0, 5000),
    by=st.sampled_from([S, S + 3, S * 4, B * S, B + S]),
)
def test_division_says_what_division_is(b: int, s: int, t: int, by: Dim) -> None:
    values = {"b": b, "s": s}
    names = {"size_b": b, "size_s": s, "t": t, "u": t % 7}
    k = evaluate(by, values)
    index = build.add(
        build.add(
            build.mul(Var("t", build.INDEX, low=0), by),
            build.mul(Var("u", build.INDEX, low=0, high=6), S),
        ),
        5,
    )
    flat = extent(index, names)
    assert flat == t * k + (t % 7) * s + 5
    assert (extent(build.div(index, by), names), extent(build.mod(index, by), names)) == divmod(
        flat, k
    )


@given(n=st.integers(0, 1000), by=st.integers(1, 70))
def test_a_size_as_an_expression(n: int, by: int) -> None:
    size = symbol("n", 0, 1000)
    for one in (size // by, ceil_div(size, by), (size - 5) // by, size % by, size * size + 3):
        assert extent(build.lift(one), {"size_n": n}) == evaluate(one, {"n": n})


@pytest.mark.parametrize(("size", "by", "wanted"), [
    (B * 64, 32, B * 2), (B * S, S, B), (B * 63, 32, None), (64, S, None), (96, 32, 3),
    (S * 0, 5, 0),
])  # fmt: skip
def test_what_goes_into_a_size(size: Dim, by: Dim, wanted: Dim | None) -> None:
    assert whole(size, by) == wanted
