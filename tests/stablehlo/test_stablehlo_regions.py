"""Operations with regions, calls, grouping and custom calls."""

from __future__ import annotations

import numpy as np
import pytest
from programs import main, one, results

from xlac.api import compile
from xlac.frontends.stablehlo import CUSTOM_CALLS, load
from xlac.ops import build
from xlac_sdk.source import SourceError

RNG = np.random.default_rng(8)
V, S = "tensor<4x6xf32>", "tensor<f32>"
X = RNG.normal(size=(4, 6)).astype(np.float32)


def test_reduce_with_any_region_and_initial_value() -> None:
    body = f"""
    %c = stablehlo.constant dense<5.0> : {S}
    %0 = "stablehlo.reduce"(%arg0, %c) <{{dimensions = array<i64: 1>}}> ({{
    ^bb0(%a: {S}, %b: {S}):
      %1 = stablehlo.maximum %b, %a : {S}
      stablehlo.return %1 : {S}
    }}) : ({V}, {S}) -> tensor<4xf32>
    %2 = "stablehlo.reduce"(%arg0, %c) <{{dimensions = array<i64: 0, 1>}}> ({{
    ^bb0(%a: {S}, %b: {S}):
      %3 = stablehlo.abs %b : {S}
      %4 = stablehlo.abs %a : {S}
      %5 = stablehlo.add %4, %3 : {S}
      stablehlo.return %5 : {S}
    }}) : ({V}, {S}) -> {S}
    return %0, %2 : tensor<4xf32>, {S}"""
    found = results(main([V], ["tensor<4xf32>", S], body), X)
    np.testing.assert_allclose(found[0], np.maximum(X.max(1), 5))
    np.testing.assert_allclose(found[1], np.abs(X).sum() + 5, 1e-5)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_window_over_all_before_is_a_running_sum(reverse: bool) -> None:
    padding = "[[0, 0], [0, 5]]" if reverse else "[[0, 0], [5, 0]]"
    body = f"""
    %c = stablehlo.constant dense<0.0> : {S}
    %0 = "stablehlo.reduce_window"(%arg0, %c) <{{padding = dense<{padding}> : tensor<2x2xi64>,
      window_dimensions = array<i64: 1, 6>}}> ({{
    ^bb0(%a: {S}, %b: {S}):
      %1 = stablehlo.add %a, %b : {S}
      stablehlo.return %1 : {S}
    }}) : ({V}, {S}) -> {V}
    return %0 : {V}"""
    text = main([V], [V], body)
    assert "cumulative" in {node.op.mnemonic for node in load(text).graph.nodes()}
    wanted = X[:, ::-1].cumsum(1)[:, ::-1] if reverse else X.cumsum(1)
    np.testing.assert_allclose(one(text, X), wanted, 1e-5, 1e-5)


