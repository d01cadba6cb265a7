"""Hints name what a word means elsewhere, or what it is a slip of; a word that is neither has none
that misleads.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from xlac.ops import OPS
from xlac.spec.load import load
from xlac.spec.report import nearest
from xlac.spec.text.synonyms import OTHERS, SYNONYMS
from xlac_sdk.source import SourceError

KNOWN = {*OPS, *(f.name for op in OPS.values() for f in fields(op)), "in", "op"}


def test_words_of_ours_exist() -> None:
    assert set(OTHERS) <= KNOWN


@pytest.mark.parametrize(("word", "meant"), [
    ("dense", "linear"), ("fc", "linear"), ("gemm", "linear"), ("bmm", "matmul"),
    ("batchnorm", "batch_norm"), ("BatchNorm2d", "batch_norm"), ("lrelu", "leaky_relu"),
    ("dropout2d", "dropout"), ("LayerNorm", "layer_norm"), ("cat", "concat"),
    ("permute", "transpose"), ("interpolate", "resize"), ("swish", "silu"), ("clamp", "clip"),
    ("Conv2D", "conv2d"), ("softmaks", "softmax"), ("max-pool2d", "max_pool2d"),
    ("sdpa", "attention"), ("Dense", "linear"), ("view", "reshape"),
])  # fmt: skip
def test_operations_are_hinted_at_by_meaning(word: str, meant: str, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        f'xlac: 1\nmodel: m\ninputs: {{x: "f32[2, 3]"}}\ngraph: {{y: {{op: {word}, in: '
        "x}}\noutputs: [y]\n"
    )
    with pytest.raises(SourceError, match=f"did you mean '{meant}'"):
        load(file)


def test_an_input_given_as_an_attribute_is_hinted_at(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        "xlac: 1\nmodel: m\ninputs: {x: 'f32[2]'}\noutputs: [y]\n"
        "graph: {y: {op: pad, in: x, value: 1.0, low: [1]}}\n"
    )
    with pytest.raises(SourceError, match=r"hint: it is an input: in: \[x, value\]"):
        load(file)


@pytest.mark.parametrize(("op", "word", "meant"), [
    ("conv2d", "kernel_size", "kernel"), ("conv2d", "padding", "pad"),
    ("conv2d", "out_channels", "filters"), ("conv2d", "strides", "stride"),
    ("linear", "out_features", "units"), ("softmax", "dim", "axis"),
    ("layer_norm", "eps", "epsilon"), ("max_pool2d", "pool_size", "kernel"),
    ("conv2d", "dilation_rate", "dilation"), ("sum", "keepdim", "keepdims"),
])  # fmt: skip
def test_attributes_are_hinted_at_by_meaning(
    op: str, word: str, meant: str, tmp_path: Path
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        f'xlac: 1\nmodel: m\ninputs: {{x: "f32[2, 3, 4, 4]"}}\ngraph: {{y: {{op: {op}, in: x, '
        f"{word}: 2}}}}\noutputs: [y]\n"
    )
    with pytest.raises(
        SourceError, match=f"unknown key '{word}' for {op}(.|\n)*did you mean '{meant}'"
    ):
        load(file)


@pytest.mark.parametrize(
    "word",
    [
        "median",
        "put",
        "real",
        "cross",
        "log10",
        "tokenize",
        "yolo",
        "frobnicate",
        "backbone",
        "quantum",
        "myop",
        "resblock",
        "stem",
    ],
)
def test_a_word_that_means_nothing_here_has_no_hint(word: str) -> None:
    assert nearest(word, OPS) == ""


ALIKE = {
    "around": "round", "dsplit": "split", "hsplit": "split", "vsplit": "split", "fabs": "abs",
    "isneginf": "isinf", "isposinf": "isinf", "msort": "sort", "dstack": "stack",
    "unstack": "stack", "tri": "triu", "apply_along_axis": "take_along_axis",
}  # fmt: skip
"""What is spelled like one of our operations, and is near to it in meaning as well."""


def test_operations_elsewhere_are_not_hinted_at_by_their_letters() -> None:
    """Every function of NumPy and operator of ONNX: what we lack has a hint by its meaning, or
    none; `median` is no slip of `mean`.
    """
    schemas = pytest.importorskip("onnx.defs").get_all_schemas()
    names = {schema.name for schema in schemas}
    for room in (np, np.linalg):
        names |= {n for n, f in vars(room).items() if callable(f) and not isinstance(f, type)}
    wrong = {}
    for name in sorted(n for n in names if not n.startswith(("_", "get", "set"))):
        plain = name.lower()
        found = re.fullmatch("did you mean '(.*)'.", nearest(name, OPS))
        if not found or plain in SYNONYMS or plain in OPS or ALIKE.get(plain) == found[1]:
            continue
        if found[1].replace("_", "") != plain.replace("_", ""):
            wrong[name] = found[1]
    assert not wrong


def test_every_slip_of_one_letter_is_found() -> None:
    """A letter left out in the middle of an operation's name of five letters or more."""
    lost = [
        n
        for n in OPS
        if len(n) >= 5
        and (slip := n[: len(n) // 2] + n[len(n) // 2 + 1 :]) not in OPS
        and slip not in SYNONYMS
        and n not in nearest(slip, OPS)
    ]
    assert len(lost) <= 6, lost  # such as bool_or_ for logical_or, where another is as near


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("float", "f32"),
        ("float32", "f32"),
        ("half", "f16"),
        ("double", "f64"),
        ("int", "i32"),
        ("long", "i64"),
        ("bfloat16", "bf16"),
        ("boolean", "bool"),
    ],
)
def test_element_types_are_hinted_at_by_meaning(word: str, meant: str, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        f'xlac: 1\nmodel: m\ninputs: {{x: "{word}[2, 3]"}}\ngraph: {{y: relu(x)}}\noutputs: [y]\n'
    )
    with pytest.raises(SourceError, match=f"did you mean '{meant}'"):
        load(file)


@pytest.mark.parametrize(
    ("inputs", "graph", "hint"),
    [
        ("f32[n]", "x + 1", "dims: {n: {min: 1, max: 64}} declares it"),
        ("f32[4]", "x * $k", "params: {k: 1} declares it"),
        ("f32[4]", "{op: linear, in: x, units: -3}", "y.weight would have a negative size"),
    ],
)
def test_what_is_declared_nowhere_says_how(
    inputs: str, graph: str, hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(
        f"xlac: 1\nmodel: m\nweights: {{init: {{seed: 0}}}}\ninputs: {{x: '{inputs}'}}\n"
        f"graph: {{y: {graph}}}\noutputs: [y]\n"
    )
    with pytest.raises(SourceError) as error:
        load(file)
    assert hint in str(error.value)
