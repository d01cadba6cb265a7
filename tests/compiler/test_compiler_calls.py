"""Compiled models as Python calls them: conversions, errors that name the input, sizes, tracing."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac

SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="module", params=["cpu", "c", "reference"])
def digits(request: pytest.FixtureRequest) -> Any:
    return xlac.compile(SPECS / "digits.yaml", target=request.param, dims={"batch": 3})


X = np.random.default_rng(0).random((3, 64), dtype=np.float32)


class Dlpack:
    """Nothing but DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Arraylike:
    """Nothing but `__array__`."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X


@pytest.mark.parametrize(
    "image",
    [
        X,
        np.asfortranarray(X),
        X[::-1][::-1],
        np.repeat(X, 2, 0)[::2],
        Dlpack(X),
        Arraylike(),
        X.tolist(),
    ],
    ids=["plain", "fortran", "reversed", "strided", "dlpack", "array", "list"],
)
def test_anything_array_like_is_taken(digits: Any, image: Any) -> None:
    expected = digits(X)
    np.testing.assert_array_equal(digits(image), expected)
    np.testing.assert_array_equal(digits(image=image), expected)


def test_unaligned_input(digits: Any) -> None:
    raw = np.zeros(X.nbytes + 1, np.uint8)
    unaligned = raw[1:].view(np.float32).reshape(X.shape)
    unaligned[:] = X
    np.testing.assert_array_equal(digits(unaligned), digits(X))


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((X.astype(np.float64),), {}, "'image' must be f32, not float64"),
        ((X[:2],), {}, "'image' must have shape 3x64, not 2x64"),
        ((X.ravel(),), {}, "'image' must have shape 3x64, not 192"),
        ((), {}, "input 'image' is missing"),
        ((X, X), {}, "2 inputs given"),
        ((X,), {"image": X}, "given twice"),
        ((), {"imag": X}, "did you mean 'image'"),
        ((object(),), {}, "'image'|is not an array"),
        (("text",), {}, "is not an array"),
    ],
)
def test_a_wrong_input_is_named(digits: Any, arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(xlac.SourceError, match=message):
        digits(*arguments, **named)


def test_names_and_positions_mix(tmp_path: Path) -> None:
    spec = tmp_path / "three.yaml"
    spec.write_text(
        "xlac: 1\ninputs: {a: 'f32[2]', b: 'f32[2]', c: 'f32[2]'}\noutputs: {y: a - b * c, z: a}\n",
        "utf-8",
    )
    a, b, c = (np.array([n, n + 1], np.float32) for n in (1, 2, 3))
    for target in ("cpu", "reference"):
        model = xlac.compile(spec, target)
        for found in (
            model(a, b, c),
            model(a, c=c, b=b),
            model(c=c, b=b, a=a),
            model(a, list(map(float, b)), c=c),
        ):
            np.testing.assert_array_equal(found["y"], a - b * c)
            np.testing.assert_array_equal(found["z"], a)
        for wrong in (
            lambda m=model: m(a, b),
            lambda m=model: m(a, b, c, c),
            lambda m=model: m(a, b, c=c, d=c),
        ):
            with pytest.raises(xlac.SourceError, match="XL6001"):
                wrong()


@pytest.mark.parametrize("threads", [-3, 5000])
def test_threads_that_cannot_be(threads: int) -> None:
    with pytest.raises(xlac.SourceError, match="threads must be 1 to 1024"):
        xlac.compile(SPECS / "digits.yaml", threads=threads)


def test_run_writes_into_the_callers_arrays(digits: Any) -> None:
    out = np.full((3, 10), np.nan, np.float32)
    digits.run({"image": X}, out={"probs": out})
    np.testing.assert_array_equal(out, digits(X))


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({}, "'probs' is missing"),
        ({"probs": np.empty((3, 10))}, "must be f32"),
        ({"probs": np.empty((10, 3), np.float32)}, "must have shape 3x10"),
        ({"probs": np.empty((10, 3), np.float32).T}, "C-contiguous"),
        ({"probs": [0.0]}, "must be a NumPy array"),
        ({"probs": np.empty((3, 10), np.float32), "more": X}, "unknown output 'more'"),
    ],
)
def test_a_wrong_output_is_named(digits: Any, out: Any, message: str) -> None:
    with pytest.raises(xlac.SourceError, match=message):
        digits.run({"image": X}, out=out)


def test_an_output_may_not_overlap_an_input() -> None:
    @xlac.jit
    def double(x: Any) -> Any:
        return x + x

    model = xlac.compile(double.trace(X))
    both = X.copy()
    with pytest.raises(xlac.SourceError, match="shares memory"):
        model.run({"arg0": both}, out={"out0": both})


def test_open_sizes_are_compiled_on_demand() -> None:
    model = xlac.compile(SPECS / "digits.yaml")
    for count in (1, 3, 2, 3, 1):
        assert model(np.zeros((count, 64), np.float32)).shape == (count, 10)
    assert model.programs == 3
    with pytest.raises(xlac.SourceError, match=r"batch=513 is outside its bounds 1\.\.512"):
        model(np.zeros((513, 64), np.float32))


def test_several_threads_share_a_model() -> None:
    model = xlac.compile(SPECS / "digits.yaml", dims={"batch": 3}, threads=2)
    expected = model(X)
    wrong: list[int] = []

    def work() -> None:
        for _ in range(200):
            if not np.array_equal(model(X), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(1000)
    assert not wrong and not any(t.is_alive() for t in threads)


def test_state_lives_between_calls(tmp_path: Path) -> None:
    spec = tmp_path / "counter.yaml"
    spec.write_text(
        "xlac: 1\nmodel: counter\ninputs: {x: 'f32[4]'}\nstate: {total: {type: 'f32[4]', next: "
        "total + x}}\n"
        "graph: {y: total * 2.0}\noutputs: [y]\n"
    )
    for target in ("cpu", "c", "reference"):
        model = xlac.compile(spec, target=target)
        ones = np.ones(4, np.float32)
        assert [float(model(ones)[0]) for _ in range(3)] == [0.0, 2.0, 4.0], target
        model.reset()
        assert [float(model(ones)[0]) for _ in range(3)] == [0.0, 2.0, 4.0], target


def test_the_programs_of_a_model_with_open_sizes_have_one_state_and_one_reset(
    tmp_path: Path,
) -> None:
    spec = tmp_path / "counter.yaml"
    spec.write_text(
        "xlac: 1\nmodel: counter\ndims: {n: {max: 9}}\ninputs: {x: 'f32[n]'}\nstate: {calls: "
        "{type: 'f32[]', next: calls + 1}}\n"
        "graph: {y: x * calls}\noutputs: [y]\n"
    )
    model = xlac.compile(spec, target="reference")
    assert [float(model(np.ones(n, np.float32))[0]) for n in (2, 3, 3)] == [0.0, 1.0, 2.0]
    model.reset()
    assert [float(model(np.ones(n, np.float32))[0]) for n in (2, 3, 3)] == [0.0, 1.0, 2.0]


def test_jit_traces_once_for_each_shape_and_dtype() -> None:
    traced = 0

    @xlac.jit
    def f(x: Any, y: Any, z: Any) -> Any:
        nonlocal traced
        traced += 1
        return xlac.sum(x + y * z)

    for size in (4, 4, 7, 4):
        x, y, z = np.random.default_rng(size).random((3, size), dtype=np.float32)
        np.testing.assert_allclose(f(x, y, z), np.sum(x + y * z), rtol=1e-6)
    f(*np.ones((3, 4)))
    assert traced == f.programs == 3


def test_jit_takes_and_gives_nests() -> None:
    @xlac.jit(target="reference")
    def f(pair: Any, scale: Any, mode: str = "up") -> Any:
        a, b = pair["a"], pair["b"]
        y = a @ b if mode == "up" else b.T @ a.T
        return {"y": y * scale, "parts": [y[0], xlac.max(y), -y[..., 1:]]}

    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((3, 4), np.float32)
    found = f({"a": a, "b": b}, 2.0)
    np.testing.assert_allclose(found["y"], a @ b * 2)
    np.testing.assert_allclose(found["parts"][1], (a @ b).max())
    assert found["parts"][2].shape == (2, 3)
    assert f({"a": a, "b": b}, 2.0, mode="down")["y"].shape == (4, 2)


def test_tracing_errors_are_clear() -> None:
    @xlac.jit
    def branches(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    @xlac.jit
    def mixes(x: Any) -> Any:
        return xlac.concat(x, x.reshape(2, 2), axis=0)

    with pytest.raises(TypeError, match="truth of a traced tensor"):
        branches(np.ones(4, np.float32))
    with pytest.raises(xlac.SourceError, match="concat"):
        mixes(np.ones(4, np.float32))
    with pytest.raises(TypeError, match=r"inside a function made by xlac\.jit"):
        xlac.exp(np.ones(3))
    with pytest.raises(AttributeError, match="no attribute 'expp'"):
        xlac.expp  # noqa: B018
