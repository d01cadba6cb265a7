"""Lists of numbers in expressions: values, element types, places of mistakes, round trips."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xlac
from xlac.cli import status
from xlac.exporters.spec import text as expand
from xlac.ir.interpret import interpret
from xlac.spec.elaborate import number_list
from xlac.spec.load import load
from xlac_sdk.source import SourceError

X = np.arange(6, dtype=np.float32).reshape(2, 3)
I = np.array([2, 0, 1], np.int32)
VALUES = {
    "x * [1, 2, 0.5]": X * np.float32([1, 2, 0.5]),
    "[1, 2, 3] - x": np.float32([1, 2, 3]) - X,
    "x + [[1], [-2]]": X + np.float32([[1], [-2]]),
    "i + [10, 20, 30]": np.int32([12, 20, 31]),
    "i * [0.5, 1, 2]": np.float32([1, 0, 2]),
    "f16(x) * [1, 2, 3]": (X * [1, 2, 3]).astype(np.float16),
    "f64(x) * [0.1, 0.2, 0.3]": X * np.float64([0.1, 0.2, 0.3]),
    "cast(i, dtype=u8) + [1, 2, 255]": np.uint8([3, 2, 0]),
    "cast(i, dtype=i64) + [4294967296, 0, 0]": np.int64([2 + 2**32, 0, 1]),
    "x if [true, false, true] else [7, 8, 9]": np.where([1, 0, 1], X, np.float32([7, 8, 9])),
    "x > [1, 2, 3]": np.array([1, 2, 3]) < X,
    "x @ [[1, 0], [0, 1], [1, 1]]": X @ np.float32([[1, 0], [0, 1], [1, 1]]),
    "x[:, [2, 0]]": X[:, [2, 0]],
    "x[[-1, 0, 0]]": X[[-1, 0, 0]],
    "concat([x, [[1, 2, 3]]])": np.concatenate([X, np.float32([[1, 2, 3]])]),
    "stack([i, [4, 5, 6]])": np.stack([I, np.int32([4, 5, 6])]),
    "transpose([[1, 2], [3, 4]])": np.int32([[1, 3], [2, 4]]),
    "sum(x * $each, axis=1)": (X * np.float32([1, 0, 2])).sum(axis=1),
    "x * ${each[1:]}[0]": X * 0,
    "x + [$k, ${k * 2}, -1 / 4]": X + np.float32([3, 6, -0.25]),
    "clip(x, low=[0, 1, 2], high=[1, 2, 3])": np.clip(X, [0, 1, 2], [1, 2, 3]).astype(np.float32),
    "[1, 2, 3]": np.int32([1, 2, 3]),
    "[1, 2.5]": np.float32([1, 2.5]),
    "-[inf, 1]": np.float32([-np.inf, -1]),
    "[true, false]": np.array([True, False]),
    "[[1, 2], [3, 4]] * 2": np.int32([[2, 4], [6, 8]]),
    "doubled([1, 2, 3])": np.float32([2, 4, 6]),
    "cross_entropy(x, [2, 0], weights=[1, 2, 0.5])": None,
    "cross_entropy(x, [2, 0], weights=[1, 2, 3])": None,
}  # fmt: skip

SPEC = """\
xlac: 1
params: {{k: 3, each: [1, 0, 2]}}
inputs: {{x: "f32[2, 3]", i: "i32[3]"}}
ops: {{doubled: {{inputs: {{v: "f32[n]"}}, expr: {{d: v * 2}}, outputs: {{d: "f32[n]"}}}}}}
graph:
  y: {text}
