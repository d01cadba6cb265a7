"""Sizes that come with a second value stay open in the next program, so that growing ones compile
seldom.
"""

from __future__ import annotations

from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.ir.dims import Symbol
from xlac.runtime.growing import Growth
from xlac.runtime.specialization import Specializing
from xlac_sdk.source import Diagnostic, LimitError, SourceError

SPEC = """\
xlac: 1
model: cache
dims: {b: {min: 1, max: 64}, n: {min: 0, max: 4096}}
inputs: {kept: 'f32[b, n, 4]', new: 'f32[b, 1, 4]'}
graph:
  y: {op: concat, in: [kept, new], axis: 1}
  s: {op: sum, in: y, axis: 1}
outputs: [y, s]
"""


@pytest.fixture
def model(tmp_path: Path) -> Specializing:
    file = tmp_path / "cache.yaml"
    file.write_text(SPEC)
    made = xlac.compile(file)
    assert isinstance(made, Specializing)
    return made


def step(model: Specializing, kept: np.ndarray) -> Any:
    new = np.full((len(kept), 1, 4), kept.shape[1], np.float32)
    found = model(kept, new)
    wanted = np.concatenate([kept, new], 1)
    assert np.array_equal(found["y"], wanted)
    np.testing.assert_allclose(found["s"], wanted.sum(1), rtol=1e-6)
    return found["y"]


def test_forty_steps_of_a_growing_cache(model: Specializing) -> None:
    kept = np.zeros((1, 2, 4), np.float32)
    for _ in range(40):
        kept = step(model, kept)
    assert model.programs <= 2 + log2(40 / 2)


def test_from_nothing(model: Specializing) -> None:
    """Sizes of 0 and 1 have programs of their own."""
    kept = np.zeros((1, 0, 4), np.float32)
    for _ in range(12):
        kept = step(model, kept)
    assert model.programs == 3 + 2  # 0, 1 and 2; then up to 6, and to 14


def test_only_what_changed_is_open(model: Specializing) -> None:
    for batch, count in ((3, 8), (3, 9), (3, 5)):
        step(model, np.ones((batch, count, 4), np.float32))
    assert model.programs == 2
    sizes = model.specialize(
        {"kept": np.ones((3, 7, 4), "f4"), "new": np.ones((3, 1, 4), "f4")}
    ).program.sizes
    assert [(s.name, s.min, s.max, s.opt) for s in sizes] == [("n", 2, 18, 9)]
    step(model, np.ones((4, 9, 4), np.float32))  # the batch as well
    step(model, np.ones((6, 13, 4), np.float32))
    assert model.programs == 3
    step(model, np.ones((3, 8, 4), np.float32))  # the first is still there
    assert model.programs == 3


