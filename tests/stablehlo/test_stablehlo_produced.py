"""The StableHLO importer makes exactly the operations that it declares: the corpus and one program
for each operation that the corpus lacks.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stablehlo.programs import binary, main, unary
from xlac.frontends.produced import produced, verified
from xlac.frontends.stablehlo import load
from xlac.frontends.stablehlo.host_calls import calling, host_calls
from xlac.frontends.stablehlo.produced import PRODUCED
from xlac.ir.types import Type
from xlac.ops import build
from xlac_sdk.dtypes import DType

CORPUS = Path(__file__).parent / "corpus"
F32, SQUARE, CODES = "tensor<2xf32>", "tensor<3x3xf32>", "tensor<2xf8E4M3FN>"
UNARY = "acos acosh asin atan atanh bessel_i1e cosh digamma lgamma"
SOLVED = (
    "<{left_side = true, lower = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, "
    "unit_diagonal = false}>"
)
FORMAT = "<{exponent_bits = 5 : i32, mantissa_bits = 2 : i32}>"
TRANSFORM = "<{fft_type = #stablehlo<fft_type FFT>, fft_length = array<i64: 4>}>"
COMPLEX, HALF = "tensor<4xcomplex<f32>>", "tensor<3xcomplex<f32>>"
LINE, WHOLE, REPORT = "tensor<3xf32>", "tensor<3xi32>", "tensor<i32>"
PAIR, TWICE = "tensor<2xf32>", "tensor<3x3xcomplex<f32>>"
LAPACK = (
    ("sgetrf", "", [SQUARE], [SQUARE, WHOLE, REPORT]),
    ("sgeqrf", "", [SQUARE], [SQUARE, LINE]),
    ("sorgqr", "", [SQUARE, LINE], [SQUARE]),
    ("ssyevd", "mode = 86 : ui8, uplo = 76 : ui8", [SQUARE], [SQUARE, LINE, REPORT]),
    ("sgesdd", "mode = 65 : ui8", [SQUARE], [SQUARE, LINE, SQUARE, SQUARE, REPORT]),
    ("ssytrd", "uplo = 76 : ui8", [SQUARE], [SQUARE, LINE, PAIR, PAIR, REPORT]),
    ("cgetrf", "", [TWICE], [TWICE, WHOLE, REPORT]),
)


def lapack(name: str, given: str, takes: list[str], gives: list[str]) -> str:
    """A call of one of LAPACK's functions as a program."""
    count, types = len(gives), ", ".join(gives)
    found = [f"%0#{n}" if count > 1 else "%0" for n in range(count)]
    operands = ", ".join(f"%arg{n}" for n in range(len(takes)))
    return main(
        takes,
        gives,
        f"    %0{f':{count}' if count > 1 else ''} = stablehlo.custom_call @lapack_{name}_ffi"
        f"({operands}) {{mhlo.backend_config = {{{given}}}}} : ({', '.join(takes)}) -> "
        f"({types})\n    return {', '.join(found)} : {types}",
    )


CALLBACK = (
    '<{call_target_name = "xla_ffi_python_cpu_callback"}> '
    "{mhlo.backend_config = {index = 0 : ui64}}"
)
SHARED = (
    "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = "
    "#stablehlo.channel_handle<handle = 1, type = 1>"
)
LARGEST = """({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.maximum %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      })"""
PARTS = f"<{{{SHARED}, scatter_dimension = 0 : i64, use_global_device_ids}}> {LARGEST}"


def of_ranks(name: str, attributes: str, local: str, division: str) -> str:
    """A module that applies an operation on two ranks."""
    body = f"""\
    %0 = sdy.manual_computation(%arg0) in_shardings=[<@devices, [{{}}]>]
        out_shardings=[<@devices, [{{{division}}}]>] manual_axes={{"a"}} (%x: {F32}) {{
      %y = "stablehlo.{name}"(%x) {attributes} : ({F32}) -> {local}
      sdy.return %y : {local}
    }} : ({F32}) -> {F32}
    return %0 : {F32}"""
    return 'sdy.mesh @devices = <["a"=2]>\n' + main([F32], [F32], body)


OTHERS = (
    *(unary(f"chlo.{name}", F32, F32) for name in UNARY.split()),
    *(binary(f"chlo.{name}", F32, F32) for name in ("next_after", "polygamma", "zeta")),
    unary("stablehlo.logistic", F32, F32),
    unary("stablehlo.round_nearest_afz", F32, F32),
    unary("stablehlo.optimization_barrier", F32, F32),
    unary("stablehlo.cholesky", SQUARE, SQUARE, "<{lower = true}>"),
    unary("stablehlo.reduce_precision", F32, F32, FORMAT),
    unary("stablehlo.unary_einsum", SQUARE, "tensor<3xf32>", '<{einsum_config = "ij->i"}>'),
    unary("stablehlo.fft", COMPLEX, COMPLEX, TRANSFORM),
    unary("stablehlo.fft", "tensor<4xf32>", HALF, TRANSFORM.replace("FFT>", "RFFT>")),
    unary("stablehlo.fft", HALF, "tensor<4xf32>", TRANSFORM.replace("FFT>", "IRFFT>")),
    unary(
        "stablehlo.get_dimension_size", "tensor<?xf32>", "tensor<i32>", "<{dimension = 0 : i64}>"
    ),
    unary("stablehlo.convert", CODES, F32),
    unary("stablehlo.convert", F32, CODES),
    binary("stablehlo.triangular_solve", SQUARE, SQUARE, SOLVED),
    *(lapack(*each) for each in LAPACK),
    'sdy.mesh @devices = <["a"=2]>\n'
    + main(
        [F32],
        [F32],
        f'    %0 = sdy.sharding_constraint %arg0 <@devices, [{{"a"}}]> : {F32}\n'
        f"    return %0 : {F32}",
    ),
    of_ranks("collective_broadcast", f"<{{{SHARED}}}>", F32, ""),
    of_ranks("reduce_scatter", PARTS, "tensor<1xf32>", '"a"'),
    main(
        ["tensor<2xui64>"],
        ["tensor<2xui64>", "tensor<3xui32>"],
        "    %0:2 = stablehlo.rng_bit_generator %arg0, algorithm = THREE_FRY : "
        "(tensor<2xui64>) -> (tensor<2xui64>, tensor<3xui32>)\n"
        "    return %0#0, %0#1 : tensor<2xui64>, tensor<3xui32>",
    ),
)


def test_every_declared_operation_is_made_and_no_other() -> None:
    made: set[str] = set()
    for source in (*sorted(CORPUS.glob("*.mlir")), *OTHERS):
        made |= produced(load(source).graph)
    with host_calls():
        calling([abs])
        made |= produced(load(unary("stablehlo.custom_call", F32, F32, CALLBACK)).graph)
    assert sorted(made) == sorted(PRODUCED)


def test_what_is_not_declared_is_found_where_graphs_are_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = build.graph("g", [Type(DType.F32, (2,))], build.exp)
    monkeypatch.setenv("XLAC_VERIFY_EACH", "1")
    assert verified(graph, frozenset({"exp", "param"}), "ONNX") is graph
    with pytest.raises(AssertionError, match=r"ONNX: produced.py lacks exp"):
        verified(graph, frozenset({"param"}), "ONNX")
    monkeypatch.setenv("XLAC_VERIFY_EACH", "0")
    assert verified(graph, frozenset(), "ONNX") is graph
