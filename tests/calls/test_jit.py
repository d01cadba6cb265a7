"""`xlac.jit` of functions in functions, of numbers beside arrays, of nests, and in threads."""

from __future__ import annotations

import threading
from collections import namedtuple
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.runtime.programs import PROGRAMS, Programs
from xlac_sdk.source import SourceError

X = np.arange(3, dtype=np.float32)


@xlac.jit
def double(x: Any, scale: float = 2.0) -> Any:
    return {"y": x * scale, "same": x}


def test_a_jitted_function_in_another_is_part_of_it() -> None:
    @xlac.jit
    def outer(x: Any) -> Any:
        nested = double(x, scale=3.0)
        return nested["y"] + double(np.ones(3, np.float32))["y"] + nested["same"].sum()

    np.testing.assert_array_equal(outer(X), X * 3 + 2 + X.sum())
    assert outer.programs == 1 and double.programs == 0
    assert [node.op.mnemonic for node in outer.trace(X).graph.nodes()].count("mul") == 2


def test_a_function_made_inside_sees_the_tensors_outside() -> None:
    @xlac.jit
    def outer(x: Any) -> Any:
        @xlac.jit
        def inner(y: Any) -> Any:
            return x + y

        return inner(np.ones(3, np.float32)) + inner(x)

    np.testing.assert_array_equal(outer(X), 3 * X + 1)


def test_recursion_that_ends_is_unrolled() -> None:
    @xlac.jit
    def power(x: Any, left: Any) -> Any:
        return x if left == "" else x * power(x, left[1:])

    np.testing.assert_array_equal(power(X, "nn"), X**3)


def test_recursion_without_end_is_an_error() -> None:
    @xlac.jit
    def forever(x: Any) -> Any:
        return forever(x + 1.0)

    for _ in range(2):
        with pytest.raises(SourceError, match=r"XL2033") as error:
            forever(X)
        assert "forever() recurses without end" in str(error.value)