def test_a_call_of_the_last_sizes_looks_for_no_program(
    model: Specializing, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = (np.ones((3, count, 4), np.float32) for count in (4, 9))
    for kept in (small, large, small, small):
        step(model, kept)
    out = {"y": np.empty((3, 5, 4), np.float32), "s": np.empty((3, 4), np.float32)}
    inputs = {"kept": small, "new": np.zeros((3, 1, 4), np.float32)}

    def never(*_: object) -> None:
        raise AssertionError("it looked for a program")

    with monkeypatch.context() as patch:
        patch.setattr(model._programs, "find", never)
        patch.setattr(model._programs, "get", never)
        step(model, small)
        model.run(inputs, out)
    np.testing.assert_array_equal(out["y"], np.concatenate([small, inputs["new"]], 1))
    step(model, large)
    step(model, small)
    found: Any = model(small.tolist(), inputs["new"])  # of another kind
    np.testing.assert_array_equal(found["y"], out["y"])


def growth(**bounds: Symbol) -> Growth:
    return Growth(bounds.values())


def test_bounds_that_are_declared_hold() -> None:
    met = growth(n=Symbol("n", min=4, max=40, multiple_of=4))
    assert met.choose({"n": 16}) is None
    found = met.choose({"n": 32})
    assert found is not None and found.ranges == (("n", 4, 40),)
    assert met.choose({"n": 8}) == found and met.choose({"n": 16}) is None


def test_never_from_one() -> None:
    met = growth(a=Symbol("a"), b=Symbol("b"))
    for sizes in ({"a": 1, "b": 5}, {"a": 7, "b": 5}, {"a": 1, "b": 5}):
        assert met.choose(sizes) is None
    found = met.choose({"a": 1, "b": 6})  # b alone: a is what it was
    assert found is not None and found.names == {"b"} and found.fixed == (("a", 1),)


def test_what_cannot_be_open_stays_specialised(tmp_path: Path) -> None:
    """A program for open sizes that cannot be made: each size has its own, and it is not tried
    again.
    """
    asked: list[Any] = []

    def compile_for(sizes: Any, values: Any) -> Any:
        asked.append(sizes)
        if any(isinstance(size, Symbol) for size in sizes.values()):
            raise LimitError(Diagnostic("XL4021", "no"))
        return whole.compile_for(sizes, values)

    file = tmp_path / "cache.yaml"
    file.write_text(SPEC)
    whole = xlac.compile(file)
    assert isinstance(whole, Specializing)
    model = Specializing(whole.interface, compile_for, grows=True)
    for count in (3, 4, 5, 4, 3):
        step(model, np.ones((2, count, 4), np.float32))
    assert [type(sizes["n"]) for sizes in asked] == [int, Symbol, int, int]
    assert model.programs == 3


STATE = """\
xlac: 1
model: counter
dims: {n: {min: 1, max: 64}}
inputs: {x: 'f32[n, 4]'}
state:
  calls: {type: 'i32[]', next: calls + 1}
  total: {type: 'SIZE', next: total + GROWS}
outputs: {total: total + GROWS, calls: calls}
"""


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_the_state_is_one_whatever_program_runs(tmp_path: Path, target: str) -> None:
    file = tmp_path / "counter.yaml"
    file.write_text(STATE.replace("SIZE", "f32[4]").replace("GROWS", "sum(x, axis=0)"))
    model = xlac.compile(file, target=target)
    for _ in range(2):
        total = 0
        for calls, n in enumerate((2, 3, 4, 1, 2, 9, 3, 1)):
            total += n
            given, out = np.ones((n, 4), np.float32), np.empty(4, np.float32)
            if calls % 2:
                found = model(given)
            else:
                found = {"total": out, "calls": np.empty((), np.int32)}
                model.run({"x": given}, found)
            assert (found["total"] == total).all() and found["calls"] == calls
        assert isinstance(model, Specializing) and model.programs > 2
        model.reset()


@pytest.mark.parametrize("target", ["cpu", "c", "reference"])
def test_state_of_an_open_size_keeps_it_where_one_program_is_for_all(
    tmp_path: Path, target: str
) -> None:
    file = tmp_path / "counter.yaml"
    file.write_text(STATE.replace("SIZE", "f32[n, 4]").replace("GROWS", "x"))
    model, out = xlac.compile(file, target, sizes="symbolic"), np.empty((3, 4), np.float32)
    for n, other in ((2, 3), (3, 2)):
        assert model(np.ones((n, 4), np.float32))["calls"] == 0
        with pytest.raises(SourceError, match=rf"n={n}.*n={other} \[XL6003\]"):
            model(np.ones((other, 4), np.float32))
        with pytest.raises(SourceError, match=rf"n={n}.*n={other} \[XL6003\]"):
            given = {"x": np.ones((other, 4), np.float32)}
            model.run(given, {"total": out[:other], "calls": np.empty((), np.int32)})
        assert (model(np.ones((n, 4), np.float32))["total"] == 2).all()
        model.reset()


def test_state_of_an_open_size_does_not_grow(tmp_path: Path) -> None:
    file = tmp_path / "counter.yaml"
    file.write_text(STATE.replace("SIZE", "f32[n, 4]").replace("GROWS", "x"))
    model = xlac.compile(file)
    for calls, n in enumerate((2, 3, 2, 4, 3, 2)):
        found = model(np.ones((n, 4), np.float32))
        assert found["calls"] == calls
        assert (found["total"] == (2, 3, 2, 4, 3, 2)[: calls + 1].count(n)).all()
