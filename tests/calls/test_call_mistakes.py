"""Every way to call a compiled thing, and every mistake that a call can make: the same error
everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ways_to_call import FIXED, WAYS, Way, X, Y

import xlac
from xlac_sdk.host.array_values import NOWHERE
from xlac_sdk.source import SourceError


class Elsewhere:
    """An array on a GPU, as DLPack tells it."""

    shape, dtype = (4,), np.dtype(np.float32)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 1

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("not to be read")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise AssertionError("not to be copied silently")


def meta() -> Any:
    return pytest.importorskip("torch").ones(4, device="meta")


def fake() -> Any:
    torch = pytest.importorskip("torch")
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


def tracked() -> Any:
    return pytest.importorskip("torch").ones(4, requires_grad=True)


def elsewhere(device: str) -> str:
    return f"input 'y': is an array on another device than the program reads: {device} [XL6008]"


NAMES = {
    "missing": (lambda x, y: ((x,), {}), "input 'y' is missing [XL6001]"),
    "missing by name": (lambda x, y: ((), {"y": y}), "input 'x' is missing [XL6001]"),
    "too many": (lambda x, y: ((x, y, x), {}), "3 inputs given, but it takes 2: x, y [XL6001]"),
    "unknown": (lambda x, y: ((x,), {"yy": y}), "unknown input 'yy' [XL6001]"),
    "unknown beside all": (lambda x, y: ((x, y), {"z": y}), "unknown input 'z' [XL6001]"),
    "twice": (
        lambda x, y: ((x, y), {"x": x}),
        "input 'x' is given twice, by position and by name [XL6001]",
    ),
    "twice and one missing": (
        lambda x, y: ((x,), {"x": x}),
        "input 'x' is given twice, by position and by name [XL6001]",
    ),
}


@pytest.mark.parametrize("mistake", NAMES)
@pytest.mark.sampled(8)
def test_names(way: tuple[str, Way], mistake: str) -> None:
    arguments, message = NAMES[mistake]
    args, named = arguments(way[1].given(X), way[1].given(Y))
    assert told(lambda: way[1].call(*args, **named)) == f"error: {message}"


def told(call: Callable[[], Any]) -> str:
    """The first line of the error of a call."""
    with pytest.raises(SourceError) as error:
        call()
    return str(error.value).partition("\n")[0]


ARRAYS = {
    "other type": (
        Y.astype(np.float64),
        "input 'y' must be f32, not float64 [XL6002]",
        [*FIXED, "symbolic", "specializing"],
    ),
    "other integer": (
        Y.astype(np.int32),
        "input 'y' must be f32, not int32 [XL6002]",
        [*FIXED, "symbolic", "specializing"],
    ),
    "shorter": (Y[:3], "input 'y' must have shape 4, not 3 [XL6003]", FIXED),
    "longer": (np.ones(5, np.float32), "input 'y' must have shape 4, not 5 [XL6003]", FIXED),
    "sizes that disagree": (
        Y[:3],
        "input 'y' has 3 at axis 0, but size n is 4 with n=4 in [n] [XL6003]",
        ["symbolic", "specializing"],
    ),
    "other rank": (
        np.ones((2, 2), np.float32),
        "input 'y' must have shape 4, not 2x2 [XL6003]",
        FIXED,
    ),
    "scalar": (
        np.float32(1),
        "input 'y' must have shape 4, not scalar [XL6003]",
        [n for n in FIXED if n != "from_torch"],
    ),
}


@pytest.mark.parametrize("mistake", ARRAYS)
def test_types_and_shapes(way: tuple[str, Way], mistake: str) -> None:
    value, message, ways = ARRAYS[mistake]
    if way[0] in ways:
        x, y = way[1].given(X), way[1].given(value)
        assert told(lambda: way[1].call(x, y)) == f"error: {message}"
        assert told(lambda: way[1].call(x, y=y)) == f"error: {message}"


@pytest.mark.parametrize(("value", "device"), [(Elsewhere, "cuda:1"), (meta, "meta")])
def test_an_array_of_another_device_is_refused(
    way: tuple[str, Way], value: Callable[[], Any], device: str
) -> None:
    if way[0] == "from_torch" and value is Elsewhere:
        return  # which takes tensors only
    found = value()
    assert told(lambda: way[1].call(way[1].given(X), found)) == f"error: {elsewhere(device)}"


def test_a_tensor_without_memory_is_refused(way: tuple[str, Way]) -> None:
    assert told(lambda: way[1].call(way[1].given(X), fake())) == f"error: {elsewhere(NOWHERE)}"


OTHERS = {
    "text": lambda: ["a", "b", "c", "d"],
    "object": object,
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "complex": lambda: [1j, 0, 0, 0],
    "masked": lambda: np.ma.masked_array(Y, [0, 1, 0, 0]),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_is_no_array(way: tuple[str, Way], what: str) -> None:
    """Lists and numbers are converted where an input's type is known, so their mistakes are found
    there.
    """
    if way[0] in ("compiled", "quick", "reference", "symbolic", "specializing") or (
        what in ("object", "masked") and way[0] != "from_torch"
    ):
        value = OTHERS[what]()
        message = told(lambda: way[1].call(X, value))
        assert "is not an array" in message and message.endswith("[XL6002]")


def test_lists_and_numbers_take_the_type_of_their_input(spec: Path, tmp_path: Path) -> None:
    for name in ("compiled", "quick", "reference", "symbolic", "specializing"):
        found = WAYS[name](spec).call([0, 1.5, 2, 3], Y.tolist())
        np.testing.assert_array_equal(found["sum"], np.array([1, 2.5, 3, 4], np.float32))
    whole = tmp_path / "whole.yaml"
    whole.write_text(
        "xlac: 1\nmodel: w\ninputs: {i: 'i8[2]', b: 'bool[2]'}\ngraph: {y: where(b, i, "
        "0)}\noutputs: [y]\n",
        "utf-8",
    )
    model = xlac.compile(whole)
    np.testing.assert_array_equal(model([1.0, -2], [1, 0]), [1, 0])
    for i, b, lost in (
        ([1.5, 2], [True, False], "i8, which cannot hold 1.5"),
        ([300, 2], [0, 1], "i8, which cannot hold 300"),
        ([1, 2], [0, 2], "bool, which cannot hold 2"),
        ([10**30, 2], [0, 1], "beyond 64 bits"),
    ):
        assert lost in told(lambda i=i, b=b: model(i, b))
    large = tmp_path / "large.yaml"
    large.write_text(
        "xlac: 1\nmodel: l\ninputs: {x: 'u64[2]'}\ngraph: {y: max(x, 1)}\noutputs: [y]\n"
    )
    model = xlac.compile(large)  # NumPy makes floats of such a list
    np.testing.assert_array_equal(model([0, 2**64 - 1]), np.array([1, 2**64 - 1], np.uint64))
    assert "is u64, which cannot hold" in told(lambda: model([0.5, 2**64 - 1]))
    half = tmp_path / "half.yaml"
    half.write_text("xlac: 1\nmodel: h\ninputs: {x: 'f16[2]'}\ngraph: {y: x + x}\noutputs: [y]\n")
    model = xlac.compile(half)
    np.testing.assert_array_equal(model([1.5, float("inf")]), [3, np.inf])
    assert "is f16, which cannot hold 70000.0" in told(lambda: model([1, 70000.0]))


def test_a_tensor_that_is_negated_when_it_is_read(spec: Path) -> None:
    """PyTorch exports its memory without the sign."""
    torch = pytest.importorskip("torch")
    value = torch.complex(torch.ones(4), torch.arange(4.0)).conj().imag
    assert value.is_neg()
    for name in ("compiled", "specializing", "jit"):
        np.testing.assert_array_equal(
            WAYS[name](spec).call(np.zeros(4, np.float32), value)["sum"], -np.arange(4)
        )


def test_a_tensor_that_is_tracked_says_what_to_do(way: tuple[str, Way]) -> None:
    if way[0] != "from_torch":
        assert "detach()" in told(lambda: way[1].call(X, tracked()))


def test_an_input_called_self(tmp_path: Path) -> None:
    file = tmp_path / "self.yaml"
    file.write_text(
        "xlac: 1\nmodel: s\ndims: {n: {max: 9}}\ninputs: {self: 'f32[n]'}\ngraph: {y: self + "
        "1}\noutputs: [y]\n",
        "utf-8",
    )
    for model in (
        xlac.compile(file),
        xlac.compile(file, sizes="symbolic"),
        xlac.compile(file, dims={"n": 4}),
    ):
        np.testing.assert_array_equal(model(self=X), X + 1)