def test_select_and_scatter_is_the_derivative_of_a_window() -> None:
    body = f"""
    %c = stablehlo.constant dense<0.0> : {S}
    %0 = "stablehlo.select_and_scatter"(%arg0, %arg1, %c) <{{
      padding = dense<[[0, 0], [1, 1]]> : tensor<2x2xi64>,
      window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}}> ({{
    ^bb0(%a: {S}, %b: {S}):
      %1 = stablehlo.compare GE, %a, %b : ({S}, {S}) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }}, {{
    ^bb0(%a: {S}, %b: {S}):
      %1 = stablehlo.add %a, %b : {S}
      stablehlo.return %1 : {S}
    }}) : ({V}, tensor<2x4xf32>, {S}) -> {V}
    return %0 : {V}"""
    source = RNG.normal(size=(2, 4)).astype(np.float32)
    wanted = np.zeros_like(X)
    padded = np.pad(X, ((0, 0), (1, 1)), constant_values=-np.inf)
    for i in range(2):
        for j in range(4):
            part = padded[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            r, c = np.unravel_index(part.argmax(), part.shape)
            wanted[2 * i + r, 2 * j + c - 1] += source[i, j]
    np.testing.assert_allclose(
        one(main([V, "tensor<2x4xf32>"], [V], body), X, source), wanted, 1e-6
    )


def test_map_applies_its_region_to_every_element() -> None:
    body = f"""
    %0 = "stablehlo.map"(%arg0, %arg1) <{{dimensions = array<i64: 0, 1>}}> ({{
    ^bb0(%a: {S}, %b: {S}):
      %c = stablehlo.constant dense<2.0> : {S}
      %1 = stablehlo.multiply %a, %c : {S}
      %2 = stablehlo.add %1, %b : {S}
      stablehlo.return %2 : {S}
    }}) : ({V}, {V}) -> {V}
    return %0 : {V}"""
    np.testing.assert_allclose(one(main([V, V], [V], body), X, -X), X, 1e-6)


def test_branches_capture_what_is_around_them() -> None:
    body = f"""
    %0 = "stablehlo.if"(%arg1) ({{
      %1 = stablehlo.add %arg0, %arg0 : {V}
      stablehlo.return %1 : {V}
    }}, {{
      %1 = stablehlo.negate %arg0 : {V}
      stablehlo.return %1 : {V}
    }}) : (tensor<i1>) -> {V}
    %2:2 = "stablehlo.case"(%arg2) ({{
      stablehlo.return %0, %arg0 : {V}, {V}
    }}, {{
      stablehlo.return %arg0, %0 : {V}, {V}
    }}) : (tensor<i32>) -> ({V}, {V})
    return %2#0, %2#1 : {V}, {V}"""
    text = main([V, "tensor<i1>", "tensor<i32>"], [V, V], body)
    for number, order in ((0, 1), (1, -1), (-1, -1), (9, -1)):  # out of range is the last
        found = results(text, X, np.bool_(True), np.int32(number))[::order]
        np.testing.assert_allclose(found[0], 2 * X)
        np.testing.assert_allclose(found[1], X)
    np.testing.assert_allclose(results(text, X, np.bool_(False), np.int32(0))[0], -X)


def test_tuples_tokens_barriers_and_calls() -> None:
    body = f"""
    %t = stablehlo.create_token : !stablehlo.token
    %u = stablehlo.after_all %t, %t : !stablehlo.token
    %0 = stablehlo.tuple %arg0, %u : tuple<{V}, !stablehlo.token>
    %1 = stablehlo.get_tuple_element %0[0] : (tuple<{V}, !stablehlo.token>) -> {V}
    %2:2 = stablehlo.optimization_barrier %1, %arg0 : {V}, {V}
    %3 = func.call @twice(%2#0) : ({V}) -> {V}
    %4 = stablehlo.composite "my.op" %3
      {{composite_attributes = {{k = 1 : i64}}, decomposition = @twice}} : ({V}) -> {V}
    %5 = stablehlo.custom_call @Sharding(%4) {{backend_config = ""}} : ({V}) -> {V}
    return %5 : {V}"""
    function = f"""  func.func private @twice(%x: {V}) -> {V} {{
    %0 = stablehlo.add %x, %x : {V}
    return %0 : {V}
  }}"""
    np.testing.assert_allclose(one(main([V], [V], body, function), X), 4 * X)


def test_a_user_enters_a_custom_call(monkeypatch: pytest.MonkeyPatch) -> None:
    text = main(
        [V],
        [V],
        f"    %0 = stablehlo.custom_call @my.scale(%arg0) : ({V}) -> {V}\n    return %0 : {V}",
    )
    with pytest.raises(SourceError, match="XL7209"):
        load(text)
    monkeypatch.setitem(CUSTOM_CALLS, "my.scale", lambda site: build.mul(site.number(0), 3.0))
    np.testing.assert_allclose(np.asarray(compile(load(text), target="cpu")(X)), 3 * X, 1e-6)


@pytest.mark.parametrize(("comparator", "plain"), [("LT", True), ("GT", True), ("GE", False)])
def test_sorts_in_a_plain_order_have_no_body(comparator: str, plain: bool) -> None:
    body = f"""
    %0:2 = "stablehlo.sort"(%arg0, %arg1) <{{dimension = 1 : i64, is_stable = true}}> ({{
    ^bb0(%a: {S}, %b: {S}, %c: {S}, %d: {S}):
      %1 = stablehlo.compare {comparator}, %a, %b : ({S}, {S}) -> tensor<i1>
      stablehlo.return %1 : tensor<i1>
    }}) : ({V}, {V}) -> ({V}, {V})
    return %0#0, %0#1 : {V}, {V}"""
    text = main([V, V], [V, V], body)
    (sort,) = (node.op for node in load(text).graph.nodes() if node.op.mnemonic == "sort")
    assert (sort.body is None) is plain  # type: ignore[attr-defined]
    found = results(text, X, -X)
    wanted = np.sort(X, 1)
    np.testing.assert_array_equal(found[0], wanted if comparator == "LT" else wanted[:, ::-1])
    np.testing.assert_array_equal(found[1], -found[0])


def test_random_numbers_are_spread_as_asked() -> None:
    body = """
    %shape = stablehlo.constant dense<[40, 50]> : tensor<2xi64>
    %0 = stablehlo.rng %arg0, %arg1, %shape, distribution = UNIFORM :
      (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<40x50xf32>
    %1 = stablehlo.rng %arg0, %arg1, %shape, distribution = NORMAL :
      (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<40x50xf32>
    return %0, %1 : tensor<40x50xf32>, tensor<40x50xf32>"""
    text = main([S, S], ["tensor<40x50xf32>"] * 2, body)
    uniform, normal = results(text, np.float32(2), np.float32(5))
    assert 2 <= uniform.min() < 2.1 and 4.9 < uniform.max() < 5 and abs(uniform.mean() - 3.5) < 0.1
    assert abs(normal.mean() - 2) < 0.4 and abs(normal.std() - 5) < 0.4


TOKEN = "!stablehlo.token"


@pytest.mark.parametrize("also", [False, True], ids=["tokens alone", "with a tensor"])
def test_branches_give_tokens(also: bool) -> None:
    more, typed, last = (", %arg0", f", {V}", "%0#1") if also else ("", "", "%arg0")
    gives = f"({TOKEN}{typed})" if also else TOKEN
    text = main(
        [V, "tensor<i32>"],
        [V],
        f"""    %t = stablehlo.create_token : {TOKEN}
    %0{":2" if also else ""} = "stablehlo.case"(%arg1) ({{
      stablehlo.return %t{more} : {TOKEN}{typed}
    }}, {{
      %1 = stablehlo.add %arg0, %arg0 : {V}
      stablehlo.return %t{more.replace("%arg0", "%1")} : {TOKEN}{typed}
    }}) : (tensor<i32>) -> {gives}
    return {last} : {V}""",
    )
    assert (one(text, X, np.int32(1)) == (X * 2 if also else X)).all()
    assert (one(text, X, np.int32(0)) == X).all()


def test_branches_that_give_less_than_the_text_says_are_refused() -> None:
    text = main(
        [V, "tensor<i32>"],
        [V],
        f"""    %0 = "stablehlo.case"(%arg1) ({{
      stablehlo.return
    }}) : (tensor<i32>) -> {V}
    return %0 : {V}""",
    )
    with pytest.raises(SourceError, match="regions give fewer tensors"):
        load(text)
