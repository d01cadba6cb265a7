"""Sizes that the text leaves open: symbols, equations between them, and values that callers fix."""

from __future__ import annotations

import numpy as np
import pytest
from programs import main

from xlac.api import compile
from xlac.frontends.stablehlo import load, module
from xlac.ir.dims import UNBOUNDED, Symbol
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


def test_a_size_that_the_module_does_not_have_is_refused() -> None:
    text = main([OPEN], [OPEN], f"    return %arg0 : {OPEN}")
    with pytest.raises(SourceError, match="there is no size 'batch' to set") as caught:
        load(text, dims={"batch": 3})
    assert caught.value.diagnostics[0].hint == "known: arg0_0"


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


def asserted(lines: str) -> str:
    """A function of a vector of n elements, with assertions on n."""
    body = f"""
    %n = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf32>) -> tensor<i32>
{lines}
    stablehlo.custom_call @shape_assertion(%p) : (tensor<i1>) -> ()
    return %arg0 : tensor<?xf32>"""
    return main(["tensor<?xf32>"], ["tensor<?xf32>"], body)


def compared(left: str, direction: str, right: str = "0") -> str:
    return f"""    %c = stablehlo.constant dense<{right}> : tensor<i32>
{left}
    %p = stablehlo.compare {direction}, %x, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>"""


LINEAR = """    %a = stablehlo.constant dense<{0}> : tensor<i32>
    %b = stablehlo.constant dense<{1}> : tensor<i32>
    %m = stablehlo.multiply %n, %a : tensor<i32>
    %x = stablehlo.add %m, %b : tensor<i32>"""


@pytest.mark.parametrize(
    ("factor", "offset", "direction", "low", "high"),
    [
        (-1, 8, "GE", 0, 8),  # as JAX writes n <= 8
        (1, -2, "GE", 2, None),
        (3, -7, "GE", 3, None),
        (-2, 9, "GT", 0, 4),
        (2, -9, "LE", 0, 4),
        (-3, 6, "LT", 3, None),
        (-2, 12, "EQ", 6, 6),
        (1, -5, "NE", 0, None),
    ],
)
def test_bounds_that_linear_assertions_say(
    factor: int, offset: int, direction: str, low: int, high: int | None
) -> None:
    text = asserted(compared(LINEAR.format(factor, offset), direction))
    (symbol,) = load(text).dims.values()
    assert symbol.min == low
    assert symbol.max == (UNBOUNDED if high is None else high)


def test_bounds_hold_for_a_size_under_another_name() -> None:
    """As that of a program of `jax.export`."""
    text = asserted(compared(LINEAR.format(-1, 8), "GE"))
    (symbol,) = load(text, dims={"arg0_0": Symbol("batch", min=1)}).dims.values()
    assert (symbol.name, symbol.min, symbol.max) == ("batch", 1, 8)


@pytest.mark.parametrize("by", ["remainder", "subtraction"])
def test_multiples_that_assertions_say(by: str) -> None:
    four = "    %a = stablehlo.constant dense<4> : tensor<i32>\n"
    texts = {
        "remainder": "    %x = stablehlo.remainder %n, %a : tensor<i32>",
        "subtraction": """    %q = stablehlo.divide %n, %a : tensor<i32>
    %m = stablehlo.multiply %q, %a : tensor<i32>
    %x = stablehlo.subtract %n, %m : tensor<i32>""",
    }
    text = asserted(compared(four + texts[by], "EQ"))
    (symbol,) = load(text).dims.values()
    assert symbol.multiple_of == 4
    quarters = text.replace(
        "    return %arg0",
        """    %k = stablehlo.divide %n, %a : tensor<i32>
    %1 = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.reshape %a : (tensor<i32>) -> tensor<1xi32>
    %3 = stablehlo.concatenate %1, %2, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
    %4 = stablehlo.dynamic_reshape %arg0, %3 : (tensor<?xf32>, tensor<2xi32>) -> tensor<?x4xf32>
    return %arg0""",
    )
    compile(load(quarters), target="cpu")(np.ones(8, np.float32))


def divided(first: str, second: str, choice: str = "%n") -> str:
    """A vector of as many elements as JAX computes a floor division with."""
    body = f"""
    %n = stablehlo.get_dimension_size %arg0, dim = 0 : (tensor<?xf32>) -> tensor<i32>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %k = stablehlo.constant dense<{second}> : tensor<i32>
    %s = stablehlo.constant dense<{first}> : tensor<i32>
    %x = stablehlo.multiply %n, %s : tensor<i32>
    %q = stablehlo.divide %x, %k : tensor<i32>
    %r = stablehlo.remainder %x, %k : tensor<i32>
    %rest = stablehlo.compare NE, %r, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %a = stablehlo.compare LT, %x, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b = stablehlo.compare LT, %k, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %differ = stablehlo.compare NE, %a, %b : (tensor<i1>, tensor<i1>) -> tensor<i1>
    %both = stablehlo.and %differ, %rest : tensor<i1>
    %less = stablehlo.subtract %q, %one : tensor<i32>
    %floor = stablehlo.select %both, %less, %q : tensor<i1>, tensor<i32>
    %shape = stablehlo.reshape %floor : (tensor<i32>) -> tensor<1xi32>
    %0 = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>"""
    return main(["tensor<?xf32>"], ["tensor<?xf32>"], body)


def test_a_floor_division_that_an_undecided_rest_does_not_change() -> None:
    model = load(divided("3", "2"))
    assert str(model.graph.outputs["out0"].shape) == "(((3*arg0_0)//2),)"
    for n in (2, 3, 7):
        assert compile(model, target="cpu")(np.ones(n, np.float32)).shape == (3 * n // 2,)


@pytest.mark.parametrize(("first", "second"), [("-3", "2"), ("3", "-2"), ("3", "0"), ("-3", "0")])
def test_divisions_that_are_not_known_are_refused(first: str, second: str) -> None:
    with pytest.raises(SourceError, match="XL7212"):
        load(divided(first, second))
