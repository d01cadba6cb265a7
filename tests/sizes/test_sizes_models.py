"""One program for every size: what it says at a hundred of them, and that nothing is compiled for
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xlac import api, driver
from xlac.frontends.loader import load
from xlac.ir.interpret import interpret
from xlac.ir.op import Array
from xlac.model import Model
from xlac_sdk.source import LimitError, SourceError

SPECS = Path(__file__).parents[2] / "specs"
SMALL = {"hidden": 128, "heads": 2, "ffn": 40}
CASES: dict[str, dict[str, Any]] = {
    "digits": {},
    "loop_scan": {},
    "lstm_3x60": {"params": {"width": 5}},
    "bert_layer": {"params": SMALL},
    "gpt2_decode": {"params": SMALL},
}
LARGEST = 37  # of a size in these tests, where the spec allows more


def model(name: str) -> Model:
    return load(SPECS / f"{name}.yaml", **CASES[name])


def arrays(fixed: Model, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for node in fixed.inputs:
        dtype = node.type.dtype
        drawn = (
            generator.standard_normal(node.shape)
            if dtype.is_float
            else generator.integers(0, 2, node.shape)
        )
        found[node.op.name] = np.asarray(drawn).astype(dtype.numpy)  # type: ignore[attr-defined]
    return found


def named(found: Any, names: tuple[str, ...]) -> Mapping[str, Array]:
    return found if isinstance(found, dict) else {names[0]: found}


def check(program: Any, opened: Model, sizes: dict[str, int]) -> None:
    """Against NumPy, from arrays of these sizes."""
    fixed = driver.specialized(opened, sizes)
    inputs = arrays(fixed)
    expected = interpret(fixed.graph, inputs, opened.weights)
    for name, got in named(program(**inputs), program.outputs).items():
        want = expected[name]
        assert got.shape == want.shape, (name, sizes)
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4, err_msg=f"{name} with {sizes}")


def some(opened: Model, random: Random) -> dict[str, int]:
    found = {}
    for name, symbol in opened.dims.items():
        high = min(symbol.max, LARGEST)
        found[name] = random.choice(
            (symbol.min, max(symbol.min, 1), high, random.randint(symbol.min, high))
        )
    return found


@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(16)
@pytest.mark.long
def test_a_hundred_sizes(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, lowered = model(name), 0
    program = api.compile(opened, target, sizes="symbolic")
    real = driver.lower

    def lower(*given: Any, **options: Any) -> Any:
        nonlocal lowered
        lowered += 1
        return real(*given, **options)

    monkeypatch.setattr(driver, "lower", lower)
    random = Random(name)
    for _ in range(100 if target == "cpu" else 8):
        check(program, opened, some(opened, random))
    assert lowered == 0


@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(2)
def test_at_opt_it_says_what_the_static_program_says(name: str) -> None:
    opened = model(name)
    at_opt = {n: s.opt for n, s in opened.dims.items()}
    inputs = arrays(driver.specialized(opened, at_opt))
    once = api.compile(opened, "cpu", sizes="symbolic")
    static = api.compile(opened, "cpu").specialize(inputs)  # type: ignore[union-attr]
    for label, got in named(once(**inputs), once.outputs).items():
        want = named(static(**inputs), static.outputs)[label]
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@cache
def decoder() -> Any:
    return api.compile(model("gpt2_decode"), "cpu", sizes="symbolic")


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_sizes_within_the_bounds(data: st.DataObject) -> None:
    opened = model("gpt2_decode")
    program = decoder()
    sizes = {
        n: data.draw(st.integers(s.min, min(s.max, 70)), label=n) for n, s in opened.dims.items()
    }
    check(program, opened, sizes)


def test_the_quick_way_in_finds_sizes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A C function takes arrays of any sizes within the bounds, and leaves what is wrong to the
    others.
    """
    monkeypatch.setenv("XLAC_CACHE", "off")
    program = api.compile(model("gpt2_decode"), "cpu", sizes="symbolic")
    program.executable.quicken()  # type: ignore[union-attr]
    quick = program.executable.fast  # type: ignore[union-attr]
    fixed = driver.specialized(model("gpt2_decode"), {"batch": 3, "past": 5})
    inputs = arrays(fixed)
    found = quick(*(inputs[name] for name in program.inputs))
    assert found is not NotImplemented
    made = (
        dict(zip(program.outputs, found, strict=True))
        if isinstance(found, tuple)
        else {program.outputs[0]: found}
    )
    for name, want in interpret(fixed.graph, inputs, fixed.weights).items():
        np.testing.assert_allclose(made[name], want, rtol=2e-4, atol=2e-4)
    wider = [
        np.concatenate((inputs[n],) * 3, 0) if n == program.inputs[0] else inputs[n]
        for n in program.inputs
    ]
    assert quick(*wider) is NotImplemented  # nine on the one hand, three on the other


def test_sizes_out_of_bounds_are_refused() -> None:
    program = api.compile(model("digits"), "cpu", sizes="symbolic")
    with pytest.raises(SourceError, match="batch=513 is outside its bounds") as error:
        program(np.zeros((513, 64), np.float32))
    assert error.value.diagnostics[0].code == "XL6003"
    with pytest.raises(SourceError, match="must have shape"):
        program(np.zeros((2, 63), np.float32))


def test_two_uses_of_a_size_must_agree() -> None:
    opened = model("gpt2_decode")
    program = api.compile(opened, "cpu", sizes="symbolic")
    inputs = arrays(driver.specialized(opened, {"batch": 2, "past": 3}))
    wider = next(name for name, array in inputs.items() if array.ndim == 4)
    inputs[wider] = np.concatenate((inputs[wider], inputs[wider]), 2)
    with pytest.raises(SourceError) as error:
        program(**inputs)
    assert error.value.diagnostics[0].code == "XL6003"


def test_a_size_needs_a_bound(tmp_path: Path) -> None:
    spec = tmp_path / "m.yaml"
    spec.write_text(
        "xlac: 1\nmodel: m\ndims: {n: {min: 1}}\ninputs: {x: 'f32[n]'}\ngraph: {y: x + "
        "1}\noutputs: [y]\n"
    )
    with pytest.raises(LimitError, match="no max") as error:
        api.compile(spec, "cpu", sizes="symbolic")
    assert error.value.diagnostics[0].code == "XL4021"
    narrowed = api.compile(spec, "cpu", sizes="symbolic", dims={"n": "1..9"})
    assert narrowed(np.zeros(9, np.float32)).tolist() == [1] * 9  # type: ignore[operator]


def test_the_arena_is_packed_for_the_largest_sizes() -> None:
    spec = SPECS / "bert_layer.yaml"
    bounds = {"batch": "1..2", "sequence": "1..48"}
    program = api.compile(spec, sizes="symbolic", params=SMALL, dims=bounds).program  # type: ignore[union-attr]
    largest = api.compile(spec, params=SMALL, dims={"batch": 2, "sequence": 48}).program  # type: ignore[union-attr]
    assert [s.name for s in program.sizes] == ["batch", "sequence"]
    assert largest.arena_bytes <= program.arena_bytes <= 2 * largest.arena_bytes
