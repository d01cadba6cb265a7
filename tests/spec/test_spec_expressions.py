"""Expressions mean what Python and NumPy mean by them, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xlac.ir.interpret import interpret
from xlac.spec.load import load
from xlac.spec.text.expression import parse
from xlac.spec.text.grammar import Malformed
from xlac_sdk.source import SourceError

CASES = {
    "x + 1": lambda x, z, i: x + 1,
    "1 - x": lambda x, z, i: 1 - x,
    "-x ** 2": lambda x, z, i: -(x**2),
    "x * z + z / (x * x + 1)": lambda x, z, i: x * z + z / (x * x + 1),
    "2 * 3 + x": lambda x, z, i: 6 + x,
    "x @ transpose(x)": lambda x, z, i: x @ x.T,
    "x[1]": lambda x, z, i: x[1],
    "x[-1, 2:5]": lambda x, z, i: x[-1, 2:5],
    "x[:, 0]": lambda x, z, i: x[:, 0],
    "x[::2, ::-1]": lambda x, z, i: x[::2, ::-1],
    "x[..., None]": lambda x, z, i: x[..., None],
    "x[:, :$k]": lambda x, z, i: x[:, :3],
    "x[:, 1:${k + 2}]": lambda x, z, i: x[:, 1:5],
    "x if i > 2 else z": lambda x, z, i: np.where(i > 2, x, z),
    "(x > 0) & (z < 0)": lambda x, z, i: (x > 0) & (z < 0),
    "x > 0 and not z < 0": lambda x, z, i: (x > 0) & ~(z < 0),
    "x > 0 or z > 0": lambda x, z, i: (x > 0) | (z > 0),
    "-1 < x < 1": lambda x, z, i: (x > -1) & (x < 1),
    "x != z": lambda x, z, i: x != z,
    "i << 2": lambda x, z, i: i << 2,
    "i % 3": lambda x, z, i: np.fmod(i, 3),
    "f32(i) * 0.5": lambda x, z, i: i.astype(np.float32) * np.float32(0.5),
    "cast(x, dtype=i32)": lambda x, z, i: x.astype(np.int32),
    "max(x, 0)": lambda x, z, i: np.maximum(x, 0),
    "softmax(x, axis=-1)": lambda x, z, i: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "sum(x, axis=1)": lambda x, z, i: x.sum(1),
    "concat(x, z, axis=0)": lambda x, z, i: np.concatenate([x, z]),
    "concat([x, z], axis=1)": lambda x, z, i: np.concatenate([x, z], 1),
    "reshape(x, [2, -1])": lambda x, z, i: x.reshape(2, -1),
    "zeros([2, $k])": lambda x, z, i: np.zeros((2, 3), np.float32),
    "full([2], 7, dtype=i64)": lambda x, z, i: np.full(2, 7),
    "full([2], inf) * -1": lambda x, z, i: np.full(2, -np.inf),
    "h.s": lambda x, z, i: np.sort(x, axis=-1),
    "x * ${k * 2 if k > 2 else 0}": lambda x, z, i: x * 6,
    "x + $b": lambda x, z, i: x + 1.5,
}

SPEC = """\
xlac: 1
params: {{k: 3, b: 1.5}}
inputs: {{x: "f32[4, 6]", z: "f32[4, 6]", i: "i32[4, 6]"}}
blocks:
  sorted: {{inputs: [v], graph: {{"s, t": "sort(v, v)"}}, outputs: [s]}}
graph:
  h: {{block: sorted, in: x}}
  y: {text}
outputs: [y]
"""


@pytest.mark.parametrize("text", CASES)
def test_expression_means_what_numpy_means(text: str, tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(SPEC.format(text=repr(text)))
    generator = np.random.default_rng(0)
    inputs = {
        "x": generator.standard_normal((4, 6)).astype(np.float32),
        "z": generator.standard_normal((4, 6)).astype(np.float32),
        "i": generator.integers(0, 9, (4, 6)).astype(np.int32),
    }
    found = interpret(load(file).graph, inputs)["y"]
    expected = np.asarray(CASES[text](**inputs))
    assert found.shape == expected.shape
    assert found.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


def test_names_of_an_expression() -> None:
    assert set(parse("layer.0.h + 0.5 * x.last - softmax(y, axis=$a)[z] + 1.5e3").names) == {
        "layer.0.h",
        "x.last",
        "y",
        "z",
    }


@pytest.mark.parametrize(
    ("text", "offset", "width"),
    [
        ("a +", 2, 1),
        ("f(lambda: 1)", 2, 9),
        ("a + {b}", 4, 3),
        ("été + lambda", 6, 6),
        ("$", 0, 1),
        ("a ? b", 2, 1),
    ],
)
def test_places_of_mistakes(text: str, offset: int, width: int) -> None:
    with pytest.raises(Malformed) as caught:
        parse(text)
    assert (caught.value.offset, caught.value.width) == (offset, width)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 250 + "x" + ")" * 250,
        "-" * 3000 + "x",
        "x" + "+1" * 1500,
        "f(" * 120 + "x" + ")" * 120,
        "x" + "[0]" * 500,
        "9" * 3999,
    ],
)
def test_deep_expressions_are_refused(text: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse(text)
    assert caught.value.code in ("XL4016", "XL4015")


@pytest.mark.parametrize("text", [
    "x.__class__", "__import__('os')", "(x for x in y)", "f'{x}'", "x := 1", "await x", "open('a')",
    "exec('1')", "x.y.z()", "print(x)", "b'1'", "1j * x", "x is x", "x in x",
])  # fmt: skip
def test_python_is_never_run(text: str, tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(SPEC.format(text=repr(text)))
    with pytest.raises(SourceError):
        load(file)


@pytest.mark.parametrize(
    ("arithmetic", "value"),
    [("4 * k", 12), ("(k + 1) // 2", 2), ("k if k > 5 else 7", 7), ("max(k, 9)", 9), ("2 ** k", 8),
     ("int(7.9)", 7), ("ceil(k / 2)", 2),
     ("[5, 6][1]", 6), ("k % 2 + 1", 2), ("len([1, 2, 3])", 3),
     ("1 if k == 3 and not k < 3 else 2", 1)],
)  # fmt: skip
def test_arithmetic(arithmetic: str, value: int, tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(SPEC.format(text=repr("zeros([$k])")).replace("[$k]", f"[${{{arithmetic}}}]"))
    assert load(file).graph.outputs["y"].shape == (value,)