TYPES = [
    np.float64,
    np.float32,
    np.float16,
    np.int8,
    np.uint8,
    np.int16,
    np.int32,
    np.int64,
    np.uint64,
    np.bool_,
]
OPS = {
    "+": lambda x, n: x + n,
    "swapped -": lambda x, n: n - x,
    "*": lambda x, n: x * n,
    "max": lambda x, n: xlac.max(x, n),
    "where": lambda x, n: xlac.where(x > 0, x, n),
    "clip": lambda x, n: xlac.clip(x, n, n),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("number", [0.1, 3])
@pytest.mark.sampled(8)
def test_a_number_given_is_as_weak_as_one_in_the_text(op: str, number: float) -> None:
    xs = [
        np.array([0, 1, 2], dtype) for dtype in TYPES if dtype is not np.bool_ or op in ("+", "*")
    ]
    jit = xlac.jit(target="reference")
    given = jit(lambda xs, n: [OPS[op](x, n) for x in xs])(xs, number)
    written = jit(lambda xs: [OPS[op](x, number) for x in xs])(xs)
    for x, one, other in zip(xs, given, written, strict=True):
        assert one.dtype == other.dtype, x.dtype
        np.testing.assert_array_equal(one, other, err_msg=str(x.dtype))


def test_a_number_keeps_its_digits_until_it_meets_an_array() -> None:
    x = np.ones(2, np.float64)
    np.testing.assert_array_equal(xlac.jit(lambda x, n: x * n)(x, 0.1), [0.1, 0.1])
    np.testing.assert_array_equal(xlac.jit(lambda x, n: x * (n * 3 + 1))(x, 0.1), x * (0.1 * 3 + 1))
    np.testing.assert_array_equal(
        xlac.jit(lambda x, n: x + xlac.where(n > 0, n, 0.0))(x, 0.1), x + 0.1
    )
    np.testing.assert_allclose(
        xlac.jit(lambda x, n: x * xlac.exp(-n))(x, 0.1), x * np.exp(-0.1), rtol=1e-15
    )
    np.testing.assert_array_equal(
        xlac.jit(lambda x, n: x + n)(np.zeros(2, np.int64), 2**40), [2**40] * 2
    )
    both = xlac.jit(lambda a, b, n: (a * n, b * n, n))(x, x.astype(np.float32), 0.1)
    assert both[0][0] == 0.1 and both[1][0] == np.float32(0.1) and both[2] == np.float32(0.1)
    assert xlac.jit(lambda n: n + 1)(2).dtype == np.int32


def test_a_number_that_does_not_fit_is_an_error() -> None:
    add = xlac.jit(lambda x, n: x + n)
    for dtype, number in ((np.int32, 2**40), (np.uint8, 300), (np.uint8, -1), (np.int64, 10**30)):
        with pytest.raises(SourceError, match=f"{number} does not fit .*XL6002"):
            add(np.zeros(2, dtype), number)
        np.testing.assert_array_equal(add(np.zeros(2, dtype), 7), [7, 7])
    for digits in (400, 5000):  # of the second Python prints no text
        with pytest.raises(SourceError, match=r"an integer of .* bits does not fit f32 .*XL6002"):
            add(X, 10**digits)


def test_nests_and_constants() -> None:
    pair = namedtuple("pair", "a b")

    class Mode(Enum):
        UP = 1
        DOWN = 2

    @xlac.jit
    def f(p: Any, mode: Mode, dtype: Any = float) -> Any:
        return pair(p.a + p.b, [p.a * (2.0 if mode is Mode.UP else 3.0)])

    found = f(pair(X, X + 1), Mode.DOWN)
    assert type(found) is pair
    np.testing.assert_array_equal(found.a, 2 * X + 1)
    np.testing.assert_array_equal(found.b[0], X * 3)
    np.testing.assert_array_equal(f(pair(X, X), Mode.UP).b[0], X * 2)


def test_arguments_that_are_no_arrays_are_errors() -> None:
    add = xlac.jit(lambda x, y: x + y)
    for value in (object(), {1, 2}, np.array(["a"]), np.array([1 + 2j]), np.array([None])):
        with pytest.raises(SourceError, match="XL6002"):
            add(X, value)
    with pytest.raises(SourceError, match="XL2009"):
        xlac.jit(lambda x: x[7])(X)


@pytest.mark.parametrize(("call", "name"), [
    (lambda f: f({"w": [X, object()]}, X), "params['w'][1]"),
    (lambda f: f({}, np.ma.array([1.0, 2.0], mask=[1, 0])), "x"),
    (lambda f: f({}, X, object()), "args[2]"),
    (lambda f: f({}, X, scale=object()), "scale"),
    (lambda f: f({}, X.astype(np.int32), scale=2**40), "scale"),
])  # fmt: skip
def test_mistakes_name_the_parameters_of_the_function(
    call: Callable[[Any], Any], name: str
) -> None:
    """Not the inputs of its program, which are called arg0, arg1, …"""
    with pytest.raises(SourceError) as caught:
        call(xlac.jit(lambda params, x, *rest, scale=1: x * scale))
    assert f"input '{name}'" in str(caught.value)
    assert f"input '{name}'" in caught.value.diagnostics[0].message


def test_a_program_that_is_there_does_not_wait_for_another() -> None:
    going, done = threading.Event(), threading.Event()

    @xlac.jit
    def f(x: Any) -> Any:
        if x.shape[0] == 7:
            going.set()
            assert done.wait(1000)
        return x + 1

    f(X)
    with ThreadPoolExecutor(1) as threads:
        slow = threads.submit(f, np.ones(7, np.float32))
        assert going.wait(1000)
        np.testing.assert_array_equal(f(X), X + 1)  # while the other is in the making
        np.testing.assert_array_equal(f(np.ones(5, np.float32)), np.full(5, 2))
        done.set()
        np.testing.assert_array_equal(slow.result(1000), np.full(7, 2))


def test_programs_are_made_once_and_their_errors_passed_on() -> None:
    programs: Programs[int] = Programs()
    made: list[int] = []

    def make(number: int) -> int:
        made.append(number)
        if number == 3 and made.count(3) == 1:
            raise ValueError("planted")
        return number

    def ask(number: int) -> int:
        try:
            return programs.get(number, lambda: make(number))
        except ValueError:
            return -1

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, [1, 2, 3, 1, 2, 3, 1, 2] * 20))
    assert made.count(1) == made.count(2) == 1 and made.count(3) == 2 and found.count(-1) == 1
    with pytest.raises(SourceError, match="XL2033"):
        programs.get(4, lambda: programs.get(4, lambda: 4))
    assert programs.get(4, lambda: 4) == 4
    for number in range(200):
        programs.get(number, lambda number=number: number)
    assert len(programs) == PROGRAMS


def test_arrays_alone_find_their_program_however_they_are_given() -> None:
    added = xlac.jit(lambda x, y: {"sum": x + y, "both": (x, y)})
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    first = added(x, y)
    for again in (added(x, y), added(x[::-1][::-1], y.copy())):
        np.testing.assert_array_equal(again["sum"], first["sum"])
        np.testing.assert_array_equal(again["both"][1], y)
    assert added.programs == 1
    assert added(x.astype(np.float64), y.astype(np.float64))["sum"].dtype == np.float64
    assert added(x[:2], y[:2])["sum"].shape == (2,)
    assert added.programs == 3
    np.testing.assert_array_equal(added(x, 2.0)["sum"], x + 2)
    np.testing.assert_array_equal(added(x=x, y=y)["sum"], x + y)
    np.testing.assert_array_equal(added(x, y)["sum"], x + y)


def test_programs_found_by_arrays_alone_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlac.runtime.programs.PROGRAMS", 2)
    doubled = xlac.jit(lambda x: x * 2)
    for size in (1, 2, 1, 3, 1, 4):
        doubled(np.zeros(size, np.float32))
    assert doubled.programs == 2
