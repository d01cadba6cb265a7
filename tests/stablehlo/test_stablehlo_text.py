"""Reading text: both forms, constants, places of errors, limits, and text that somebody broke."""

from __future__ import annotations

import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import main, one

from xlac.frontends.stablehlo import load
from xlac.frontends.stablehlo.ops import refused  # noqa: F401 - fills the table
from xlac.frontends.stablehlo.table import REFUSED
from xlac.frontends.stablehlo.text.errors import DEPTH, MlirSource
from xlac.frontends.stablehlo.text.parser import parse
from xlac.ir.op import Array
from xlac_sdk.source import LimitError, SourceError, XlacError

CORPUS = Path(__file__).parent / "corpus"


def constant(text: str) -> Array:
    """A constant as the parser reads it."""
    type = text.rpartition(" : ")[2]
    module = parse(
        MlirSource(main([], [type], f"    %0 = stablehlo.constant {text}\n    return %0 : {type}"))
    )
    found: Array = module.functions["main"].body.operations[0].attributes["value"]
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("dense<[[1, -2], [3, 4]]> : tensor<2x2xi32>", np.array([[1, -2], [3, 4]], np.int32)),
        ("dense<7> : tensor<2x3xui8>", np.full((2, 3), 7, np.uint8)),
        ("dense<> : tensor<0x3xf32>", np.zeros((0, 3), np.float32)),
        ("dense<[true, false]> : tensor<2xi1>", np.array([True, False])),
        ("dense<0xFF800000> : tensor<f32>", np.array(-np.inf, np.float32)),
        ("dense<[0x7FC00000, 1.5e-3]> : tensor<2xf32>", np.array([np.nan, 1.5e-3], np.float32)),
        ('dense<"0x0000803F000000C0"> : tensor<2xf32>', np.array([1, -2], np.float32)),
        ('dense<"0x0000803F"> : tensor<2xf32>', np.array([1, 1], np.float32)),
        ('dense<"0x010001"> : tensor<3xi1>', np.array([True, False, True])),
        ('dense<"0x05"> : tensor<3xi1>', np.array([True, False, True])),
        ("dense<(1.0,-2.0)> : tensor<2xcomplex<f32>>", np.full(2, 1 - 2j, np.complex64)),
        (
            "dense<[(1.0,2.0), (0x7F800000,0.0)]> : tensor<2xcomplex<f32>>",
            np.array([1 + 2j, np.inf], np.complex64),
        ),
        ("dense<1.500000e+00> : tensor<bf16>", np.array(1.5, ml_dtypes.bfloat16)),
        ("dense<[1.5, 0x7F]> : tensor<2xf8E4M3FN>", np.array([0x3C, 0x7F], np.uint8)),
        ("dense<[7, -8, 9]> : tensor<3xi4>", np.array([7, -8, -7], np.int8)),
        ("dense<18446744073709551615> : tensor<ui64>", np.array(2**64 - 1, np.uint64)),
        ("dense<-9223372036854775808> : tensor<i64>", np.array(-(2**63), np.int64)),
    ],
)
def test_constants(text: str, wanted: Array) -> None:
    found = constant(text)
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert found.tobytes() == wanted.tobytes() or np.array_equal(found, wanted, equal_nan=True)


@pytest.mark.parametrize("text", [
    "dense<[1, 2]> : tensor<3xi32>", "dense<[[1], [2, 3]]> : tensor<2x2xi32>",
    "dense<300> : tensor<i8>", "dense<x> : tensor<f32>", 'dense<"0x00"> : tensor<2xf32>',
    'dense<"0xZZ"> : tensor<f32>', "dense<1.0> : tensor<?xf32>", "dense<1.0 : tensor<f32>",
])  # fmt: skip
def test_constants_that_do_not_fit(text: str) -> None:
    with pytest.raises(SourceError, match="XL7201"):
        constant(text)


@pytest.mark.parametrize("digits", ["FFFFFFF", "0G", "é0"])
def test_bytes_that_are_no_hexadecimal_digits_are_said_to_be_none(digits: str) -> None:
    """Not in the words of Python's functions."""
    text = f'%0 = stablehlo.constant dense<"0x{digits}"> : tensor<1xi8>'
    with pytest.raises(SourceError, match="XL7201") as caught:
        load(main([], ["tensor<1xi8>"], f"    {text}\n    return %0 : tensor<1xi8>"))
    assert "fromhex" not in str(caught.value)


def test_resources_come_after_the_module() -> None:
    text = main(
        [],
        ["tensor<2xf32>"],
        "    %0 = stablehlo.constant dense_resource<w> : tensor<2xf32>\n    return %0 : "
        "tensor<2xf32>",
    )
    text += (
        '{-#\n  dialect_resources: {\n    builtin: {\n      w: "0x040000000000803F00000040"\n '
        "   }\n  }\n#-}\n"
    )
    assert one(text).tolist() == [1, 2]


def test_both_forms_and_aliases_mean_the_same() -> None:
    generic = """
#loc1 = loc("x")
!row = tensor<3xf32>
"builtin.module"() <{sym_name = "m"}> ({
  "func.func"() <{function_type = (!row) -> !row, sym_name = "main"}> ({
  ^bb0(%arg0: !row loc(#loc1)):
    %0:2 = "stablehlo.optimization_barrier"(%arg0, %arg0) : (!row, !row) -> (!row, !row) loc(#loc1)
    %1 = "stablehlo.slice"(%0#1) <{limit_indices = array<i64: 3>, start_indices = array<i64: 0>,
      strides = array<i64: 1>}> : (!row) -> !row
    "func.return"(%1) : (!row) -> () loc(callsite("f"("a.py":1:2 to :3) at #loc1))
  }) : () -> ()
}) : () -> ()
"""
    assert one(generic, np.ones(3, np.float32)).tolist() == [1, 1, 1]


