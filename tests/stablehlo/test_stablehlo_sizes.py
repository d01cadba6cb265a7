"""Sizes that the text leaves open: symbols, equations between them, and values that callers fix."""

from __future__ import annotations

import numpy as np
import pytest
from programs import main

from xlac.api import compile
from xlac.frontends.stablehlo import load, module
from xlac.model import Model
from xlac_sdk.source import SourceError

OPEN = "tensor<?x3xf32>"


def test_an_open_size_is_a_symbol_and_arithmetic_on_it_is_done_at_import() -> None:
    body = f"""
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : ({OPEN}) -> tensor<i32>
    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>
    %c = stablehlo.constant dense<3> : tensor<1xi32>
    %2 = stablehlo.multiply %1, %c : tensor<1xi32>
    %3 = stablehlo.dynamic_reshape %arg0, %2 : ({OPEN}, tensor<1xi32>) -> tensor<?xf32>
    %4 = stablehlo.dynamic_iota %2, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    %5 = stablehlo.add %3, %4 : tensor<?xf32>
    return %5 : tensor<?xf32>"""
    text = main([OPEN], ["tensor<?xf32>"], body)
    model = load(text)
    assert str(model.graph.outputs["out0"].shape) == "(3*arg0_0,)"
    program = compile(model, target="cpu")
    for n in (1, 4):
        x = np.ones((n, 3), np.float32)
        np.testing.assert_array_equal(program(x), 1 + np.arange(3 * n, dtype=np.float32))
    assert load(text, dims={"arg0_0": 2}).inputs[0].shape == (2, 3)


def test_sizes_that_must_be_equal_become_one_symbol() -> None:
    text = main(
        [OPEN, OPEN],
        [OPEN],
        f"    %0 = stablehlo.add %arg0, %arg1 : {OPEN}\n    return %0 : {OPEN}",
    )
    model = load(text)
    assert model.inputs[0].shape == model.inputs[1].shape
    with pytest.raises(SourceError, match="XL7203"):
        load(text, dims={"arg0_0": 2, "arg1_0": 5})


def test_an_assertion_makes_sizes_equal() -> None:
    body = f"""
    %0 = stablehlo.get_dimension_size %arg0, dim = 0 : ({OPEN}) -> tensor<i32>
    %1 = stablehlo.get_dimension_size %arg1, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %2 = stablehlo.constant dense<2> : tensor<i32>
    %3 = stablehlo.multiply %0, %2 : tensor<i32>
    %4 = stablehlo.compare EQ, %1, %3 : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%4) {{error_message = "one is twice the other"}} :
      (tensor<i1>) -> ()
    return %arg1 : tensor<?xf32>"""
    text = main([OPEN, "tensor<?xf32>"], ["tensor<?xf32>"], body)
    assert str(load(text).inputs[1].shape) == "(2*arg0_0,)"
    with pytest.raises(SourceError, match="one is twice the other"):
        load(text, dims={"arg0_0": 2, "arg1_0": 5})


def test_all_assertions_on_ranges_are_learned_in_one_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many: each attempt makes all operations again."""
    lines = [f"    %n = stablehlo.get_dimension_size %arg0, dim = 0 : ({OPEN}) -> tensor<i32>"]
    for number in range(60):
        lines.append(
            f"""    %c{number} = stablehlo.constant dense<{number}> : tensor<i32>
    %p{number} = stablehlo.compare GE, %n, %c{number} : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.custom_call @shape_assertion(%p{number}) : (tensor<i1>) -> ()"""
        )
    text = main([OPEN], [OPEN], "\n".join([*lines, f"    return %arg0 : {OPEN}"]))
    attempts: list[None] = []
    once = module.Import.model

    def counted(attempt: module.Import) -> Model:
        attempts.append(None)
        return once(attempt)

    monkeypatch.setattr(module.Import, "model", counted)
    (symbol,) = load(text).dims.values()
    assert symbol.min == 59 and len(attempts) == 2


def test_a_body_with_arguments_of_its_own_is_read() -> None:
    """They have no attributes: those of the head are fewer."""
    text = f"""func.func @main() -> {OPEN} {{
    ^bb0(%x: {OPEN}):
    return %x : {OPEN}
}}"""
    assert [n.name for n in load(text).inputs] == ["x"]


def test_a_size_that_an_input_decides_needs_its_value() -> None:
    body = """
    %0 = stablehlo.dynamic_broadcast_in_dim %arg0, %arg1, dims = [] :
      (tensor<f32>, tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>"""
    text = main(["tensor<f32>", "tensor<1xi32>"], ["tensor<?xf32>"], body)
    with pytest.raises(SourceError, match="XL7212"):
        load(text)
    model = load(text, params={"arg1": np.array([4], np.int32)})
    assert [n.name for n in model.inputs] == ["arg0"]
    np.testing.assert_array_equal(
        compile(model, target="cpu")(np.float32(2)), np.full(4, 2, np.float32)
    )
    with pytest.raises(SourceError, match="XL6001"):
        load(text, params={"other": 1})


def test_bounds_of_a_size() -> None:
    bounded = "tensor<?x3xf32, #stablehlo.bounds<8, ?>>"
    (symbol,) = load(main([bounded], [bounded], f"    return %arg0 : {bounded}")).dims.values()
    assert (symbol.min, symbol.max) == (0, 8)


def test_slices_pads_and_windows_with_sizes_as_operands() -> None:
    body = """
    %0 = stablehlo.constant dense<[1, 0]> : tensor<2xi64>
    %1 = stablehlo.constant dense<[4, 3]> : tensor<2xi64>
    %2 = stablehlo.constant dense<[2, 1]> : tensor<2xi64>
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %3 = stablehlo.real_dynamic_slice %arg0, %0, %1, %2 :
      (tensor<5x3xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<2x3xf32>
    %4 = stablehlo.dynamic_pad %3, %z, %0, %2, %0 :
      (tensor<2x3xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<6x4xf32>
    %n = stablehlo.constant dense<4> : tensor<i32>
    %5 = stablehlo.set_dimension_size %4, %n, dim = 0 :
      (tensor<6x4xf32>, tensor<i32>) -> tensor<4x4xf32>
    return %5 : tensor<4x4xf32>"""
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    found = np.asarray(
        compile(load(main(["tensor<5x3xf32>"], ["tensor<4x4xf32>"], body)), target="cpu")(x)
    )
    wanted = np.zeros((6, 4), np.float32)
    wanted[1:4:2, :3] = x[1:4:2]
    np.testing.assert_array_equal(found, wanted[:4])


def test_results_keep_the_names_that_export_writes() -> None:
    line = "tensor<2xf32>"
    infos = ("loss", "result", "result[1]", "twice", "twice", "out9", "")
    gives = [f'{line} {{jax.result_info = "{info}"}}' if info else line for info in infos]
    names, types = ", ".join(["%arg0"] * 7), ", ".join([line] * 7)
    text = main([line], gives, f"    return {names} : {types}")
    assert list(load(text).graph.outputs) == ["loss", *(f"out{n}" for n in range(1, 7))]