outputs: [y]
"""


def spec(folder: Path, text: str) -> Path:
    file = folder / "e.yaml"
    file.write_text(SPEC.format(text=repr(text)), "utf-8")
    return file


def loss(weights: list[float]) -> np.ndarray:
    """Cross entropy with class weights, by hand."""
    logs = X - np.log(np.exp(X).sum(axis=1, keepdims=True))
    own = np.float32(weights)[[2, 0]]
    return np.asarray(-(logs[[0, 1], [2, 0]] * own).sum() / own.sum())


VALUES["cross_entropy(x, [2, 0], weights=[1, 2, 0.5])"] = loss([1, 2, 0.5])
VALUES["cross_entropy(x, [2, 0], weights=[1, 2, 3])"] = loss([1, 2, 3])


@pytest.mark.parametrize("text", VALUES)
def test_values(text: str, tmp_path: Path) -> None:
    """Also of what `xlac expand` and `xlac fmt` write of the spec."""
    file = spec(tmp_path, text)
    wanted = VALUES[text]
    found = interpret(load(file).graph, {"x": X, "i": I})["y"]
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert status(["fmt", str(file)]) == 0
    again = tmp_path / "again.yaml"
    again.write_text(expand(load(file)), "utf-8")
    for one in (file, again):
        np.testing.assert_array_equal(interpret(load(one).graph, {"x": X, "i": I})["y"], found)


def test_lists_inside_of_flow_mappings(tmp_path: Path) -> None:
    """In quotes, as all text with brackets there."""
    file = tmp_path / "e.yaml"
    start = 'xlac: 1\ninputs: {x: "f32[2, 3]"}\n'
    graph = '{y: "x * [1, 2, 0.5]", z: "max(y, [[1], [2]])"}'
    file.write_text(f"{start}graph: {graph}\noutputs: [z]\n")
    wanted = np.maximum(X * np.float32([1, 2, 0.5]), np.float32([[1], [2]]))
    for _ in range(2):
        np.testing.assert_allclose(interpret(load(file).graph, {"x": X})["z"], wanted)
        assert status(["fmt", str(file)]) == 0


def test_class_weights_of_a_loss(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        "xlac: 1\nmodel: t\ndims: {n: {max: 8, opt: 2}}\n"
        'inputs: {x: "f32[n, 3]", label: "i32[n]"}\nweights: {init: {seed: 1}}\n'
        "graph: {h: {op: linear, in: x, units: 3}}\noutputs: [h]\n"
        "train:\n  batch: n\n  loss: mean(cross_entropy(h, label, weights=[1, 2, 0.5]))\n"
        "  optimizer: {sgd: {lr: 0.1}}\n",
        "utf-8",
    )
    trainer = xlac.trainer(file, target="reference")
    wide = np.asarray(trainer(x=X), np.float64)
    logs = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
    wanted = -(logs[0, 2] * 0.5 + logs[1, 0]) / 1.5
    found = trainer.step(x=X, label=np.int32([2, 0]))["loss"]
    assert found == pytest.approx(wanted, rel=1e-5)


MISTAKES = {
    "x * [[1, 2], [3]]": ("XL2006", "[3]", r"lists in a list have equal lengths: \[2\], \[1\]"),
    "x * [1, [2, 3]]": ("XL2006", "[2, 3]", r"a number, \[2\]"),
    "x * [1, i, 3]": ("XL2006", "i", "numbers that are known when the model is built"),
    "x * [1, true, 3]": ("XL2006", "true", "numbers only, or true and false only"),
    "x * [1, 'a', 3]": ("XL2017", "'a'", "expected a number"),
    "x * []": ("XL2006", "[]", "an empty list has no element type"),
    "x * [1, 2]": ("XL2009", "x", "do not broadcast"),
    "x * [1e39, 2, 3]": ("XL2006", "1e39", "does not fit f32"),
    "cast(i, dtype=u8) + [1, 2, 256]": ("XL2006", "256", "256 does not fit u8"),
    "[1, 3000000000]": ("XL2006", "3000000000", "3000000000 does not fit i32"),
    "x[[0, 2]]": ("XL2009", "[0, 2]", "index 2 is out of range for axis 0"),
    "x[[0.5, 1]]": ("XL2009", "[0.5, 1]", "cannot index"),
    "x * [u for u in x]": ("XL1017", "[u for u in x]", "comprehension"),
    "x * [1, nothing]": ("XL2004", "nothing", "unknown"),
    "x + $many": ("XL4019", "$many", "a list of 70,000 numbers"),
    "x + $mixed": ("XL2006", "$mixed", "a list holds numbers, and not 'a'"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_have_their_place(text: str, tmp_path: Path) -> None:
    code, at, problem = MISTAKES[text]
    file = spec(tmp_path, text)
    if "$m" in text:
        many = f"many: [{', '.join(['1'] * 70_000)}], mixed: [1, a]"
        file.write_text(file.read_text("utf-8").replace("k: 3", f"k: 3, {many}"), "utf-8")
    with pytest.raises(SourceError) as caught:
        load(file)
    (one,) = caught.value.diagnostics
    assert one.code == code and re.search(problem, one.message), str(caught.value)
    assert one.span is not None
    assert (one.span.line, one.span.column) == (6, 7 + text.index(at)), str(caught.value)


def test_the_bound_is_that_of_the_documentation() -> None:
    docs = Path(__file__).parents[2] / "docs" / "SPEC.md"
    assert f"{number_list.MOST:,} numbers" in docs.read_text("utf-8")