def test_an_error_tells_its_place(tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(
        main(
            ["tensor<2xf32>"],
            ["tensor<2xf32>"],
            "    %0 = stablehlo.frobnicate %arg0 : tensor<2xf32>\n    %1 = stablehlo.async_done %0 "
            ": tensor<2xf32>\n    return %1 : tensor<2xf32>",
        )
    )
    with pytest.raises(SourceError) as caught:
        load(file)
    first, second = caught.value.diagnostics
    assert (first.code, str(first.span)) == ("XL7202", f"{file}:3:10")
    assert second.code == "XL7208" and "other devices" in second.message


BROKEN = [
    ("%0 = stablehlo.add %arg0, %x : T; return %0 : T", "XL7204"),
    ("%0 = stablehlo.negate %arg0 : T; %0 = stablehlo.negate %arg0 : T; return %0 : T", "XL7204"),
    ("%0 = stablehlo.reshape %arg0 : (T) -> tensor<3xf32>; return %arg0 : T", "XL7203"),
    ("%0 = stablehlo.negate %arg0 : tensor<2xf64>; return %arg0 : T", "XL7203"),
    ("%0 = stablehlo.transpose %arg0, dims = [1] : (T) -> T; return %arg0 : T", "XL7203"),
    ("%0 = func.call @nobody(%arg0) : (T) -> T; return %0 : T", "XL7203"),
    ("return %arg0 : T; ^bb1:; return %arg0 : T", "XL7202"),
    ("%0 = stablehlo.negate %arg0 tensor<2xf32>", "XL7201"),
]


@pytest.mark.parametrize(("body", "code"), BROKEN)
def test_programs_that_make_no_sense(body: str, code: str) -> None:
    lines = re.sub(r"\bT\b", "tensor<2xf32>", body).split("; ")
    body = "\n".join(f"    {line}" for line in lines)
    with pytest.raises(SourceError, match=code):
        load(main(["tensor<2xf32>"], ["tensor<2xf32>"], body))


def test_results_need_no_names_and_lists_that_are_ragged_are_errors() -> None:
    unused = "    stablehlo.negate %arg0 : tensor<2xf32>\n    return %arg0 : tensor<2xf32>"
    assert one(
        main(["tensor<2xf32>"], ["tensor<2xf32>"], unused), np.ones(2, np.float32)
    ).tolist() == [1, 1]
    window = "dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {pad = [[1, 2], 3]}"
    types = "(tensor<1x1x4xf32>, tensor<1x1x2xf32>) -> tensor<1x1x6xf32>"
    body = (
        f"    %0 = stablehlo.convolution(%arg0, %arg1) {window} : {types}\n    return %0 : "
        "tensor<1x1x6xf32>"
    )
    with pytest.raises(SourceError, match="XL7203"):
        load(main(["tensor<1x1x4xf32>", "tensor<1x1x2xf32>"], ["tensor<1x1x6xf32>"], body))


def test_nesting_calls_and_sizes_have_limits() -> None:
    with pytest.raises(LimitError, match="XL7205"):
        load("module { func.func @main() attributes {a = " + "[" * (DEPTH + 9) + "}")
    calls = (
        "  func.func private @f(%x: tensor<f32>) -> tensor<f32> {\n    %0 = func.call @f(%x) "
        ": (tensor<f32>) -> tensor<f32>\n    return %0 : tensor<f32>\n  }"
    )
    body = (
        "    %0 = func.call @f(%arg0) : (tensor<f32>) -> tensor<f32>\n    return %0 : tensor<f32>"
    )
    with pytest.raises(LimitError, match="XL7205"):
        load(main(["tensor<f32>"], ["tensor<f32>"], body, calls))
    with pytest.raises(LimitError, match="XL7205"):
        load(
            main(
                ["tensor<99999999999x99999999999xf32>"],
                ["tensor<f32>"],
                "    return %arg0 : tensor<f32>",
            )
        )
    with pytest.raises(XlacError):
        load("module {")
    with pytest.raises(SourceError, match=r"XL7211|XL7210"):
        load(b"ML\xefR broken")


def test_every_refused_operation_has_a_reason() -> None:
    assert all(REFUSED.values()) and "async_start" in REFUSED


SMALL = [f.read_text() for f in sorted(CORPUS.glob("*.mlir")) if f.stat().st_size < 4000]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_broken_text_is_an_error_and_never_a_crash(data: st.DataObject) -> None:
    """Characters are dropped, doubled or replaced, or pieces are put into another program."""
    text = data.draw(st.sampled_from(SMALL))
    for _ in range(data.draw(st.integers(1, 4))):
        at, length = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 12))
        piece = data.draw(
            st.one_of(
                st.text(alphabet='<>{}()[]%#!@"x:,=-?0129.abft ', max_size=8),
                st.just(text[at : at + length] * 2),
            )
        )
        text = text[:at] + piece + text[at + length :]
    try:
        load(text)
    except XlacError as error:
        assert error.diagnostics and all(
            d.code.startswith(("XL72", "XL6")) for d in error.diagnostics
        )
