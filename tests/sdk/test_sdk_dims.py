"""Arithmetic of symbolic sizes: what is equal has one form, and the form means what it says."""

from __future__ import annotations

import pytest

from xlac_sdk.dims import Dim, Quotient, substitute, symbol, symbols

N = symbol("n", 1, 100)


@pytest.mark.parametrize(
    ("nested", "plain"),
    [
        ((N // 2) // 3, N // 6),
        (((N + 3) // 4 + 1) // 2, (N + 7) // 8),
        ((N // 2 - 5) // 4, (N - 10) // 8),
        ((8 * N + (N // 2)) // 4, 2 * N + N // 8),
        ((4 * N + 6) // 8, (2 * N + 3) // 4),
        ((4 * N + 7) // 8, (2 * N + 3) // 4),
    ],
)
def test_a_quotient_of_a_quotient_is_one_quotient(nested: Dim, plain: Dim) -> None:
    assert nested == plain
    for n in range(1, 41):
        assert substitute(nested, {"n": n}) == substitute(plain, {"n": n})
    assert "//" not in "".join(str(a.dividend) for a in _quotients(nested))
    assert {s.name for s in symbols(nested)} == {"n"}


EVEN = symbol("even", 2, 64, multiple_of=4)


@pytest.mark.parametrize(
    ("size", "plain"),
    [
        (2 * (EVEN // 2), EVEN),
        (8 * (EVEN // 4), 2 * EVEN),
        ((EVEN // 2) * N * 2, EVEN * N),
        (2 * (EVEN // 2) + N // 2, EVEN + N // 2),
        (2 * ((EVEN + 6) // 2), EVEN + 6),
        (EVEN % 4, 0),
    ],
)
def test_a_multiple_divides_without_rest(size: Dim, plain: Dim) -> None:
    assert size == plain


def test_what_may_leave_a_rest_keeps_its_quotient() -> None:
    for size in (8 * (EVEN // 8), 3 * (EVEN // 4), 2 * (N // 2), 4 * ((EVEN + N) // 4)):
        assert _quotients(size)


def _quotients(dim: Dim) -> list[Quotient]:
    assert not isinstance(dim, int)
    return [a for monomial, _ in dim.parts for a in monomial if isinstance(a, Quotient)]
