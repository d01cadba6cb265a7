"""Functions that trace operations take attributes as specs write them, and as NumPy does; what does
not fit is refused with the words of `xlac check`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import xlac
from xlac.frontends import tracing
from xlac.ir.graph import Graph
from xlac.ir.op import OPS, Sample
from xlac.ir.types import Type
from xlac.ops import build
from xlac.spec.elaborate import attributes
from xlac_sdk.dtypes import DType
from xlac_sdk.source import SourceError

BODIES = (Graph, np.ndarray)
LOOPS = set(
    "param pick cond while bounded_while scan counted_scan call custom_call custom_gradient "
    "custom_change custom_op".split()
)
"""What no function of a user's applies by name, or has no samples."""


def as_text(value: Any) -> Any:
    """A value as a YAML file has it: texts, numbers, lists."""
    if isinstance(value, list | tuple):
        return [as_text(part) for part in value]
    return str(value) if isinstance(value, DType | Type) else value


def as_numpy(value: Any) -> Any:
    """A value in NumPy's types."""
    if isinstance(value, list | tuple):
        return tuple(as_numpy(part) for part in value)
    if isinstance(value, DType):
        return value.numpy
    return np.array(value)[()] if isinstance(value, bool | int | float) else value


def made_by(result: Any) -> list[tuple[Any, Any]]:
    """The operations of what a function gives, and their types."""
    made = result if isinstance(result, tuple) else (result,)
    ends = {str(n): tensor.node for n, tensor in enumerate(made)}
    return [(node.op, node.types) for node in Graph("made", (), ends).order]


def written_defaults(name: str) -> dict[str, Any]:
    """What attributes are when nobody says them, where short and long forms agree."""
    fields = dataclasses.fields(OPS[name]) if name not in attributes.FORMS else ()
    return {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}


def distinct(name: str) -> list[Sample]:
    return list({str(sample.attributes): sample for sample in OPS[name].samples()}.values())


@pytest.mark.parametrize("way", [as_text, as_numpy])
def test_every_attribute_of_every_operation_is_taken_as_specs_write_it(way: Any) -> None:
    seen: set[tuple[str, str]] = set()
    for name in sorted(set(OPS) - LOOPS):
        for sample in distinct(name):
            every = {**written_defaults(name), **sample.attributes}
            given = {k: v for k, v in every.items() if k in attributes.names(OPS[name])}
            rest = {k: v for k, v in every.items() if k not in given}
            assert all(isinstance(v, BODIES) or v is None for v in rest.values())
            params = (build.param(f"x{n}", t.dtype, t.shape) for n, t in enumerate(sample.inputs))
            inputs = [tracing.Tensor(param) for param in params]
            call = tracing.function(name)
            assert call is not None
            expected = made_by(call(*inputs, **sample.attributes))
            told = {k: way(v) for k, v in given.items()}
            assert made_by(call(*inputs, **told, **rest)) == expected, (name, told)
            seen |= {(name, k) for k in given}
    every_name = {(name, k) for name in set(OPS) - LOOPS for k in attributes.names(OPS[name])}
    assert every_name - seen <= {("slice", "axes"), ("sort", "stable")}


def test_types_are_text_too() -> None:
    x = tracing.Tensor(build.param("x", DType.F32, (2,)))
    made = xlac.custom_call(x, name="mine", attributes=[["k", 2]], results=["f32[2, 3]", "i64"])
    assert [str(tensor.node.type) for tensor in made] == ["f32[2, 3]", "i64[]"]


@pytest.mark.parametrize(
    "call, code, told",
    [
        (lambda x: xlac.cast(x, dtype="f99"), "XL2006", "dtype of cast: expected an element type"),
        (lambda x: x.astype(np.complex64), "XL2006", "found the text 'complex64'"),
        (lambda x: xlac.cast(x), "XL2007", "cast needs 'dtype'"),
        (lambda x: xlac.sum(x, axes=0), "XL2005", "did you mean 'axis'?"),
        (lambda x: xlac.sum(x, axis="0"), "XL2006", "expected a whole number"),
        (lambda x: xlac.softmax(x, axis=1.0), "XL2006", "axis of softmax: expected a whole number"),
        (lambda x: xlac.gelu(x, approximate="erf"), "XL2006", "none or tanh; found the text 'erf'"),
        (lambda x: xlac.custom_call(x, results=["f32[n]"]), "XL2004", "results of custom_call: "),
    ],
)
def test_what_does_not_fit_is_said(call: Any, code: str, told: str) -> None:
    with pytest.raises(SourceError) as caught:
        xlac.jit(call)(np.ones((2, 3), np.float32))
    assert code in str(caught.value) and told in str(caught.value)
