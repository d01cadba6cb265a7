"""Operations of a spec by name: from Python, in traced functions, ONNX and StableHLO."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from custom_ops import GATED, random
from registered_ops import ROOT, forgotten, gated, run_chapter

import xlac
from xlac_sdk.source import SourceError

A, B = random(4, 6), random(6, seed=1)
MLIR = """\
module { func.func @main(%a: tensor<4x6xf32>, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = stablehlo.custom_call @xlac.gated(%a, %b) {mhlo.backend_config = {slope = 4.0 : f64}}
    : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32> } }
"""
SECTION = {
    "gated": {
        "inputs": {"a": "f32[S, N]", "b": "f32[N]"},
        "outputs": {"y": "f32[S, N]"},
        "params": {"slope": 0.5},
        "expr": {"y": "a * b * $slope"},
        "kernels": {"cpu": "gated.c"},
    }
}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with forgotten():
        yield


def called(model: object) -> list[str]:
    """The kernels that a program calls."""
    return [fact["name"] for fact in model.program.facts.get("hand_written", ())]  # type: ignore[attr-defined]


def test_it_is_called_with_arrays_and_in_traced_functions() -> None:
    op = gated()
    np.testing.assert_array_equal(op(A, B, slope=2), A * B * 2)
    np.testing.assert_array_equal(op(A, B), A * B * np.float32(0.5))
    traced = xlac.jit(lambda a, b: op(a, b, slope=2) + 1, allow_kernels=True)
    np.testing.assert_array_equal(traced(A, B), A * B * 2 + 1)
    strict = xlac.jit(lambda a, b: op(a, b))
    with pytest.raises(SourceError, match="XL3032"):
        strict(A, B)


def test_attributes_that_are_equal_in_python_have_programs_of_their_own() -> None:
    op = gated()
    assert not np.signbit(op(np.ones_like(A), np.ones_like(B), slope=0.0)).any()
    assert np.signbit(op(np.ones_like(A), np.ones_like(B), slope=-0.0)).all()


def test_its_derivative_is_that_of_the_meaning() -> None:
    da, db = gated().run([A, B, A], {"slope": 2.0}, backward=True)
    np.testing.assert_allclose(da, A * B * 2, rtol=1e-6)
    np.testing.assert_allclose(db, (A * A * 2).sum(0), rtol=1e-5)


def test_onnx_nodes_of_the_domain_are_the_operation(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    gated("my.ops")
    node = helper.make_node("gated", ["a", "b"], ["y"], domain="my.ops", slope=3.0)
    types = [("a", [4, 6]), ("b", [6]), ("y", [4, 6])]
    a, b, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in types)
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("my.ops", 1)]
    model = helper.make_model(helper.make_graph([node], "g", [a, b], [y]), opset_imports=sets)
    onnx.save(model, tmp_path / "own.onnx")
    compiled = xlac.compile(tmp_path / "own.onnx", "cpu", allow_kernels=True)
    np.testing.assert_array_equal(compiled(A, B), A * B * 3)
    assert called(compiled) == ["gated"]


def test_custom_calls_of_stablehlo_are_the_operation(tmp_path: Path) -> None:
    gated()
    (tmp_path / "own.mlir").write_text(MLIR)
    compiled = xlac.compile(tmp_path / "own.mlir", "cpu", allow_kernels=True)
    np.testing.assert_array_equal(compiled(A, B), A * B * 4)
    assert called(compiled) == ["gated"]


def test_a_section_is_a_mapping_with_kernels_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "gated.c").write_text(GATED)
    op = xlac.register_op(SECTION, folder=tmp_path, allow_kernels=True)["gated"]
    np.testing.assert_array_equal(op(A, B, slope=2), A * B * 2)
    (tmp_path / "gated.c").write_text(GATED.replace("b[j]", "b[0]"))
    wrong = xlac.register_op(SECTION, domain="other", folder=tmp_path, allow_kernels=True)["gated"]
    with pytest.raises(SourceError, match="XL3034"):
        wrong(A, B)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        ((A, A), {}, "input 'b' is f32.N., and got f32.4, 6.*XL2009"),
        ((A,), {}, "takes 2 inputs.*XL2008"),
        ((A, B), {"slop": 1}, "unknown attribute 'slop'.*XL2005.*(?s:slope)"),
        ((A.astype("f8"), B), {}, "expected f32.*XL2009"),
    ],
)
def test_what_it_does_not_take_is_told(
    operands: tuple[np.ndarray, ...], attributes: dict[str, object], message: str
) -> None:
    with pytest.raises(SourceError, match=f"(?s){message}"):
        gated()(*operands, **attributes)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        (SECTION, {"domain": "a b"}, "is not a domain.*XL6007"),
        ({"twice": {"inputs": {}, "outputs": {"y": "f32"}, "expr": {"y": "1 +"}}}, {}, "XL1016"),
        ({}, {}, "declares no operations.*XL2002"),
        ({"f": {1}}, {}, "XL1012"),
    ],
)
def test_a_wrong_declaration_is_refused(spec: object, options: dict, message: str) -> None:
    with pytest.raises(SourceError, match=f"(?s){message}"):
        xlac.register_op(spec, **options)  # type: ignore[arg-type]


def test_a_name_is_registered_once() -> None:
    gated()
    with pytest.raises(SourceError, match=r"xlac\.gated is registered already.*XL1021"):
        gated()


def test_the_chapters_snippets_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    run_chapter()
